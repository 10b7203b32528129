/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_STOP_H
#define TPP_PROGRAM_STOP_H

/* From now on the first SIGINT (Ctrl-C) or SIGTERM is only noted; a second one ends the program
 * at once. */
void stop_watch(void);

/* The signal that asked to stop, or 0. */
int stop_signal(void);

#endif
