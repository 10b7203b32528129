/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_STEP_TOY_H
#define TPP_SUPPORT_STEP_TOY_H

/* A model of one number per stage, y = w x and a little, trained over a pipeline with steps that are taken
 * early (validation.h), and the same by a plain loop that waits for everything. */

#include <tpp/tpp.h>

enum { TOY_STEPS = 14, TOY_STAGES = 16, TOY_MICROS = 8 };

enum { TOY_SERIAL = 0, TOY_THREADS = 1, TOY_RANKS = 2 }; /* executors; RANKS: distributed ones */

typedef struct step_toy {
    const tpp_schedule *schedule;
    int32_t executor;
    double clip;
    int32_t fail_rank; /* its fail_call-th callback in runs of fail_step fails, from 1 */
    int32_t fail_call;
    int64_t fail_step; /* -1: none */
    uint64_t seed;     /* of delays */
    /* 1: the last rank's W of the last micro-batch waits in the first step until the first rank is in
     * the second one */
    int32_t gate;
} step_toy;

typedef struct step_toy_result {
    double w[TOY_STAGES], m[TOY_STAGES]; /* by stage of the model */
    int32_t wrong[TOY_STEPS];            /* clipped, or not finite */
    int64_t runs;                        /* of each rank */
} step_toy_result;

/* Fails the test when a rank fails, or when ranks that should agree do not. */
void step_toy_train(const step_toy *toy, step_toy_result *out);

/* The same, of which every rank has to fail because one does. */
void step_toy_fail(const step_toy *toy);

/* The plain loop. */
void step_toy_plain(int32_t depth, int32_t micros, double clip, step_toy_result *out);

#endif
