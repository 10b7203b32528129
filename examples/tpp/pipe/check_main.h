/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_CHECK_MAIN_H
#define TPP_COMMAND_CHECK_MAIN_H

/* `tpp check`: is a schedule right? */
int check_main(int argc, char **argv);

#endif
