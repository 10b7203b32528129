/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/sched_sim.h"

#include <math.h>
#include <stdlib.h>

typedef struct cell {
    double f, i, w; /* when F, the input gradient, the weight gradient were done; NAN before */
    double sent_f, got_f; /* output sent from here, input got here */
    double sent_b, got_b; /* input gradient sent from here, output gradient got here */
} cell;

typedef struct world {
    const tpp_schedule *s;
    tpp_schedule_info info;
    bool lowered;
    sched_sim_costs costs; /* of one chunk */
    cell *cells;
    int64_t *next;
    double *now;
    int32_t *held, *held_input;
    const tpp_action **in_slot; /* [ranks * slots]: the last backward that wrote there */
} world;

static cell *at(const world *w, int32_t stage, int32_t micro) {
    return &w->cells[(int64_t)stage * w->info.micros + micro];
}

static bool apart(const world *w, int32_t a, int32_t b) {
    return tpp_schedule_rank_of(w->s, a) != tpp_schedule_rank_of(w->s, b);
}

static bool first_of(const world *w, int32_t stage) {
    return stage % w->info.depth == 0;
}

static bool last_of(const world *w, int32_t stage) {
    return stage % w->info.depth == w->info.depth - 1;
}

static double later(double a, double b) {
    return isnan(a) || isnan(b) ? NAN : fmax(a, b);
}

/* When the slot of an action that writes a result for another rank may be written: what lay there was
 * received. Outputs need it only where no backward tells. */
static double slot_free_at(const world *w, int32_t rank, const tpp_action *a) {
    const tpp_action *old = a->slot < 0 ? NULL : w->in_slot[rank * w->info.slots + a->slot];
    if (!w->lowered || (a->op == TPP_OP_F && !w->info.forward_only))
        return 0;
    if (a->slot < 0)
        return NAN;
    if (!old)
        return 0;
    if (a->op == TPP_OP_F)
        return !last_of(w, old->stage) && apart(w, old->stage, old->stage + 1)
                   ? at(w, old->stage + 1, old->micro)->got_f
                   : 0;
    return !first_of(w, old->stage) && apart(w, old->stage, old->stage - 1)
               ? at(w, old->stage - 1, old->micro)->got_b
               : 0;
}

/* When what the action waits for is there; NAN: not yet known. */
static double ready_at(const world *w, int32_t rank, const tpp_action *a) {
    const cell *c = at(w, a->stage, a->micro);
    double t = 0;
    switch (a->op) {
    case TPP_OP_F:
        if (!first_of(w, a->stage))
            t = w->lowered && apart(w, a->stage, a->stage - 1) ? c->got_f
                                                               : at(w, a->stage - 1, a->micro)->f;
        return later(t, slot_free_at(w, rank, a));
    case TPP_OP_B:
    case TPP_OP_I:
        if (!last_of(w, a->stage))
            t = w->lowered && apart(w, a->stage, a->stage + 1) ? c->got_b
                                                               : at(w, a->stage + 1, a->micro)->i;
        t = later(t, slot_free_at(w, rank, a));
        return later(t, c->f);
    case TPP_OP_W:
        return c->i;
    case TPP_OP_SEND_F:
        return c->f;
    case TPP_OP_SEND_B:
        return c->i;
    case TPP_OP_RECV_F:
        return at(w, a->stage - 1, a->micro)->sent_f + w->costs.latency;
    default:
        return at(w, a->stage + 1, a->micro)->sent_b + w->costs.latency;
    }
}

static double duration(const world *w, int32_t op) {
    switch (op) {
    case TPP_OP_F:
        return w->costs.forward;
    case TPP_OP_B:
        return w->costs.input + w->costs.weight;
    case TPP_OP_I:
        return w->costs.input;
    case TPP_OP_W:
        return w->costs.weight;
    default:
        return 0;
    }
}

