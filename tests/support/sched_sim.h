/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_SCHED_SIM_H
#define TPP_SUPPORT_SCHED_SIM_H

/* An event simulator that shares nothing with the library: ranks are swept over and over, each does
 * what it can do. Works on compute actions alone (results reach other ranks at once) and on lowered
 * schedules (they reach them by their messages, which take no time; a gradient that was sent lies
 * in its slot until it is received, and who wants to write there waits). */

#include <stdbool.h>
#include <tpp/schedule.h>

enum { SCHED_SIM_RANKS = 64 };

typedef struct sched_sim {
    bool finished;      /* false: the ranks wait for each other */
    double makespan;    /* end of the last action */
    double forward_end; /* end of the last F */
    double work[SCHED_SIM_RANKS];
    double start[SCHED_SIM_RANKS], end[SCHED_SIM_RANKS]; /* of the first and last compute action */
    int32_t peak[SCHED_SIM_RANKS];       /* chunk forwards held at once, from F to B or W */
    int32_t peak_input[SCHED_SIM_RANKS]; /* the same, from F to B or I */
} sched_sim;

/* All for the whole of a rank, which is shared evenly by its chunks; B takes input + weight. */
typedef struct sched_sim_costs {
    double forward, input, weight;
    double latency; /* of a lowered schedule: from the end of a send to where it can be received */
} sched_sim_costs;

sched_sim sched_sim_costs_run(const tpp_schedule *schedule, sched_sim_costs costs);

/* `forward` and `backward` are for all chunks of a rank; I and W take half of `backward` each. */
sched_sim sched_sim_run(const tpp_schedule *schedule, double forward, double backward);

#endif
