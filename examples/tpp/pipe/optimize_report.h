/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_OPTIMIZE_REPORT_H
#define TPP_COMMAND_OPTIMIZE_REPORT_H

#include "pipe_run.h"

/* What a search found. */
struct optimize_result {
    const struct pipe_config *config;
    const struct pipe_source *source;
    const struct pipe_run *run; /* of the schedule found */
    const tpp_optimize_report *report;
};

/* Both return 0 or EXIT_FAILED, after one sentence. */
int optimize_print_report(FILE *out, const struct optimize_result *result);
int optimize_print_json(FILE *out, const struct optimize_result *result);

#endif
