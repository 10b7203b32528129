/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/fetch.h"
#include "exec/sim.h"
#include "sched/deps.h"

#include <stddef.h>

/* An action starts when its rank is free and the results that it needs are there. Ranks are
 * followed one after the other, each until it needs a result that nobody has made yet; who makes
 * it puts the rank back on the list. Every action is thus looked at once, plus once per time
 * that its rank had to stop.
 *
 * Most functions are compiled twice: `full` says whether anything is asked for but the times of
 * single actions, and is known when they are inlined. */

/* Times are >= 0; of a result that is not made yet, this says who waits for it. At most one rank
 * does: the stage that needs the result of another lies on one rank, and its own needs come in
 * its own order. */
static double waiting(int32_t rank) {
    return -2.0 - rank;
}

static int32_t who_waits(double made) {
    return (int32_t)(-2.0 - made);
}

/* When `a` can start, `start` at the earliest; negative when a need is not made, and the rank is
 * noted there. */
static inline double earliest(tpp__sim_run *s, const tpp_action *a, int32_t rank, double start,
                              bool full) {
    int way = tpp__sim_way(a->op);
    const tpp__sim_stage *stage = &s->stage[a->stage];
    if (a->op == TPP_OP_W || stage->need[way] == TPP__SIM_NONE ||
        (full && !tpp__sim_counts(s, a, way)))
        return start;
    double *made = &s->made[(int64_t)stage->need[way] + a->micro];
    if (*made < 0) {
        *made = waiting(rank);
        return -1;
    }
    double there = *made + stage->late[way];
    return there > start ? there : start;
}

/* When a result that is made at `end` has left the rank. */
static double sent(tpp__sim_run *s, int32_t rank, const tpp_action *a, double end) {
    int way = tpp__sim_way(a->op);
    double takes = s->sim->send[way][a->stage];
    if (!s->sim->links)
        return end;
    if (s->sim->flags & TPP_SIM_BLOCKING)
        return s->row[rank].last += takes; /* one message after the other: no link is taken */
    double *link = &s->link[s->edge[a->stage].link[way]];
    *link = (*link > end ? *link : end) + takes;
    return *link;
}

static inline void finish(tpp__sim_run *s, int32_t rank, const tpp_action *a, double end,
                          bool full) {
    uint32_t make = s->stage[a->stage].make[tpp__sim_way(a->op)];
    if (a->op == TPP_OP_W || make == TPP__SIM_NONE)
        return;
    double *made = &s->made[(int64_t)make + a->micro];
    if (*made < tpp__sim_nobody)
        s->ready[s->ready_count++] = who_waits(*made);
    *made = full ? sent(s, rank, a, end) : end;
    tpp__fetch(made + 8); /* where the next micro-batches are */
}

/* --- What is only counted when asked for ------------------------------------------------------ */

static void hold(tpp__sim_run *s, tpp__run_row *row, const tpp_action *a) {
    const tpp__sim *sim = s->sim;
    double half = sim->memory[a->stage], rest = sim->memory_weight[a->stage];
    if (a->op == TPP_OP_F)
        row->held += half;
    if (a->op == TPP_OP_I)
        row->held += rest - half;
    if (row->held > row->held_peak)
        row->held_peak = row->held;
    if (a->op == TPP_OP_B || (a->op == TPP_OP_F && s->info.forward_only))
        row->held -= half;
    if (a->op == TPP_OP_W)
        row->held -= rest;
}

static void note(tpp__sim_run *s, int32_t rank, const tpp_action *a, double start, double end) {
    tpp__sched_need makes[2];
    tpp__run_note(s->run, rank, s->info.depth, a, start, end);
    if (s->report->row_memory)
        hold(s, &s->row[rank], a);
    if (!s->report->path)
        return;
    tpp__sched_makes(a, makes);
    s->ends[tpp__sched_index(s->info.stages, s->info.micros, makes[0])] = end;
}

/* --- Ranks ------------------------------------------------------------------------------------ */

