/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_OPTIMIZE_MAIN_H
#define TPP_COMMAND_OPTIMIZE_MAIN_H

/* `tpp optimize`: search for a schedule. */
int optimize_main(int argc, char **argv);

#endif
