/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched_walk.h"

#include "base/check.h"

#include <stdlib.h>

/* --- Which channel a message takes --- */

/* What leaves a stage in one direction, by its two ranks. */
typedef struct edge {
    int32_t from, to;
    int32_t kind;  /* 0, or of FIFO_KIND 1 for gradients */
    int32_t index; /* 2 * stage, + 1 for gradients */
} edge;

static int by_ends(const void *left, const void *right) {
    const edge *a = left, *b = right;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    return (a->kind > b->kind) - (a->kind < b->kind);
}

static int32_t list_edges(const tpp_schedule *s, tpp_channel channel, edge *out) {
    int32_t n = 0;
    for (int32_t i = 0; i < 2 * s->stages; i++) {
        int32_t stage = i / 2, backward = i % 2, other = backward ? stage - 1 : stage + 1;
        if (tpp__sched_far(s, stage, other))
            out[n++] = (edge){s->rank_of[stage], s->rank_of[other],
                              channel == TPP_CHANNEL_FIFO_KIND ? backward : 0, i};
    }
    return n;
}

tpp_status tpp__sched_channels(const tpp_schedule *s, tpp_channel channel, int32_t *channel_of) {
    int64_t bytes = 2 * (int64_t)s->stages * (int64_t)sizeof(edge);
    edge *edges = tpp__alloc(&s->allocator, bytes);
    if (!edges)
        return TPP_ERR_NO_MEMORY;
    int32_t n = list_edges(s, channel, edges), number = 0;
    qsort(edges, (size_t)n, sizeof *edges, by_ends);
    for (int32_t i = 0; i < n; i++) {
        number += i > 0 && by_ends(&edges[i - 1], &edges[i]) != 0;
        channel_of[edges[i].index] = number;
    }
    tpp__free(&s->allocator, edges, bytes);
    return TPP_OK;
}

/* --- Order within a FIFO --- */

/* A channel has one sender and one receiver, so both orders stand in the schedule. */
typedef struct fifo {
    const tpp_schedule *s;
    int32_t *channel_of; /* [2 * stages] */
    int32_t *passed;     /* [2 * stages] messages of a channel so far */
    int32_t *turn;       /* [2 * cells] which message of its channel a cell's is */
    int64_t bytes;
} fifo;

static void lay_out(fifo *f, tpp__arena *arena) {
    int64_t stages = f->s->stages;
    f->channel_of = tpp__arena_take(arena, 2 * stages, sizeof *f->channel_of);
    f->passed = tpp__arena_take(arena, 2 * stages, sizeof *f->passed);
    f->turn = tpp__arena_take(arena, 2 * stages * f->s->micros, sizeof *f->turn);
}

/* The sender's cell of a message, doubled, + 1 for gradients; its stage in *stage. */
static int64_t place_of(const tpp_schedule *s, const tpp_action *a, int32_t *stage) {
    bool sends = a->op == TPP_OP_SEND_F || a->op == TPP_OP_SEND_B;
    *stage = sends ? a->stage : tpp__sched_other(a->op, a->stage);
    return 2 * (int64_t)tpp__sched_cell(s, *stage, a->micro) + (a->op >= TPP_OP_SEND_B ? 1 : 0);
}

static tpp_status out_of_order(const fifo *f, const tpp_action *a, int32_t sent, int32_t received) {
    return tpp__fail(
        TPP_ERR_SCHEDULE,
        "rank %d takes %d%s%d as message %d from rank %d, which sends it as message %d: "
        "one FIFO gives the wrong message; tell messages apart by tag or kind",
        f->s->rank_of[a->stage], a->stage, tpp_op_name(a->op), a->micro, received, a->peer, sent);
}

/* Number the sends, or hold the receives against these numbers. */
static tpp_status pass_all(const fifo *f, bool sends) {
    for (int64_t i = 0; i < f->s->first[f->s->ranks]; i++) {
        const tpp_action *a = f->s->actions + i;
        int32_t stage;
        if (!tpp__sched_is_message(a->op) ||
            (a->op == TPP_OP_SEND_F || a->op == TPP_OP_SEND_B) != sends)
            continue;
        int32_t *turn = &f->turn[place_of(f->s, a, &stage)];
        int32_t now = f->passed[f->channel_of[2 * stage + (a->op >= TPP_OP_SEND_B ? 1 : 0)]]++;
        if (sends)
            *turn = now;
        else if (*turn != now)
            return out_of_order(f, a, *turn, now);
    }
    return TPP_OK;
}

tpp_status tpp__sched_fifo_order(const tpp_schedule *s, tpp_channel channel) {
    fifo f = {.s = s};
    tpp__arena arena = tpp__arena_counting();
    lay_out(&f, &arena);
    f.bytes = arena.used;
    void *memory = tpp__alloc(&s->allocator, f.bytes);
    if (!memory)
        return TPP_ERR_NO_MEMORY;
    arena = tpp__arena_over(memory, f.bytes);
    lay_out(&f, &arena);
    tpp_status status = tpp__sched_channels(s, channel, f.channel_of);
    if (status == TPP_OK)
        status = pass_all(&f, true);
    for (int32_t i = 0; i < 2 * s->stages; i++)
        f.passed[i] = 0;
    if (status == TPP_OK)
        status = pass_all(&f, false);
    tpp__free(&s->allocator, memory, f.bytes);
    return status;
}
