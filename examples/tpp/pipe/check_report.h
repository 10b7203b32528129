/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_CHECK_REPORT_H
#define TPP_COMMAND_CHECK_REPORT_H

#include "check_rules.h"
#include "pipe_run.h"

struct check_result {
    const struct pipe_config *config;
    const struct pipe_source *source;
    const struct check_rules *rules;
    const struct pipe_run *run; /* of a right schedule with equal costs; NULL: there is none */
};

/* Both return 0 or EXIT_FAILED, after one sentence. */
int check_print_report(FILE *out, const struct check_result *result);
int check_print_json(FILE *out, const struct check_result *result);

#endif
