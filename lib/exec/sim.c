/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/sim.h"

#include "base/alloc.h"
#include "base/check.h"
#include "exec/run_check.h"
#include "exec/run_report.h"
#include "sched/deps.h"

#include <math.h>
#include <stddef.h>

/* An action starts when its rank is free and the results that it needs are there. Ranks are
 * followed one after the other, each until it needs a result that nobody has made yet; who makes
 * it puts the rank back on the list. Every action is thus looked at once, plus once per time
 * that its rank had to stop. */

#define OPS (TPP_OP_W + 1)
#define AHEAD 8           /* results that a look ahead may pass the end of the table by */
#define KEPT TPP__SCHED_W /* results that other actions need: all but W, the last kind */

typedef struct sim {
    tpp_allocator allocator;
    int64_t bytes;
    int32_t stages;
    double latency;
    double *cost[OPS]; /* [stages]: THE duration of an action; F, B, I, W */
} sim;

typedef struct sim_run {
    const sim *costs;
    const tpp_run *run;
    int32_t ranks, stages, depth, micros;
    double *made;      /* [KEPT * stages * micros] when a result was made, or one of what follows */
    tpp__run_row *row; /* [ranks] */
    int64_t *next;     /* [ranks] action to do */
    int32_t *ready;    /* ranks that can go on */
    int32_t ready_count;
} sim_run;

/* Times are >= 0; of a result that is not made yet, this says who waits for it. At most one rank
 * does: the stage that needs the result of another lies on one rank, and its own needs come in
 * its own order. */
static const double nobody = -1;

static double waiting(int32_t rank) {
    return -2.0 - rank;
}

static int32_t who_waits(double made) {
    return (int32_t)(-2.0 - made);
}

/* Many ranks take turns, each reading its own stretch of memory: more than the hardware
 * foresees. */
static inline void fetch(const void *soon) {
#if defined(__GNUC__)
    __builtin_prefetch(soon);
#else
    (void)soon;
#endif
}

/* --- Running ---------------------------------------------------------------------------------- */

/* When `a` can start at the earliest; negative when a need is not made, and the rank is noted
 * there. */
static double earliest(sim_run *s, const tpp_action *a, int32_t rank) {
    tpp__sched_need needs[2];
    int count = tpp__sched_needs(s->depth, s->stages, a, needs);
    double start = s->row[rank].last;
    for (int i = 0; i < count; i++) {
        double *made = &s->made[tpp__sched_index(s->stages, s->micros, needs[i])];
        if (*made < 0) {
            *made = waiting(rank);
            return -1;
        }
        bool far = s->costs->latency > 0 && needs[i].stage != a->stage &&
                   tpp_schedule_rank_of(s->run->schedule, needs[i].stage) != rank;
        double there = far ? *made + s->costs->latency : *made;
        start = there > start ? there : start;
    }
    return start;
}

static void finish(sim_run *s, const tpp_action *a, double end) {
    tpp__sched_need makes[2];
    int count = tpp__sched_makes(a, makes);
    for (int i = 0; i < count; i++) {
        if (makes[i].kind >= KEPT)
            continue;
        double *made = &s->made[tpp__sched_index(s->stages, s->micros, makes[i])];
        if (*made < nobody)
            s->ready[s->ready_count++] = who_waits(*made);
        *made = end;
        fetch(made + AHEAD); /* where the next micro-batches are */
    }
}

static void follow(sim_run *s, int32_t rank) {
    int64_t count;
    const tpp_action *actions = tpp_schedule_actions(s->run->schedule, rank, &count);
    for (int64_t i = s->next[rank]; i < count; i++) {
        const tpp_action *a = &actions[i];
        fetch(&actions[i + 16 < count ? i + 16 : i]);
        if (a->op >= OPS)
            continue; /* a message: no time of the rank, and the dependency rule knows of it */
        double start = earliest(s, a, rank);
        if (start < 0) {
            s->next[rank] = i;
            return;
        }
        double end = start + s->costs->cost[a->op][a->stage];
        tpp__run_row_add(&s->row[rank], a, start, end);
        tpp__run_note(s->run, rank, a, start, end);
        finish(s, a, end);
    }
    s->next[rank] = count;
}

static tpp_status check_done(const sim_run *s) {
    for (int32_t rank = 0; rank < s->ranks; rank++) {
        int64_t count;
        tpp_schedule_actions(s->run->schedule, rank, &count);
        if (s->next[rank] < count)
            return tpp__fail(TPP_ERR_DEADLOCK, "rank %d cannot go on at its action %lld", rank,
                             (long long)s->next[rank]);
    }
    return TPP_OK;
}

static void cut(sim_run *s, tpp__arena *arena, const tpp_schedule_info *info) {
    int64_t results = (int64_t)KEPT * info->stages * info->micros;
    s->ranks = info->ranks;
    s->stages = info->stages;
    s->depth = info->depth;
    s->micros = info->micros;
    s->made = tpp__arena_take(arena, results + AHEAD, sizeof *s->made);
    s->row = tpp__arena_take(arena, info->ranks, sizeof *s->row);
    s->next = tpp__arena_take(arena, info->ranks, sizeof *s->next);
    s->ready = tpp__arena_take(arena, info->ranks, sizeof *s->ready);
    if (!arena->base)
        return;
    for (int64_t i = 0; i < results; i++)
        s->made[i] = nobody;
    for (int32_t rank = 0; rank < info->ranks; rank++) {
        tpp__run_row_clear(&s->row[rank]);
        s->next[rank] = 0;
        s->ready[rank] = info->ranks - 1 - rank;
    }
    s->ready_count = info->ranks;
}

