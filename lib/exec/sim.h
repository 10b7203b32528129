/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_EXEC_SIM_H
#define TPP_EXEC_SIM_H

#include "exec/run_report.h"

/* The simulator in parts: sim_costs.c reads the costs, sim_plan.c lays a run out and finds the edges
 * between ranks, sim_walk.c follows the ranks, sim_path.c goes back from the end, by what sim_atom.c
 * finds; sim.c joins them. */

#define TPP__SIM_OPS (TPP_OP_W + 1)
#define TPP__SIM_NONE UINT32_MAX /* no result; tables have at most 2^32 - 2 entries */

/* Two ways that results take: outputs of F to the next stage, gradients to the one before. */
enum { TPP__SIM_UP = 0, TPP__SIM_DOWN = 1, TPP__SIM_WAYS = 2 };

static inline int tpp__sim_way(int32_t op) {
    return op == TPP_OP_F ? TPP__SIM_UP : TPP__SIM_DOWN;
}

/* Costs as the simulator keeps them; arrays are [stages]. */
typedef struct tpp__sim {
    tpp_allocator allocator;
    int64_t bytes;
    int32_t stages;
    uint32_t flags;             /* TPP_SIM_... */
    bool pairs;                 /* overlapped pairs have a time of their own */
    bool links;                 /* messages occupy links */
    bool steps;                 /* there is an optimizer step */
    double *cost[TPP__SIM_OPS]; /* THE duration of F, B, I, W; [0]: of an FB, at its F's stage */
    double *latency;            /* of the edge from the stage to the next one, and back */
    double *send[TPP__SIM_WAYS];
    double *memory; /* bytes from F to I or B */
    double *memory_weight;
    double *memory_state;
    double *optimizer;
} tpp__sim;

/* What an action of a stage takes, needs and makes: a cache line. Results are those that pass from
 * rank to rank; what a rank needs of itself stands before in its own order. */
typedef struct tpp__sim_stage {
    _Alignas(TPP__ALIGN) double cost[TPP_OP_W]; /* F, B, I, W */
    double late[TPP__SIM_WAYS];                 /* from a needed result to here */
    uint32_t need[TPP__SIM_WAYS]; /* of F and of B or I: first micro-batch's place in made */
    uint32_t make[TPP__SIM_WAYS]; /* likewise */
} tpp__sim_stage;

/* What only some simulations look at. */
typedef struct tpp__sim_edge {
    int32_t chunk;
    int32_t peer[TPP__SIM_WAYS]; /* the rank that a result of the stage passes to; -1: none */
    int32_t link[TPP__SIM_WAYS]; /* that it leaves by */
    /* the need of F, of B or I, counts only for micro-batches that the ranks divide */
    bool dropped[TPP__SIM_WAYS];
} tpp__sim_edge;

typedef struct tpp__sim_run {
    const tpp__sim *sim;
    const tpp_run *run;
    tpp_run_report *report;
    tpp_schedule_info info;
    int64_t cells;         /* stages * micros */
    tpp__sim_stage *stage; /* [stages] */
    tpp__sim_edge *edge;   /* [stages] */
    double *link;          /* [2 * stages] when a link is free */
    /* [2 * cells] when a result had left, latency not counted, or who waits for it */
    double *made;
    double *ends;      /* [3 * cells] when an action ended; kept for the path */
    tpp__run_row *row; /* [ranks] */
    double *done;      /* [ranks] when its last action had ended, and been sent if that blocks */
    int64_t *next;     /* [ranks] action to do */
    int32_t *ready;    /* ranks that can go on */
    int32_t ready_count;
} tpp__sim_run;

/* What `made` says of a result that is not made yet and that no rank waits for. */
static const double tpp__sim_nobody = -1;

/* Bytes of run.memory that the simulator needs. */
tpp_status tpp__sim_bytes(const tpp_schedule_info *info, int64_t *bytes);

/* Check the caller's costs; cut the arrays of a simulator (counts when the arena does); fill
 * them. */
tpp_status tpp__sim_check(const tpp_sim_desc *desc);
tpp__sim *tpp__sim_lay_out(tpp__arena *arena, int32_t stages);
void tpp__sim_set(tpp__sim *sim, const tpp_sim_desc *desc);

/* Cut the memory of a run, and set it for its beginning. */
void tpp__sim_cut(tpp__sim_run *s, tpp__arena *arena, const tpp_schedule_info *info);
void tpp__sim_begin(tpp__sim_run *s);

/* Follow all ranks to their end, the optimizer step included. */
void tpp__sim_walk(tpp__sim_run *s);

/* When the optimizer steps begin if all wait for all: the end of all actions. */
double tpp__sim_barrier(const tpp__sim_run *s);

/* The optimizer step of a rank, which has been counted in its row. */
static inline tpp_event tpp__sim_step_event(const tpp__sim_run *s, int32_t rank, double start) {
    return (tpp_event){.start = start,
                       .end = s->row[rank].last,
                       .row = rank,
                       .op = TPP_OP_STEP,
                       .stage = tpp_schedule_stage_of(s->run->schedule, rank, 0),
                       .micro = -1,
                       .peer = -1,
                       .step = s->run->step};
}

/* Fill report.path and path_count. */
void tpp__sim_path(tpp__sim_run *s);

/* True when an action has to wait for another rank's result. */
static inline bool tpp__sim_counts(const tpp__sim_run *s, const tpp_action *a, int way) {
    return s->stage[a->stage].need[way] != TPP__SIM_NONE &&
           !(s->edge[a->stage].dropped[way] && a->micro % s->info.ranks != 0);
}

#endif
