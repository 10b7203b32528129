/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_SAMPLE_H
#define TPP_PROGRAM_SAMPLE_H

#include <tpp/tpp.h>

/* What the executor told about one step. */
struct sample {
    tpp_trace *trace;
    tpp_run_report report;
    double *row_work; /* [rows] */
};

/* The last steps of a run, each with a trace of its own; the oldest makes room for the newest. */
struct sampler {
    struct sample *samples;
    int32_t capacity;
    int32_t rows;      /* pipeline ranks * lanes */
    int64_t steps;     /* noted so far */
    int32_t *row_peak; /* [rows]: most stash slots in use at once, over all steps */
    int32_t *step_peak;
};

/* capacity 0: nothing is kept. */
tpp_status sampler_create(struct sampler *sampler, const tpp_schedule *schedule, int32_t lanes,
                          int32_t capacity);

/* Where the next step goes; NULL when nothing is kept. */
tpp_trace *sampler_trace(struct sampler *sampler, int64_t step);
tpp_run_report *sampler_report(struct sampler *sampler, int64_t step);

/* The step has ended well. */
void sampler_note(struct sampler *sampler);

/* Number of steps kept, and the i-th of them, oldest first. */
int32_t sampler_count(const struct sampler *sampler);
const struct sample *sampler_get(const struct sampler *sampler, int32_t i);

/* The step of median length: what most looked like. NULL when none is kept. */
const struct sample *sampler_typical(const struct sampler *sampler);

void sampler_destroy(struct sampler *sampler);

#endif
