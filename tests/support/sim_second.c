/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/sim_second.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { OF_F, OF_I, OF_W, SENT_F, SENT_B, NODES_OF_CELL };

static void *grown(void *memory, int32_t *room, int64_t need, size_t width) {
    if (need <= *room)
        return memory;
    *room = (int32_t)(need + need / 2);
    return realloc(memory, (size_t)*room * width);
}

static int32_t add_node(second *w, double takes) {
    w->nodes[w->node_count] = (second_node){takes, 0, 0, -1, -1, 0};
    return w->node_count++;
}

static void add_arc(second *w, int32_t from, int32_t to, double lag) {
    second_node *u = &w->nodes[from], *v = &w->nodes[to];
    w->arcs[w->arc_count] = (second_arc){from, to, lag, v->arcs_in, u->arcs_out};
    v->arcs_in = u->arcs_out = w->arc_count++;
    v->open++;
}

static int32_t *place(const second *w, int which, int32_t stage, int32_t micro) {
    return &w->node_of[((int64_t)which * w->info.stages + stage) * w->info.micros + micro];
}

static bool same_pipeline(const second *w, int32_t a, int32_t b) {
    return b >= 0 && b < w->info.stages && a / w->info.depth == b / w->info.depth;
}

static int32_t rank_of(const second *w, int32_t stage) {
    return tpp_schedule_rank_of(w->schedule, stage);
}

/* --- Costs ------------------------------------------------------------------------------------ */

static double cost_of(const tpp_sim_desc *d, const tpp_action *a) {
    double whole = d->backward ? d->backward[a->stage] : 0;
    double input = d->backward_input ? d->backward_input[a->stage] : whole / 2;
    double weight = d->backward_weight ? d->backward_weight[a->stage] : whole / 2;
    switch (a->op) {
    case TPP_OP_F:
        return d->forward[a->stage];
    case TPP_OP_B:
        return d->backward ? whole : input + weight;
    case TPP_OP_I:
        return input;
    default:
        return weight;
    }
}

static double pair_cost(const tpp_sim_desc *d, const tpp_action *f) {
    return d->fused ? d->fused[f->stage] : cost_of(d, f) + cost_of(d, f + 1);
}

static double lag_between(const second *w, int32_t a, int32_t b) {
    int32_t lower = a < b ? a : b;
    return w->desc->edge_latency ? w->desc->edge_latency[lower] : w->desc->latency;
}

/* --- Nodes of the ranks, each after the one before -------------------------------------------- */

static bool is_compute(const tpp_action *a) {
    return a->op >= TPP_OP_F && a->op <= TPP_OP_W;
}

/* The message that carries the result of an action; takes the link, and the rank if it blocks. */
static void add_message(second *w, int32_t rank, const tpp_action *a, int32_t maker) {
    bool up = a->op == TPP_OP_F;
    int32_t to = up ? a->stage + 1 : a->stage - 1;
    const double *send = up ? w->desc->send_forward : w->desc->send_backward;
    bool passes = a->op != TPP_OP_W && same_pipeline(w, a->stage, to) && rank_of(w, to) != rank &&
                  !(w->info.forward_only && !up);
    if (!passes)
        return;
    int32_t node = add_node(w, send ? send[a->stage] : 0);
    *place(w, up ? SENT_F : SENT_B, a->stage, a->micro) = node;
    add_arc(w, maker, node, 0);
    if (w->desc->flags & TPP_SIM_BLOCKING) {
        if (w->last[rank] != maker)
            add_arc(w, w->last[rank], node, 0);
        w->last[rank] = node;
    }
}

static void add_rank(second *w, int32_t rank) {
    int64_t count;
    const tpp_action *a = tpp_schedule_actions(w->schedule, rank, &count), *end = a + count;
    w->last[rank] = w->step[rank] = -1;
    for (; a < end; a++) {
        if (!is_compute(a))
            continue;
        int size = a->flags & TPP_ACTION_FUSED ? 2 : 1;
        int32_t node = add_node(w, size == 2 ? pair_cost(w->desc, a) : cost_of(w->desc, a));
        if (w->last[rank] >= 0)
            add_arc(w, w->last[rank], node, 0);
        w->last[rank] = node;
        for (int i = 0; i < size; i++) {
            int which = a[i].op == TPP_OP_F ? OF_F : a[i].op == TPP_OP_W ? OF_W : OF_I;
            *place(w, which, a[i].stage, a[i].micro) = node;
        }
        for (int i = 0; i < size; i++)
            add_message(w, rank, a + i, node);
        a += size - 1;
    }
}

