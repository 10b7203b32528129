/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_MEASURE_H
#define TPP_PROGRAM_MEASURE_H

#include "team.h"

/* The pipeline's times over the last steps, measured, and simulated from the mean time of each
 * operation. */
struct measure {
    int32_t steps;         /* measured; 0: nothing below is set */
    int32_t stages, ranks; /* virtual stages, pipeline ranks */
    double *forward;       /* [stages]: mean seconds of F */
    double *backward;      /* [stages]: of a micro-batch's B, or of its I and W together */
    double *op[5];         /* [TPP_OP_W + 1][stages]: of each operation; 0 where there is none */
    double *idle; /* [ranks]: share of the step in which the rank did not compute, measured */
    double *idle_simulated;          /* [ranks] */
    double bubble, bubble_simulated; /* mean of idle over the ranks */
    double bubble_equal;             /* simulated with stages that all take the mean time */
    double makespan,
        makespan_simulated; /* seconds from the first start to the last end of a step */
};

/* Returns 0 or EXIT_FAILED, after one sentence. */
int measure_create(struct measure *out, const struct team *team);

void measure_free(struct measure *measure);

#endif
