/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_PIPE_HELP_H
#define TPP_COMMAND_PIPE_HELP_H

#include "pipe_config.h"

/* The help of a pipeline's command: options and names of orders stand between head and tail. */
struct pipe_help {
    const char *head, *tail;
    const struct option_row *options;
    int names; /* list the built-in orders */
};

/* Returns 0 or EXIT_FAILED. */
int pipe_help_print(const struct pipe_help *help);

#endif
