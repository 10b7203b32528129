/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_SIMULATE_MAIN_H
#define TPP_COMMAND_SIMULATE_MAIN_H

/* `tpp simulate`: how long a schedule takes and what it holds. */
int simulate_main(int argc, char **argv);

#endif
