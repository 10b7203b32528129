/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SCHED_V_PATTERN_H
#define TPP_SCHED_V_PATTERN_H

#include "sched/sched_impl.h"

/* A schedule from a building block: the times at which one micro-batch passes the V, repeated every
 * TPP__SCHED_PERIOD units of time, in which a rank has as much to do as that (Qi et al. 2024). F, I
 * and W take a unit each, B two. */
enum { TPP__SCHED_PERIOD = 6 };

/* Chunk 0 of a rank lies on the way down, chunk 1 on the way up. */
typedef struct tpp__sched_block {
    int32_t forward[2];  /* when F of micro-batch 0 starts */
    int32_t backward[2]; /* its I or B */
} tpp__sched_block;

typedef struct tpp__sched_pattern {
    tpp__sched_block (*block)(int32_t ranks, int32_t rank);
    bool whole;   /* B; else I, and W wherever nothing else is to do */
    bool steady;  /* the order of the steady state must not change */
    int32_t most; /* chunk forwards that a rank may hold; the bare pattern must not need more */
} tpp__sched_pattern;

/* Fill in all ranks: the pattern, then each action as early as it can be, in the order in which they
 * stood. Meanwhile 8 bytes for each unit of time of each rank, 6 * (micros + 1) and the time that a
 * micro-batch takes, and 12 for each stage and micro-batch are needed. */
tpp_status tpp__sched_from_pattern(tpp_schedule *s, const tpp__sched_pattern *pattern);

#endif
