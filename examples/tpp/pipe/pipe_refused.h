/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_PIPE_REFUSED_H
#define TPP_COMMAND_PIPE_REFUSED_H

/* The library refused what an option gave: its sentence, with the option's name. Returns EXIT_USAGE. */
int pipe_refused(void);

#endif
