/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_GENERATE_MAIN_H
#define TPP_PROGRAM_GENERATE_MAIN_H

/* The subcommand; argv[0] is its name. Returns the program's exit code. */
int generate_main(int argc, char **argv);

#endif
