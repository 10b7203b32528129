/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_GENERATE_REPORT_H
#define TPP_PROGRAM_GENERATE_REPORT_H

#include <stdio.h>

#include "generate_config.h"

/* Texts under way, with what they cost. */
struct generation {
    const struct generate_config *config;
    int32_t context;
    int32_t steps;   /* done: bytes behind each prompt */
    double *seconds; /* [tokens]: the first reads the prompts */
    int32_t *ids;    /* [prompts][tokens] */
    int stopped;     /* the signal that ended it early, or 0 */
};

/* Of the steps after the first: 0.5 is the median. 0 when there is none. */
double generation_quantile(const struct generation *g, double share);

/* The times, as text. */
void generation_print_times(FILE *out, const struct generation *g);

/* Prompt and text, in whole characters. */
void generation_print_text(FILE *out, const struct generation *g, int32_t text);

/* Returns 0 or EXIT_FAILED, after one sentence. */
int generation_write_json(FILE *out, const struct generation *g);

#endif