/* One message after the other from a rank to another. */
static void add_links(second *w, int32_t rank) {
    int32_t before[SECOND_RANKS];
    int64_t count;
    const tpp_action *a = tpp_schedule_actions(w->schedule, rank, &count), *end = a + count;
    memset(before, 0xff, sizeof before);
    for (; a < end; a++) {
        bool up = a->op == TPP_OP_F;
        int32_t node = is_compute(a) && a->op != TPP_OP_W
                           ? *place(w, up ? SENT_F : SENT_B, a->stage, a->micro)
                           : -1;
        if (node < 0)
            continue;
        int32_t *last = &before[rank_of(w, up ? a->stage + 1 : a->stage - 1)];
        if (*last >= 0)
            add_arc(w, *last, node, 0);
        *last = node;
    }
}

/* --- Needs ------------------------------------------------------------------------------------ */

static int32_t chunk_of(const second *w, int32_t stage) {
    int32_t chunk = 0;
    while (tpp_schedule_stage_of(w->schedule, rank_of(w, stage), chunk) != stage)
        chunk++;
    return chunk;
}

static void need(second *w, int32_t node, int what, int32_t stage, int32_t from, int32_t micro) {
    bool far = rank_of(w, stage) != rank_of(w, from);
    int32_t made = *place(w, far ? (what == OF_F ? SENT_F : SENT_B) : what, from, micro);
    if ((w->desc->flags & TPP_SIM_PAPER_EDGES) && far && micro % w->info.ranks != 0 &&
        chunk_of(w, stage) != chunk_of(w, from))
        return;
    if (made != node)
        add_arc(w, made, node, far ? lag_between(w, stage, from) : 0);
}

static void add_needs(second *w) {
    for (int32_t s = 0; s < w->info.stages; s++) {
        for (int32_t i = 0; i < w->info.micros; i++) {
            int32_t f = *place(w, OF_F, s, i), b = *place(w, OF_I, s, i), x = *place(w, OF_W, s, i);
            if (f >= 0 && same_pipeline(w, s, s - 1))
                need(w, f, OF_F, s, s - 1, i);
            if (b >= 0)
                need(w, b, OF_F, s, s, i);
            if (b >= 0 && same_pipeline(w, s, s + 1))
                need(w, b, OF_I, s, s + 1, i);
            if (x >= 0)
                need(w, x, OF_I, s, s, i);
        }
    }
}

static void add_steps(second *w) {
    for (int32_t r = 0; r < w->info.ranks && w->desc->optimizer; r++) {
        double takes = 0;
        for (int32_t s = 0; s < w->info.stages; s++)
            takes += rank_of(w, s) == r ? w->desc->optimizer[s] : 0;
        w->step[r] = add_node(w, takes);
        for (int32_t q = 0; q < w->info.ranks; q++) {
            if (w->last[q] >= 0 && (q == r || w->desc->flags & TPP_SIM_BARRIER))
                add_arc(w, w->last[q], w->step[r], 0);
        }
    }
}

/* --- Times ------------------------------------------------------------------------------------ */

static void find_times(second *w) {
    int32_t known = 0;
    for (int32_t v = 0; v < w->node_count; v++) {
        if (w->nodes[v].open == 0)
            w->order[known++] = v;
    }
    for (w->done = 0; w->done < known; w->done++) {
        second_node *u = &w->nodes[w->order[w->done]];
        u->end = u->start + u->takes;
        for (int32_t e = u->arcs_out; e >= 0; e = w->arcs[e].next_out) {
            second_node *v = &w->nodes[w->arcs[e].to];
            double there = u->end + w->arcs[e].lag;
            v->start = there > v->start ? there : v->start;
            if (--v->open == 0)
                w->order[known++] = w->arcs[e].to;
        }
    }
}