static void note(const world *w, const tpp_action *a, double end) {
    cell *c = at(w, a->stage, a->micro);
    switch (a->op) {
    case TPP_OP_F:
        c->f = end;
        break;
    case TPP_OP_B:
        c->i = c->w = end;
        break;
    case TPP_OP_I:
        c->i = end;
        break;
    case TPP_OP_W:
        c->w = end;
        break;
    case TPP_OP_SEND_F:
        c->sent_f = end;
        break;
    case TPP_OP_RECV_F:
        c->got_f = end;
        break;
    case TPP_OP_SEND_B:
        c->sent_b = end;
        break;
    default:
        c->got_b = end;
    }
}

static int32_t most(int32_t a, int32_t b) {
    return a > b ? a : b;
}

static bool step(world *w, int32_t rank, sched_sim *out) {
    int64_t count;
    const tpp_action *all = tpp_schedule_actions(w->s, rank, &count);
    if (w->next[rank] == count)
        return false;
    const tpp_action *a = all + w->next[rank];
    double ready = ready_at(w, rank, a);
    if (isnan(ready))
        return false;
    double end = fmax(ready, w->now[rank]) + duration(w, a->op);
    note(w, a, end);
    w->now[rank] = end;
    w->next[rank]++;
    out->work[rank] += duration(w, a->op);
    out->makespan = fmax(out->makespan, end);
    if (a->op < TPP_OP_SEND_F) {
        if (out->work[rank] == duration(w, a->op))
            out->start[rank] = end - duration(w, a->op);
        out->end[rank] = end;
    }
    if (a->op == TPP_OP_F) {
        out->forward_end = fmax(out->forward_end, end);
        out->peak[rank] = most(out->peak[rank], ++w->held[rank]);
        out->peak_input[rank] = most(out->peak_input[rank], ++w->held_input[rank]);
    }
    if (a->op == TPP_OP_B || a->op == TPP_OP_W)
        w->held[rank]--;
    if (a->op == TPP_OP_B || a->op == TPP_OP_I)
        w->held_input[rank]--;
    bool writes = w->info.forward_only ? a->op == TPP_OP_F : a->op == TPP_OP_B || a->op == TPP_OP_I;
    if (w->lowered && writes)
        w->in_slot[rank * w->info.slots + a->slot] = a;
    return true;
}

static bool all_ended(const world *w) {
    for (int32_t r = 0; r < w->info.ranks; r++) {
        int64_t count;
        tpp_schedule_actions(w->s, r, &count);
        if (w->next[r] < count)
            return false;
    }
    return true;
}

sched_sim sched_sim_run(const tpp_schedule *schedule, double forward, double backward) {
    return sched_sim_costs_run(schedule, (sched_sim_costs){forward, backward / 2, backward / 2, 0});
}

sched_sim sched_sim_costs_run(const tpp_schedule *schedule, sched_sim_costs costs) {
    sched_sim out = {0};
    world w = {.s = schedule, .info.size = sizeof w.info};
    if (tpp_schedule_query(schedule, &w.info) < 0 || w.info.ranks > SCHED_SIM_RANKS)
        return out;
    w.lowered = w.info.slots > 0;
    w.costs = (sched_sim_costs){costs.forward / w.info.chunks, costs.input / w.info.chunks,
                                costs.weight / w.info.chunks, costs.latency};
    size_t cells = (size_t)w.info.stages * (size_t)w.info.micros, ranks = (size_t)w.info.ranks;
    w.cells = malloc(cells * sizeof *w.cells);
    w.next = calloc(ranks, sizeof *w.next);
    w.now = calloc(ranks, sizeof *w.now);
    w.held = calloc(ranks, sizeof *w.held);
    w.held_input = calloc(ranks, sizeof *w.held_input);
    w.in_slot = calloc(ranks * (size_t)(w.info.slots + 1), sizeof *w.in_slot);
    for (size_t i = 0; i < cells; i++)
        w.cells[i] = (cell){NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t r = 0; r < w.info.ranks; r++) {
            while (step(&w, r, &out))
                moved = true;
        }
    }
    out.finished = all_ended(&w);
    free(w.cells);
    free(w.next);
    free(w.now);
    free(w.held);
    free(w.held_input);
    free(w.in_slot);
    return out;
}
