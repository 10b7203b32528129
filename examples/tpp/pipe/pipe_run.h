/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_PIPE_RUN_H
#define TPP_COMMAND_PIPE_RUN_H

#include "pipe_costs.h"

/* A part of the critical path. */
enum {
    PATH_FORWARD,
    PATH_BACKWARD,
    PATH_INPUT,
    PATH_WEIGHT,
    PATH_PAIRS, /* overlapped: F and B in one */
    PATH_MESSAGES,
    PATH_STEP,
    PATH_PARTS
};
struct pipe_path {
    double time;
    int64_t count;
};

/* A simulated step. */
struct pipe_run {
    tpp_run_report report; /* its arrays, [ranks], are this struct's own */
    double *peak_to_w;     /* [ranks]: most micro-batches held up to B or W, in full stages */
    double *peak_to_i;     /* [ranks]: up to B or I */
    double span;           /* largest of last end - first start over the ranks */
    double memory_peak;    /* largest over the ranks */
    struct pipe_path path[PATH_PARTS];
    tpp_trace *trace;
};

/* Simulate a finished schedule. Returns 0 or EXIT_FAILED, after one sentence. */
int pipe_run_make(struct pipe_run *out, const struct pipe_source *source,
                  const struct pipe_costs *costs, int pictures);
void pipe_run_free(struct pipe_run *run);

/* a / b, and 0 where there is nothing to divide by. */
double pipe_share(double a, double b);

#endif
