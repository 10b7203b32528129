/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_OPTIMIZE_SEARCH_H
#define TPP_COMMAND_OPTIMIZE_SEARCH_H

#include "pipe_source.h"

/* Search for a schedule, with progress on stderr, until the time is over, the best is proved or a
 * signal asks to stop. Returns 0, EXIT_USAGE or EXIT_FAILED, after one sentence. */
int optimize_search(struct pipe_source *out, tpp_optimize_report *report,
                    const struct pipe_config *config);

#endif