static inline double duration(const tpp__sim_run *s, const tpp_action *a, bool pair) {
    if (pair && s->sim->pairs)
        return s->sim->cost[0][a->stage];
    double own = s->stage[a->stage].cost[a->op - 1];
    return pair ? own + s->stage[a[1].stage].cost[a[1].op - 1] : own;
}

static inline void follow(tpp__sim_run *s, int32_t rank, bool full) {
    int64_t count;
    const tpp_action *actions = tpp_schedule_actions(s->run->schedule, rank, &count);
    tpp__run_row *row = &s->row[rank];
    for (int64_t i = s->next[rank]; i < count; i++) {
        const tpp_action *a = &actions[i];
        tpp__fetch(&actions[i + 16 < count ? i + 16 : i]);
        if (a->op >= TPP__SIM_OPS)
            continue; /* a message: no time of the rank, and the dependency rule knows of it */
        bool pair = full && (a->flags & TPP_ACTION_FUSED);
        double start = earliest(s, a, rank, row->last, full);
        if (pair && start >= 0)
            start = earliest(s, a + 1, rank, start, full);
        if (start < 0) {
            s->next[rank] = i;
            return;
        }
        double end = start + duration(s, a, pair);
        tpp__run_row_add(row, a, start, end);
        if (row->forward_only)
            tpp__run_row_passed(row, s->run->schedule, s->info.depth, a);
        if (full)
            note(s, rank, a, start, end);
        if (pair) {
            tpp__run_row_add(row, a + 1, end, end); /* its time is counted */
            tpp_action back = a[1];
            back.flags = TPP_ACTION_FUSED;
            note(s, rank, &back, start, end);
        }
        finish(s, rank, a, end, full);
        if (pair)
            finish(s, rank, &actions[++i], end, full);
    }
    s->next[rank] = count;
}

static void follow_all(tpp__sim_run *s) {
    while (s->ready_count > 0)
        follow(s, s->ready[--s->ready_count], true);
}

static void follow_all_quick(tpp__sim_run *s) {
    while (s->ready_count > 0)
        follow(s, s->ready[--s->ready_count], false);
}

/* --- Before and after ------------------------------------------------------------------------- */

double tpp__sim_barrier(const tpp__sim_run *s) {
    double last = 0;
    for (int32_t r = 0; r < s->info.ranks; r++)
        last = s->done[r] > last ? s->done[r] : last;
    return last;
}

static void add_stages(tpp__sim_run *s, int32_t rank, const double *what, double *sum) {
    int32_t stage;
    for (int32_t c = 0; (stage = tpp_schedule_stage_of(s->run->schedule, rank, c)) >= 0; c++)
        *sum += what[stage];
}

static void take_step(tpp__sim_run *s, int32_t rank, double start) {
    double takes = 0;
    add_stages(s, rank, s->sim->optimizer, &takes);
    s->row[rank].last = start + takes;
    s->row[rank].work += takes;
    tpp_event event = tpp__sim_step_event(s, rank, start);
    if (s->run->trace)
        tpp_trace_add(s->run->trace, &event);
}

static void take_steps(tpp__sim_run *s) {
    for (int32_t r = 0; r < s->info.ranks; r++)
        s->done[r] = s->row[r].last;
    double barrier = tpp__sim_barrier(s);
    for (int32_t r = 0; r < s->info.ranks && s->sim->steps; r++)
        take_step(s, r, s->sim->flags & TPP_SIM_BARRIER ? barrier : s->done[r]);
}

void tpp__sim_walk(tpp__sim_run *s) {
    bool full = s->sim->links || s->run->trace || s->info.fused || s->report->row_memory ||
                s->report->path || (s->sim->flags & TPP_SIM_PAPER_EDGES);
    for (int32_t r = 0; r < s->info.ranks && full; r++) {
        add_stages(s, r, s->sim->memory_state, &s->row[r].held);
        s->row[r].held_peak = s->row[r].held;
    }
    if (full)
        follow_all(s);
    else
        follow_all_quick(s);
    take_steps(s);
}
