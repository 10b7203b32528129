/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_PIPE_FORMS_H
#define TPP_COMMAND_PIPE_FORMS_H

#include "pipe_run.h"

/* Write a schedule in a form, FORM_...; `run`, with its trace, only for pictures. `path` NULL: to
 * `out`. Returns 0 or EXIT_FAILED, after one sentence. */
int pipe_forms_write(FILE *out, const char *path, int32_t form, const struct pipe_source *source,
                     const struct pipe_run *run);

/* The pictures that options ask for; NULL: none. Returns as above. */
int pipe_forms_draw(const struct pipe_config *config, const struct pipe_source *source,
                    const struct pipe_run *run);

/* Is this form a picture of a run? */
int pipe_forms_drawn(int32_t form);

#endif
