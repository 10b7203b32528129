/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched_walk.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

/* A gradient that was posted lies in its slot until its receiver takes it, and a receive stands
 * just before the backward that needs it. With groups much larger than the pipeline that is so late
 * that ranks wait for each other's slots in a ring. The remedy costs no memory: the receiver holds
 * the micro-batch's slot since its forward, so it can receive at any time after. Where a walk gets
 * stuck, each rank that waits for a slot is helped: its peer receives where it stands. */

/* The receive of a gradient sent from `cell` moves to before action `at`. */
typedef struct move {
    int64_t at;
    int32_t cell;
    int32_t order;
} move;

typedef struct moves {
    move *list;
    int32_t count;
    int64_t bytes;
} moves;

/* The action before which a rank can receive now: where it stands, but not within a fused pair. */
static int64_t place_of(const tpp__sched_walk *w, int32_t rank) {
    int64_t at = w->at[rank];
    bool within = at > w->s->first[rank] && w->s->actions[at - 1].flags & TPP_ACTION_FUSED;
    return within ? at - 1 : at;
}

/* Help all ranks that wait for a slot; false when there are none. */
static bool help(tpp__sched_walk *w, moves *m) {
    const tpp_schedule *s = w->s;
    int32_t before = m->count;
    for (int32_t r = 0; r < s->ranks; r++) {
        int32_t cell = w->at[r] < s->first[r + 1] ? tpp__sched_walk_unreceived(w, r) : -1;
        if (cell < 0)
            continue;
        m->list[m->count] = (move){place_of(w, w->waits_for[r]), cell, m->count};
        m->count++;
        tpp__sched_walk_receive(w, cell);
    }
    return m->count > before;
}

static tpp_status find_moves(tpp__sched_walk *w, moves *m) {
    tpp_status status;
    while ((status = tpp__sched_walk_run(w)) == TPP__SCHED_WAITS) {
        if (!m->list) {
            m->bytes = w->s->messages / 2 * (int64_t)sizeof *m->list;
            m->list = tpp__alloc(&w->s->allocator, m->bytes);
            if (!m->list)
                return TPP_ERR_NO_MEMORY;
        }
        if (!help(w, m))
            return status;
    }
    return status;
}

static int by_place(const void *left, const void *right) {
    const move *a = left, *b = right;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* Copy the actions with the receives moved. `moved` tells a cell whose receive stands elsewhere
 * now. */
static void copy_moved(const tpp_schedule *s, moves *m, uint8_t *moved, tpp_action *to) {
    int64_t next = 0;
    qsort(m->list, (size_t)m->count, sizeof *m->list, by_place);
    for (int64_t i = 0; i < m->count; i++)
        moved[m->list[i].cell - s->micros] = 1;
    for (int64_t i = 0; i < s->first[s->ranks]; i++) {
        const tpp_action *a = s->actions + i;
        for (; next < m->count && m->list[next].at == i; next++) {
            int32_t cell = m->list[next].cell - s->micros;
            *to = (tpp_action){.op = TPP_OP_RECV_B};
            to->stage = cell / s->micros;
            to->micro = cell % s->micros;
            tpp__sched_address(s, to++);
        }
        if (a->op != TPP_OP_RECV_B || !moved[tpp__sched_cell(s, a->stage, a->micro)])
            *to++ = *a;
    }
}

static tpp_status apply(tpp_schedule *s, moves *m) {
    int64_t cells = (int64_t)s->stages * s->micros;
    tpp_action *old = s->actions;
    int64_t bytes = s->room * (int64_t)sizeof *old;
    uint8_t *moved = tpp__alloc(&s->allocator, cells);
    tpp_status status = moved ? tpp__sched_reserve(s, s->room) : TPP_ERR_NO_MEMORY;
    if (status == TPP_OK) {
        tpp_action *to = s->actions;
        s->actions = old;
        copy_moved(s, m, moved, to);
        s->actions = to;
        tpp__free(&s->allocator, old, bytes);
        tpp__sched_slots(s, &status);
    }
    tpp__free(&s->allocator, moved, cells);
    return status;
}

tpp_status tpp__sched_receive_early(tpp_schedule *s) {
    tpp__sched_walk w;
    moves m = {NULL, 0, 0};
    tpp_status status = tpp__sched_walk_begin(&w, s, TPP_CHANNEL_POSTED, 0);
    if (status < 0)
        return status;
    w.quiet = true;
    status = find_moves(&w, &m);
    tpp__sched_walk_end(&w);
    if (m.count > 0 && status != TPP_ERR_NO_MEMORY)
        status = apply(s, &m);
    tpp__free(&s->allocator, m.list, m.bytes);
    return status == TPP_ERR_NO_MEMORY ? status : TPP_OK;
}
