/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_SCHEDULE_MAIN_H
#define TPP_COMMAND_SCHEDULE_MAIN_H

/* `tpp schedule`: print a schedule. */
int schedule_main(int argc, char **argv);

#endif
