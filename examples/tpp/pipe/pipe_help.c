/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "pipe_help.h"

#include "../say.h"
#include "pipe_source.h"

int pipe_help_print(const struct pipe_help *help) {
    struct pipe_config defaults = pipe_config_default();
    fputs(help->head, stdout);
    options_print(stdout, help->options, &defaults);
    if (help->names) {
        pipe_source_print_names(stdout);
    }
    fputs(help->tail, stdout);
    return fflush(stdout) ? system_error("the help cannot be written") : EXIT_DONE;
}
