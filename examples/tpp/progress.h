/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_PROGRESS_H
#define TPP_PROGRAM_PROGRESS_H

#include "history.h"
#include "train_config.h"

/* A line on stderr about the last step: rewritten in place on a terminal, else every tenth step. */
struct progress {
    const struct train_config *config;
    int terminal;
    double started, shown; /* moments; 0: nothing shown yet */
};

struct progress progress_begin(const struct train_config *config);
void progress_step(struct progress *progress, const struct history *history);

/* Leave the line as it stands. */
void progress_end(struct progress *progress);

#endif