tpp_status tpp__sim_bytes(const tpp_schedule_info *info, int64_t *bytes) {
    sim_run counted;
    tpp__arena arena = tpp__arena_counting();
    cut(&counted, &arena, info);
    *bytes = arena.used; /* the limits of a schedule keep this below 2^46 */
    return TPP_OK;
}

static tpp_status run(void *ctx, const tpp_run *given, tpp_run_report *report) {
    const sim *costs = ctx;
    tpp_run own;
    tpp_schedule_info info;
    int64_t need = 0;
    tpp_status status = tpp__run_read(&own, &info, given);
    if (status == TPP_OK && info.stages != costs->stages)
        status =
            tpp__fail(TPP_ERR_INVALID, "run.schedule has %d stages; the simulator was made for %d",
                      info.stages, costs->stages);
    if (status == TPP_OK)
        status = tpp__run_check_trace(&own, info.ranks);
    if (status == TPP_OK)
        status = tpp__sim_bytes(&info, &need);
    if (status == TPP_OK)
        status = tpp__run_check_memory(&own, need);
    if (status < 0)
        return status;
    sim_run s = {.costs = costs, .run = &own};
    tpp__arena arena = tpp__arena_over(own.memory, need);
    cut(&s, &arena, &info);
    while (s.ready_count > 0)
        follow(&s, s.ready[--s.ready_count]);
    tpp__run_report_fill(report, s.row, s.ranks);
    return check_done(&s);
}

/* --- Life ------------------------------------------------------------------------------------- */

static tpp_status check_cost(const char *name, int32_t stage, double cost) {
    if (!isfinite(cost) || cost < 0)
        return tpp__fail(TPP_ERR_INVALID, "desc.%s[%d] = %g; a cost must be finite and >= 0", name,
                         stage, cost);
    return TPP_OK;
}

static tpp_status check_costs(const char *name, const double *costs, int32_t stages) {
    tpp_status status = TPP_OK;
    for (int32_t i = 0; costs && i < stages && status == TPP_OK; i++)
        status = check_cost(name, i, costs[i]);
    return status;
}

static tpp_status check(const tpp_sim_desc *d) {
    if (d->stages < 1)
        return tpp__fail(TPP_ERR_INVALID, "desc.stages = %d; it must be at least 1", d->stages);
    if (!d->forward)
        return tpp__fail(TPP_ERR_INVALID, "desc.forward is NULL; it must have %d entries",
                         d->stages);
    if (!d->backward && (!d->backward_input || !d->backward_weight))
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.backward and desc.%s are NULL; give backward, or "
                         "backward_input and backward_weight",
                         d->backward_input ? "backward_weight" : "backward_input");
    if (!isfinite(d->latency) || d->latency < 0)
        return tpp__fail(TPP_ERR_INVALID, "desc.latency = %g; it must be finite and >= 0",
                         d->latency);
    tpp_status status = check_costs("forward", d->forward, d->stages);
    if (status == TPP_OK)
        status = check_costs("backward", d->backward, d->stages);
    if (status == TPP_OK)
        status = check_costs("backward_input", d->backward_input, d->stages);
    if (status == TPP_OK)
        status = check_costs("backward_weight", d->backward_weight, d->stages);
    return status;
}

static sim *lay_out(tpp__arena *arena, int32_t stages) {
    sim *made = tpp__arena_take(arena, 1, sizeof *made);
    for (int op = TPP_OP_F; op < OPS; op++) {
        double *costs = tpp__arena_take(arena, stages, sizeof *costs);
        if (made)
            made->cost[op] = costs;
    }
    return made;
}

static void set_costs(sim *s, const tpp_sim_desc *d) {
    for (int32_t i = 0; i < d->stages; i++) {
        double half = d->backward ? d->backward[i] / 2 : 0;
        double input = d->backward_input ? d->backward_input[i] : half;
        double weight = d->backward_weight ? d->backward_weight[i] : half;
        s->cost[TPP_OP_F][i] = d->forward[i];
        s->cost[TPP_OP_B][i] = d->backward ? d->backward[i] : input + weight;
        s->cost[TPP_OP_I][i] = input;
        s->cost[TPP_OP_W][i] = weight;
    }
}

static tpp_status query(void *ctx, const tpp_run *given, int64_t *bytes) {
    tpp_run own;
    tpp_schedule_info info;
    (void)ctx;
    tpp_status status = tpp__run_read(&own, &info, given);
    return status < 0 ? status : tpp__sim_bytes(&info, bytes);
}

static void destroy(void *ctx) {
    sim *s = ctx;
    tpp_allocator allocator = s->allocator;
    tpp__free(&allocator, s, s->bytes);
}

tpp_status tpp_executor_sim_create(tpp_executor **out, const tpp_sim_desc *desc) {
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to an executor");
    *out = NULL;
    tpp_sim_desc d;
    tpp_allocator own;
    tpp_status status = tpp__sized_read(&d, sizeof d, 0, desc, "desc");
    if (status == TPP_OK)
        status = check(&d);
    if (status == TPP_OK)
        status = tpp__allocator_read(&own, d.allocator);
    if (status < 0)
        return status;
    tpp__arena need = tpp__arena_counting();
    lay_out(&need, d.stages);
    void *memory = tpp__alloc(&own, need.used);
    if (!memory)
        return TPP_ERR_NO_MEMORY;
    tpp__arena arena = tpp__arena_over(memory, need.used);
    sim *s = lay_out(&arena, d.stages);
    s->allocator = own;
    s->bytes = need.used;
    s->stages = d.stages;
    s->latency = d.latency;
    set_costs(s, &d);
    const tpp_executor_ops ops = {
        .size = sizeof ops, .run = run, .destroy = destroy, .query = query};
    status = tpp_executor_create(out, &ops, s, d.allocator);
    if (status < 0)
        destroy(s);
    return status;
}
