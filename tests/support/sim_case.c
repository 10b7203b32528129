/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/sim_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sched/generate.h"

uint64_t sim_random(uint64_t *state) {
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

int32_t sim_between(uint64_t *state, int32_t low, int32_t high) {
    return low + (int32_t)(sim_random(state) % (uint64_t)(high - low + 1));
}

/* --- Orders ----------------------------------------------------------------------------------- */

/* Actions are drawn one by one from all that could come next, and put at the end of their rank. */
typedef struct drawing {
    tpp_schedule *s;
    bool forward_only;
    bool *halves;        /* [cells]: I and W, not B */
    unsigned char *done; /* [cells]: bits 1 F, 2 I, 4 W */
    tpp_action *lists;   /* [ranks * each] */
    int64_t *counts, each;
} drawing;

static int32_t last_done(const drawing *d, int32_t stage, int32_t micro) {
    return d->done[tpp__sched_cell(d->s, stage, micro)];
}

/* The operation that could come next in a cell; 0: none now. */
static int32_t next_of(const drawing *d, int32_t stage, int32_t micro) {
    int32_t done = last_done(d, stage, micro);
    if (!(done & 1))
        return !tpp__sched_beside(d->s, stage, stage - 1) || last_done(d, stage - 1, micro) & 1
                   ? TPP_OP_F
                   : 0;
    if (d->forward_only || done & 4)
        return 0;
    if (done & 2)
        return TPP_OP_W;
    if (tpp__sched_beside(d->s, stage, stage + 1) && !(last_done(d, stage + 1, micro) & 2))
        return 0;
    return d->halves[tpp__sched_cell(d->s, stage, micro)] ? TPP_OP_I : TPP_OP_B;
}

static void take(drawing *d, int32_t op, int32_t stage, int32_t micro, uint8_t flags) {
    static const unsigned char makes[] = {0, 1, 6, 2, 4};
    int32_t rank = d->s->rank_of[stage];
    d->done[tpp__sched_cell(d->s, stage, micro)] |= makes[op];
    d->lists[rank * d->each + d->counts[rank]++] =
        (tpp_action){(uint8_t)op, flags, (uint16_t)d->s->chunk_of[stage], stage, micro, -1, -1, 0};
}

/* A B on the rank that could run along with an F. */
static bool draw_partner(const drawing *d, uint64_t *state, int32_t rank, int32_t *stage,
                         int32_t *micro) {
    for (int tries = 0; tries < 8; tries++) {
        int32_t s = sim_between(state, 0, d->s->stages - 1);
        int32_t i = sim_between(state, 0, d->s->micros - 1);
        if (d->s->rank_of[s] == rank && next_of(d, s, i) == TPP_OP_B) {
            *stage = s;
            *micro = i;
            return true;
        }
    }
    return false;
}

/* Cells that have something left to do. */
typedef struct cells {
    int32_t *list, count;
} cells;

static cells own_cells(const drawing *d) {
    cells all = {malloc((size_t)d->s->stages * (size_t)d->s->micros * sizeof *all.list), 0};
    for (int32_t stage = 0; stage < d->s->stages; stage++) {
        int32_t way = tpp__sched_direction(d->s, stage);
        for (int32_t i = tpp__sched_micro_first(d->s, way);
             i < tpp__sched_micro_first(d->s, way + 1); i++)
            all.list[all.count++] = tpp__sched_cell(d->s, stage, i);
    }
    return all;
}

static void draw_all(drawing *d, uint64_t *state, int pairs) {
    int32_t micros = d->s->micros, b_stage, b_micro;
    cells left = own_cells(d);
    for (int32_t at = 0; left.count > 0; at++) {
        if (at >= left.count || sim_random(state) % 8 == 0)
            at = sim_between(state, 0, left.count - 1);
        int32_t stage = left.list[at] / micros, micro = left.list[at] % micros;
        int32_t op = next_of(d, stage, micro);
        if (op == 0) {
            if (d->done[left.list[at]] == 7 || (d->forward_only && d->done[left.list[at]]))
                left.list[at] = left.list[--left.count];
            continue;
        }
        bool pair = pairs && op == TPP_OP_F &&
                    draw_partner(d, state, d->s->rank_of[stage], &b_stage, &b_micro);
        take(d, op, stage, micro, pair ? TPP_ACTION_FUSED : 0);
        if (pair)
            take(d, TPP_OP_B, b_stage, b_micro, 0);
    }
    free(left.list);
}

static void place(tpp_schedule *s, uint64_t *state, int32_t chunks) {
    int kind = sim_between(state, 0, 3);
    for (int32_t i = 0; i < s->stages; i++) {
        int32_t turn = i / s->ranks, at = i % s->ranks;
        bool up = kind == 0 || (kind == 1 && turn % 2 == 0) || (kind == 3 && turn == 0);
        s->rank_of[i] = up ? at : s->ranks - 1 - at;
    }
    for (int32_t i = s->stages - 1; i > 0 && kind == 2; i--) {
        int32_t j = sim_between(state, 0, i), kept = s->rank_of[i];
        s->rank_of[i] = s->rank_of[j];
        s->rank_of[j] = kept;
    }
    if (kind == 3 && chunks == 2)
        tpp__sched_two_way(s);
    assert_int_equal(tpp__sched_place(s), TPP_OK);
}

tpp_schedule *sim_order(uint64_t *state, int32_t ranks, int32_t chunks, int32_t micros) {
    tpp_allocator allocator;
    drawing d = {.forward_only = sim_between(state, 0, 15) == 0, .each = 3L * chunks * micros};
    tpp__allocator_read(&allocator, NULL);
    assert_int_equal(tpp__sched_new(&d.s, &allocator, ranks, ranks * chunks, micros), TPP_OK);
    place(d.s, state, chunks);
    size_t count = (size_t)d.s->stages * (size_t)micros;
    int halves = sim_between(state, 0, 2), pairs = sim_between(state, 0, 1);
    d.halves = calloc(count, sizeof *d.halves);
    d.done = calloc(count, sizeof *d.done);
    d.lists = calloc((size_t)(d.each * ranks), sizeof *d.lists);
    d.counts = calloc((size_t)ranks, sizeof *d.counts);
    for (size_t i = 0; i < count; i++)
        d.halves[i] = halves == 2 || (halves == 1 && sim_random(state) % 2);
    draw_all(&d, state, pairs);
    assert_int_equal(tpp__sched_reserve(d.s, d.each * ranks), TPP_OK);
    for (int32_t r = 0; r < ranks; r++) {
        d.s->first[r + 1] = d.s->first[r] + d.counts[r];
        for (int64_t i = 0; i < d.counts[r]; i++)
            d.s->actions[d.s->first[r] + i] = d.lists[r * d.each + i];
    }
    free(d.halves);
    free(d.done);
    free(d.lists);
    free(d.counts);
    tpp_status status = tpp_schedule_lower(d.s);
    if (status == TPP_OK)
        status = tpp_schedule_finish(d.s);
    if (status == TPP_ERR_DEADLOCK && d.forward_only) {
        tpp_schedule_destroy(d.s);
        return NULL;
    }
    if (status != TPP_OK)
        fail_msg("a random order was refused: %s", tpp_message());
    return d.s;
}

/* --- Costs ------------------------------------------------------------------------------------ */

static const double *draw(sim_costs *c, uint64_t *state, int row, int32_t stages, int exact,
                          int32_t largest) {
    bool equal = sim_random(state) % 4 == 0;
    for (int32_t i = 0; i < stages; i++) {
        double number = sim_between(state, 0, 16 * largest) / 16.0;
        if (!exact)
            number *= 1.0 + 1e-9 * (double)(sim_random(state) % 1000000);
        c->numbers[row][i] = equal && i > 0 ? c->numbers[row][0] : number;
    }
    return c->numbers[row];
}

void sim_costs_draw(sim_costs *out, uint64_t *state, int32_t stages, int exact) {
    tpp_sim_desc d = {.size = sizeof d, .stages = stages};
    uint64_t has = sim_random(state);
    bool whole = has & 1, latency = has & 2, links = has & 4;
    d.forward = draw(out, state, 0, stages, exact, 4);
    if (whole)
        d.backward = draw(out, state, 1, stages, exact, 8);
    if (!whole || has & 8) {
        d.backward_input = draw(out, state, 2, stages, exact, 4);
        d.backward_weight = draw(out, state, 3, stages, exact, 4);
    }
    if (latency)
        d.latency = sim_between(state, 0, 64) / 32.0;
    if (latency && has & 16)
        d.edge_latency = draw(out, state, 4, stages, exact, 2);
    if (links && has & 32)
        d.send_forward = draw(out, state, 5, stages, exact, 2);
    if (links && has & 64)
        d.send_backward = draw(out, state, 6, stages, exact, 2);
    if (has & 128)
        d.memory = draw(out, state, 7, stages, exact, 100);
    if (has & 256)
        d.memory_weight = draw(out, state, 8, stages, exact, 100);
    if (has & 512)
        d.memory_state = draw(out, state, 9, stages, exact, 100);
    if (has & 1024)
        d.fused = draw(out, state, 10, stages, exact, 10);
    if (has & 2048)
        d.optimizer = draw(out, state, 11, stages, exact, 5);
    d.flags = (has & 4096 ? TPP_SIM_BLOCKING : 0) | (has & 8192 ? TPP_SIM_BARRIER : 0) |
              ((has >> 14) % 8 == 0 ? TPP_SIM_PAPER_EDGES : 0);
    out->desc = d;
}
