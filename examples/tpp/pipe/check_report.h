/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_CHECK_REPORT_H
#define TPP_COMMAND_CHECK_REPORT_H

#include "check_facts.h"

struct check_result {
    const struct pipe_config *config;
    const struct pipe_source *source;
    const struct check_rules *rules;
    const struct check_facts *facts;
};

/* Both return 0 or EXIT_FAILED, after one sentence. */
int check_print_report(FILE *out, const struct check_result *result);
int check_print_json(FILE *out, const struct check_result *result);

#endif
