/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_STEP_TOY_SEAT_H
#define TPP_SUPPORT_STEP_TOY_SEAT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "support/comm_threads.h"
#include "support/step_toy.h"

enum { TOY_RANKS_MOST = 8, TOY_CHUNKS = 4 };

/* A rank of the toy model. */
typedef struct toy_seat {
    const step_toy *toy;
    tpp_schedule_info info;
    int32_t rank;
    tpp_comm *comm;
    tpp_validation *validation;
    comm_random random;
    int64_t step; /* of the run under way */
    int32_t calls;
    bool pending, stepped, drained;
    double w[TOY_CHUNKS], m[TOY_CHUNKS], sum[TOY_CHUNKS], undo[TOY_CHUNKS];
    double last[TOY_MICROS]; /* gradient of the last stage's output */
    double g[TOY_CHUNKS][TOY_MICROS];
    int32_t wrong[TOY_STEPS];
    int64_t runs;
    tpp_status status;
    bool told;         /* this is the one that failed first */
    atomic_int *ahead; /* of toy.gate: the first rank is in the second step */
} toy_seat;

double toy_start_of(int32_t stage);

/* The callbacks; their context is a toy_seat. */
extern const tpp_stage_ops toy_seat_ops;

/* After a run: pass on what there is to know, and step if by that it is right. */
tpp_status toy_seat_step(toy_seat *s);

/* Wait for the verdict and make the step as it has to be; false: the early one had other bits, or the
 * comm failed (s->status). */
bool toy_seat_settle(toy_seat *s);

#endif
