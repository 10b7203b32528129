/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_SCHED_ATOMS_H
#define TPP_SUPPORT_SCHED_ATOMS_H

/* Times of a schedule's compute actions, for costs of F, I and W, with overlapped pairs as atoms and
 * two directions; shares nothing with the library. Messages take no time and no room. */

#include <stdbool.h>
#include <tpp/schedule.h>

enum { SCHED_ATOMS_RANKS = 64 };

typedef struct sched_costs {
    double f, i, w; /* of one action; a B takes i + w */
    double fb;      /* of an overlapped pair; 0: f + i + w */
} sched_costs;

typedef struct sched_atoms {
    bool finished; /* false: ranks wait for each other, or want what there is not */
    double makespan;
    double idle; /* makespan less the work of the rank that works least */
    double span; /* most of any rank: from its first start to its last end, less its work */
    int32_t peak[SCHED_ATOMS_RANKS]; /* forwards held, from F to B or W */
    int32_t most;                    /* of these */
} sched_atoms;

sched_atoms sched_atoms_run(const tpp_schedule *schedule, sched_costs costs);

/* What is wrong with the compute actions, NULL: nothing. Right is: each stage has each micro-batch of
 * its direction once, F and (B, or I and W), on the rank that `rank_of` tells, B and W of a stage in
 * rising order of micro-batches, pairs are an F and a B. */
const char *sched_atoms_fault(const tpp_schedule *schedule, int32_t directions,
                              int32_t (*rank_of)(int32_t ranks, int32_t stage));

/* Placements to compare with. */
int32_t sched_atoms_v(int32_t ranks, int32_t stage);
int32_t sched_atoms_two_way(int32_t ranks, int32_t stage);

#endif
