/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_EXEC_OPT_IMPL_H
#define TPP_EXEC_OPT_IMPL_H

#include "base/alloc.h"
#include "base/check.h"

#include <stdbool.h>
#include <tpp/optimize.h>

/* What is searched for: per rank an order of 3 * chunks * micros codes. Micro-batches are alike, so
 * of one stage and operation they come in rising order without loss, and a code is operation and
 * chunk. Orders determine times: each action starts as soon as its rank and its needs allow. */
enum { TPP__OPT_F = 0, TPP__OPT_I = 1, TPP__OPT_W = 2, TPP__OPT_OPS = 3 };

typedef uint32_t tpp__opt_code;

/* Costs that differ by less than this part are equal. */
#define TPP__OPT_ROUNDING 1e-9

static inline tpp__opt_code tpp__opt_code_of(int32_t chunk, int32_t op) {
    return (tpp__opt_code)(TPP__OPT_OPS * chunk + op);
}

/* What is minimised, and what decides between equals. */
typedef struct tpp__opt_cost {
    double
        cost; /* the objective; INFINITY: the order cannot be followed, or needs too much memory */
    double other; /* the other one of span and makespan */
} tpp__opt_cost;

/* A rank's way through its order. */
typedef struct tpp__opt_rank {
    double now;    /* when it is free */
    double first;  /* when it began */
    double memory; /* held */
    int64_t next;  /* place in its order */
} tpp__opt_rank;

typedef struct tpp__opt {
    tpp_allocator allocator;
    int64_t bytes; /* of the one block that this struct begins */
    int32_t ranks, chunks, stages, micros;
    int64_t length; /* codes of a rank */
    bool makespan;  /* the objective; else the span */
    double limit;   /* INFINITY: none */
    /* the problem */
    int32_t *rank_of;           /* [stages] */
    int32_t *chunk_of;          /* [stages] */
    int32_t *stage_at;          /* [ranks * chunks] */
    double *time[TPP__OPT_OPS]; /* [stages] */
    double *hold;               /* [stages] from F to I */
    double *hold_weight;        /* [stages] from I to W */
    double *state;              /* [ranks] always held */
    double *latency;            /* [stages] between a stage and the next one; 0 on one rank */
    double *send[2];            /* [stages] F's and I's time on the link out of the stage */
    int32_t *link[2];           /* [stages] which link that is; -1: none */
    double *head;               /* [ranks] earliest start */
    double *busy;               /* [ranks] bound: work and forced idle time after the first I */
    bool links;                 /* some message occupies its link */
    /* the state of a walk */
    double
        *there[2]; /* [stages * micros] when an output or gradient is at its reader; -1: unknown */
    double *link_free;     /* [2 * stages] */
    int32_t *count;        /* [ranks * chunks * OPS] actions done */
    tpp__opt_rank *rank;   /* [ranks] */
    double *ready;         /* [ranks] dispatch: when the chosen action can start */
    tpp__opt_code *choice; /* [ranks] dispatch: what is chosen */
    int32_t *caps;         /* [ranks] dispatch: see opt_dispatch.c */
    int32_t *best_caps;    /* [ranks] */
    /* orders, [ranks * length] each */
    tpp__opt_code *order; /* being tried */
    tpp__opt_code *best;
    tpp__opt_cost best_cost;
    double bound;
    /* the search */
    tpp_optimize_desc desc;
    uint64_t random;
    double began;
    int64_t evaluations;
    double told; /* when progress was told last */
    bool stopped;
} tpp__opt;

static inline int32_t *tpp__opt_count(const tpp__opt *o, int32_t rank, int32_t chunk) {
    return o->count + ((int64_t)rank * o->chunks + chunk) * TPP__OPT_OPS;
}

static inline bool tpp__opt_better(tpp__opt_cost a, tpp__opt_cost b) {
    return a.cost < b.cost || (a.cost == b.cost && a.other < b.other);
}

/* opt_problem.c: from the caller's description, checked. */
tpp_status tpp__opt_new(tpp__opt **out, const tpp_optimize_desc *desc, tpp_placement placement,
                        int32_t chunks);
void tpp__opt_free(tpp__opt *o);

/* opt_walk.c: begin anew; do an action that is possible (its end is returned); see what an order
 * costs. */
void tpp__opt_walk_begin(tpp__opt *o);
double tpp__opt_arrival(const tpp__opt *o, int32_t stage, int32_t op, int32_t micro);
void tpp__opt_do(tpp__opt *o, int32_t rank, tpp__opt_code code, double start);
tpp__opt_cost tpp__opt_walk_cost(const tpp__opt *o);
tpp__opt_cost tpp__opt_evaluate(tpp__opt *o, const tpp__opt_code *order);

/* Has rank r the memory for an action of one of its stages? An I needs some if W holds more. */
static inline bool tpp__opt_fits(const tpp__opt *o, int32_t r, int32_t stage, int32_t op) {
    double more = op == TPP__OPT_F ? o->hold[stage] : o->hold_weight[stage] - o->hold[stage];
    return op == TPP__OPT_W || more <= 0 || o->rank[r].memory + more <= o->limit;
}

/* opt_search.c: find the best order and the bound; *optimal: it is proved best. */
void tpp__opt_search(tpp__opt *o, bool *optimal);
/* Tell progress; false: time or evaluations are used up, or the bound is reached. */
bool tpp__opt_go_on(tpp__opt *o);
/* Take o->order if it is better than the best. */
bool tpp__opt_offer(tpp__opt *o, tpp__opt_cost cost);
uint32_t tpp__opt_random(tpp__opt *o, uint32_t below);

/* opt_bound.c: no order costs less. */
double tpp__opt_bound(tpp__opt *o);
/* opt_bound_warm.c: the same from `bound` upwards, by the warm-up. busy [ranks]: of each rank what
 * lies within its span beside idle time before its first I. */
double tpp__opt_bound_warm(const tpp__opt *o, const double *busy, double bound);

/* opt_seeds.c, opt_dispatch.c, opt_local.c, opt_exact.c: ways to find orders. */
void tpp__opt_seeds(tpp__opt *o);
void tpp__opt_dispatch_search(tpp__opt *o);
void tpp__opt_local(tpp__opt *o);
bool tpp__opt_exact(tpp__opt *o); /* true: proved that no order is better than the best */

#endif
