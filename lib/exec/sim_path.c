/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/sim_atom.h"

#include <stddef.h>

/* From the end of a run back to its beginning, by what made each action start when it did. Every
 * time is computed as the walk did, so that causes are found by equality. On each rank the way
 * leads only to earlier actions: next[] tells how far it has come, and all searches together pass
 * each action at most twice, and once more for each link of its rank. */

typedef struct path {
    tpp__sim_run *s;
    bool stores;   /* the second time, when the number is known */
    int64_t total; /* events, counted the first time */
    int64_t count; /* events so far, from the end */
} path;

static void put(path *p, const tpp_event *event) {
    int64_t place = p->total - ++p->count;
    if (!p->stores || place >= p->s->report->path_room)
        return;
    p->s->report->path[place] = *event;
    p->s->report->path[place].step = p->s->run->step;
    p->s->report->path[place].direction = event->stage / p->s->info.depth;
}

static void put_action(path *p, const tpp__sim_atom *x, int32_t i, double start) {
    const tpp_action *a = x->a + i;
    put(p, &(tpp_event){.start = start,
                        .end = tpp__sim_end_of(p->s, a),
                        .row = x->rank,
                        .flags = x->count == 2 ? TPP_EVENT_FUSED : 0,
                        .op = a->op,
                        .chunk = a->chunk,
                        .stage = a->stage,
                        .micro = a->micro,
                        .peer = -1});
}

/* The message with the result of an action. */
static void put_message(path *p, int32_t rank, const tpp_action *a, double start, double end) {
    int way = tpp__sim_way(a->op);
    if (start == end)
        return;
    put(p, &(tpp_event){.start = start,
                        .end = end,
                        .row = rank,
                        .op = way == TPP__SIM_UP ? TPP_OP_SEND_F : TPP_OP_SEND_B,
                        .chunk = a->chunk,
                        .stage = a->stage,
                        .micro = a->micro,
                        .peer = p->s->edge[a->stage].peer[way]});
}

/* --- Causes ----------------------------------------------------------------------------------- */

/* The messages of `x` before that of its action `count`, if sending blocks. */
static void put_sends(path *p, const tpp__sim_atom *x, int32_t count) {
    while (--count >= 0) {
        if (tpp__sim_sends(p->s, x->a + count))
            put_message(p, x->rank, x->a + count, tpp__sim_left(p->s, x, count),
                        tpp__sim_left(p->s, x, count + 1));
    }
}

/* Back along the messages that end at `end` with the one of `a`; returns the atom that the first
 * of them left from. */
static tpp__sim_atom follow_message(path *p, int32_t rank, const tpp_action *a, double end) {
    tpp__sim_run *s = p->s;
    tpp__sim_atom x = tpp__sim_atom_of(s, rank, a);
    if (s->sim->flags & TPP_SIM_BLOCKING) {
        put_message(p, rank, a, tpp__sim_left(s, &x, (int32_t)(a - x.a)), end);
        put_sends(p, &x, (int32_t)(a - x.a));
        return x;
    }
    while (s->sim->links) {
        const tpp_action *before = tpp__sim_before_on_link(s, rank, a);
        if (!before || tpp__sim_made_at(s, before) <= tpp__sim_end_of(s, a))
            break; /* the link was free */
        put_message(p, rank, a, tpp__sim_made_at(s, before), end);
        end = tpp__sim_made_at(s, before);
        a = before;
    }
    put_message(p, rank, a, tpp__sim_end_of(s, a), end);
    return tpp__sim_atom_of(s, rank, a);
}

/* When a need of `a` was there; 0: it has none on another rank. */
static double arrival(const tpp__sim_run *s, const tpp_action *a) {
    int way = tpp__sim_way(a->op);
    if (a->op == TPP_OP_W || !tpp__sim_counts(s, a, way))
        return 0;
    const tpp__sim_stage *stage = &s->stage[a->stage];
    return s->made[(int64_t)stage->need[way] + a->micro] + stage->late[way];
}

/* Put down atom `x`; returns what made it start, with the messages between put down. */
static tpp__sim_atom step_back(path *p, const tpp__sim_atom *x) {
    tpp__sim_run *s = p->s;
    tpp__sim_move_to(s, x->rank, x->a);
    tpp__sim_atom y = tpp__sim_previous(s, x->rank);
    double start = y.count ? tpp__sim_free_after(s, &y) : 0;
    const tpp_action *late = NULL;
    for (int32_t i = 0; i < x->count; i++) {
        if (arrival(s, x->a + i) > start) {
            late = x->a + i;
            start = arrival(s, late);
        }
    }
    for (int32_t i = x->count - 1; i >= 0; i--)
        put_action(p, x, i, start);
    if (!late) {
        put_sends(p, &y, s->sim->flags & TPP_SIM_BLOCKING ? y.count : 0);
        return y;
    }
    int way = tpp__sim_way(late->op);
    int32_t from = late->stage + (way == TPP__SIM_UP ? -1 : 1);
    int32_t rank = tpp_schedule_rank_of(s->run->schedule, from);
    return follow_message(p, rank, tpp__sim_maker(s, rank, way, from, late->micro), start);
}

/* --- All -------------------------------------------------------------------------------------- */

static int32_t last_rank(const tpp__sim_run *s, double last, bool step) {
    int32_t rank = 0;
    while (rank < s->info.ranks - 1 && (step ? s->row[rank].last : s->done[rank]) != last)
        rank++;
    return rank;
}

static void go(path *p) {
    tpp__sim_run *s = p->s;
    double last = 0;
    p->count = 0;
    for (int32_t r = 0; r < s->info.ranks; r++) {
        int64_t actions;
        tpp_schedule_actions(s->run->schedule, r, &actions);
        s->next[r] = actions;
        last = s->row[r].last > last ? s->row[r].last : last;
    }
    int32_t rank = last_rank(s, last, true);
    if (s->sim->steps) {
        bool barrier = s->sim->flags & TPP_SIM_BARRIER;
        double start = barrier ? tpp__sim_barrier(s) : s->done[rank];
        tpp_event step = tpp__sim_step_event(s, rank, start);
        put(p, &step);
        rank = barrier ? last_rank(s, start, false) : rank;
    }
    tpp__sim_atom x = tpp__sim_previous(s, rank);
    put_sends(p, &x, s->sim->flags & TPP_SIM_BLOCKING ? x.count : 0);
    while (x.count)
        x = step_back(p, &x);
    p->total = p->count;
}

void tpp__sim_path(tpp__sim_run *s) {
    path p = {.s = s};
    go(&p);
    p.stores = true;
    go(&p);
    s->report->path_count = p.total;
}
