/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_SCHED_FAULTS_H
#define TPP_SUPPORT_SCHED_FAULTS_H

#include <tpp/schedule.h>

#include <stdbool.h>

/* All that is wrong with lists of actions, found by counting and by looking back, with nothing of
 * the library. */

enum { SCHED_PLAN_RANKS = 3, SCHED_PLAN_ACTIONS = 128, SCHED_PLAN_STAGES = 8 };

enum {
    SCHED_MISSING = 1,
    SCHED_DOUBLED = 2,
    SCHED_FOREIGN = 4,      /* no such operation, stage, micro-batch, message; I or W beside a B */
    SCHED_MISPLACED = 8,    /* on a rank that is not its stage's */
    SCHED_WRONG_FIELD = 16, /* chunk, peer or tag */
    SCHED_BAD_PAIR = 32,    /* flags that mean nothing here */
    SCHED_EARLY = 64,       /* before what it needs on its own rank */
    SCHED_OVERWRITE = 128,  /* over a result that is not sent yet */
    SCHED_STUCK = 256,      /* ranks wait for each other */
    SCHED_FAULTS = 9        /* their number */
};

typedef struct sched_plan {
    int32_t ranks, stages, micros, depth;
    bool messages; /* there are such */
    int32_t rank_of[SCHED_PLAN_STAGES], chunk_of[SCHED_PLAN_STAGES];
    int32_t count[SCHED_PLAN_RANKS];
    tpp_action of[SCHED_PLAN_RANKS][SCHED_PLAN_ACTIONS];
} sched_plan;

void sched_plan_of(sched_plan *out, const tpp_schedule *schedule);

/* All but the last three. */
uint32_t sched_faults(const sched_plan *plan);

/* Of a plan without those: SCHED_EARLY; of one that has slots, SCHED_OVERWRITE. */
uint32_t sched_early(const sched_plan *plan);
uint32_t sched_overwrites(const sched_plan *plan);

#endif