static void sum_up(second *w) {
    w->makespan = w->period = w->work = w->bubble_global = w->bubble_span = 0;
    double start[SECOND_RANKS] = {0}, end[SECOND_RANKS] = {0};
    for (int32_t r = 0; r < w->info.ranks; r++) {
        int64_t count;
        const tpp_action *a = tpp_schedule_actions(w->schedule, r, &count);
        int32_t last = w->step[r] >= 0 ? w->step[r] : w->last[r];
        end[r] = last >= 0 ? w->nodes[last].end : 0; /* a rank may have no stage */
        w->row_work[r] = w->step[r] >= 0 ? w->nodes[w->step[r]].takes : 0;
        start[r] = -1;
        for (int64_t i = 0; i < count; i++) {
            if (!is_compute(a + i))
                continue;
            const second_node *n = &w->nodes[second_find(w, a[i].op, a[i].stage, a[i].micro)];
            start[r] = start[r] < 0 ? n->start : start[r];
            w->row_work[r] += i > 0 && a[i - 1].flags & TPP_ACTION_FUSED ? 0 : n->takes;
        }
        if (start[r] < 0)
            start[r] = last >= 0 ? w->nodes[last].start : 0;
        w->makespan = end[r] > w->makespan ? end[r] : w->makespan;
        w->work = w->row_work[r] > w->work ? w->row_work[r] : w->work;
    }
    for (int32_t r = 0; r < w->info.ranks; r++) {
        double span = end[r] - start[r], idle = w->makespan - w->row_work[r];
        w->period = span > w->period ? span : w->period;
        w->bubble_global = idle > w->bubble_global ? idle : w->bubble_global;
        idle = span - w->row_work[r];
        w->bubble_span = idle > w->bubble_span ? idle : w->bubble_span;
    }
    if (w->desc->flags & TPP_SIM_BARRIER)
        w->period = w->makespan;
}

/* --- What is held ----------------------------------------------------------------------------- */

/* Per rank, what begins and ends to be held at each place of its order. */
typedef struct change {
    double bytes;
    int32_t whole, input;
} change;

static void hold(change *at, int64_t from, int64_t to, double bytes, int32_t whole, int32_t input) {
    at[from].bytes += bytes;
    at[from].whole += whole;
    at[from].input += input;
    at[to + 1].bytes -= bytes;
    at[to + 1].whole -= whole;
    at[to + 1].input -= input;
}

static int32_t *at_place(const second *w, int which, const tpp_action *a) {
    return &w->place_of[((int64_t)which * w->info.stages + a->stage) * w->info.micros + a->micro];
}

static double of(const double *costs, int32_t stage) {
    return costs ? costs[stage] : 0;
}

/* What an F at place i of its rank's order holds, and until when. Without a backward an output is
 * held until the next stage has read it, if that is on the same rank. */
static void hold_cell(const second *w, change *at, const tpp_action *f, int32_t i) {
    const tpp_sim_desc *d = w->desc;
    if (w->info.forward_only) {
        int32_t next = f->stage + 1;
        bool near = same_pipeline(w, f->stage, next) && rank_of(w, next) == rank_of(w, f->stage);
        tpp_action reader = {.stage = near ? next : f->stage, .micro = f->micro};
        hold(at, i, *at_place(w, OF_F, &reader), 0, 1, 1);
        hold(at, i, i, of(d->memory, f->stage), 0, 0);
        return;
    }
    int32_t input = *at_place(w, OF_I, f), whole = *at_place(w, OF_W, f);
    hold(at, i, input, of(d->memory, f->stage), 0, 1);
    hold(at, i, whole, 0, 1, 0);
    if (whole != input)
        hold(at, input + 1, whole, of(d->memory_weight ? d->memory_weight : d->memory, f->stage), 0,
             0);
}

static void find_held(second *w, int32_t rank) {
    int64_t count;
    const tpp_action *a = tpp_schedule_actions(w->schedule, rank, &count);
    change *at = calloc((size_t)count + 2, sizeof *at), now = {0, 0, 0};
    for (int32_t i = 0; i < count; i++) {
        if (a[i].op == TPP_OP_F)
            *at_place(w, OF_F, a + i) = i;
        if (a[i].op == TPP_OP_B || a[i].op == TPP_OP_I)
            *at_place(w, OF_I, a + i) = i;
        if (a[i].op == TPP_OP_B || a[i].op == TPP_OP_W)
            *at_place(w, OF_W, a + i) = i;
    }
    for (int32_t i = 0; i < count; i++) {
        if (a[i].op == TPP_OP_F)
            hold_cell(w, at, a + i, i);
    }
    for (int32_t s = 0; s < w->info.stages; s++)
        now.bytes += rank_of(w, s) == rank ? of(w->desc->memory_state, s) : 0;
    w->row_memory[rank] = now.bytes;
    w->row_peak[rank] = w->row_peak_input[rank] = 0;
    for (int64_t i = 0; i < count; i++) {
        now = (change){now.bytes + at[i].bytes, now.whole + at[i].whole, now.input + at[i].input};
        w->row_memory[rank] = now.bytes > w->row_memory[rank] ? now.bytes : w->row_memory[rank];
        w->row_peak[rank] = now.whole > w->row_peak[rank] ? now.whole : w->row_peak[rank];
        w->row_peak_input[rank] =
            now.input > w->row_peak_input[rank] ? now.input : w->row_peak_input[rank];
    }
    free(at);
}

/* --- All -------------------------------------------------------------------------------------- */

void second_run(second *w, const tpp_schedule *schedule, const tpp_sim_desc *desc) {
    w->schedule = schedule;
    w->desc = desc;
    w->info.size = sizeof w->info;
    tpp_schedule_query(schedule, &w->info);
    int64_t cells = (int64_t)w->info.stages * w->info.micros;
    int64_t nodes = w->info.actions + w->info.ranks;
    w->nodes = grown(w->nodes, &w->node_room, nodes, sizeof *w->nodes);
    w->arcs =
        grown(w->arcs, &w->arc_room, 5 * nodes + SECOND_RANKS * SECOND_RANKS, sizeof *w->arcs);
    w->order = realloc(w->order, (size_t)nodes * sizeof *w->order);
    w->node_of = realloc(w->node_of, NODES_OF_CELL * (size_t)cells * sizeof *w->node_of);
    memset(w->node_of, 0xff, NODES_OF_CELL * (size_t)cells * sizeof *w->node_of);
    w->place_of = realloc(w->place_of, SENT_F * (size_t)cells * sizeof *w->place_of);
    w->node_count = w->arc_count = 0;
    for (int32_t r = 0; r < w->info.ranks; r++)
        add_rank(w, r);
    for (int32_t r = 0; r < w->info.ranks; r++)
        add_links(w, r);
    add_needs(w);
    add_steps(w);
    find_times(w);
    sum_up(w);
    for (int32_t r = 0; r < w->info.ranks; r++)
        find_held(w, r);
}

void second_free(second *w) {
    free(w->nodes);
    free(w->arcs);
    free(w->node_of);
    free(w->place_of);
    free(w->order);
    *w = (second){0};
}

int32_t second_find(const second *w, tpp_op op, int32_t stage, int32_t micro) {
    switch (op) {
    case TPP_OP_F:
        return *place(w, OF_F, stage, micro);
    case TPP_OP_B:
    case TPP_OP_I:
        return *place(w, OF_I, stage, micro);
    case TPP_OP_W:
        return *place(w, OF_W, stage, micro);
    case TPP_OP_SEND_F:
        return *place(w, SENT_F, stage, micro);
    case TPP_OP_SEND_B:
        return *place(w, SENT_B, stage, micro);
    default:
        return w->step[rank_of(w, stage)];
    }
}

const second_arc *second_between(const second *w, int32_t from, int32_t to) {
    for (int32_t e = w->nodes[to].arcs_in; e >= 0; e = w->arcs[e].next_in) {
        if (w->arcs[e].from == from)
            return &w->arcs[e];
    }
    return NULL;
}
