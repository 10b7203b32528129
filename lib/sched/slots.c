/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched_impl.h"

/* Free slots of a rank: a binary heap, smallest on top, and all from `fresh` on. */
typedef struct pool {
    int32_t *heap;
    int32_t used;
    int32_t fresh;
} pool;

static int32_t take(pool *p) {
    if (p->used == 0)
        return p->fresh++;
    int32_t top = p->heap[0], moved = p->heap[--p->used], at = 0;
    for (;;) {
        int32_t child = 2 * at + 1;
        if (child + 1 < p->used && p->heap[child + 1] < p->heap[child])
            child++;
        if (child >= p->used || p->heap[child] >= moved)
            break;
        p->heap[at] = p->heap[child];
        at = child;
    }
    p->heap[at] = moved;
    return top;
}

static void give(pool *p, int32_t slot) {
    int32_t at = p->used++;
    while (at > 0 && p->heap[(at - 1) / 2] > slot) {
        p->heap[at] = p->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    p->heap[at] = slot;
}

/* What is known of a (chunk, micro-batch): 0 nothing, 1 + slot while it is held, -1 - slot
 * afterwards. */
static int32_t slot_of(int32_t known) {
    return known > 0 ? known - 1 : -1 - known;
}

typedef struct rank_slots {
    pool free;
    int32_t *known;
    int32_t alive, peak;
} rank_slots;

static void release(rank_slots *k, int32_t *known) {
    int32_t slot = slot_of(*known);
    k->alive--;
    give(&k->free, slot);
    *known = -1 - slot;
}

/* The slot of an action, or -1. It is taken by what comes first of RECV_F (it fills the slot's
 * input) and F. */
static int32_t follow(rank_slots *k, const tpp_action *a, int32_t *known) {
    if (*known == 0) {
        if (a->op != TPP_OP_F && a->op != TPP_OP_RECV_F)
            return -1;
        *known = 1 + take(&k->free);
    }
    int32_t slot = slot_of(*known);
    if (a->op == TPP_OP_F && ++k->alive > k->peak)
        k->peak = k->alive;
    if ((a->op == TPP_OP_B || a->op == TPP_OP_W) && *known > 0)
        release(k, known);
    return slot;
}

/* Without a backward, F is the last to need its slot, unless the next stage of this rank reads the
 * output there. */
static void release_forward(const tpp_schedule *s, rank_slots *k, const tpp_action *a) {
    int32_t *known = k->known + (int64_t)a->chunk * s->micros + a->micro;
    if (!tpp__sched_near(s, a->stage, a->stage + 1) && *known > 0)
        release(k, known);
    if (!tpp__sched_near(s, a->stage, a->stage - 1))
        return;
    known = k->known + (int64_t)s->chunk_of[a->stage - 1] * s->micros + a->micro;
    if (*known > 0)
        release(k, known);
}

static const tpp_action *follow_rank(const tpp_schedule *s, int32_t rank, rank_slots *k) {
    const tpp_action *bad = NULL, *old = s->actions + s->first[rank];
    int64_t ahead = 0; /* F since `old`, with it */
    for (int64_t i = s->first[rank]; i < s->first[rank + 1]; i++) {
        tpp_action *a = s->actions + i;
        a->slot = follow(k, a, k->known + (int64_t)a->chunk * s->micros + a->micro);
        if (a->slot < 0 && !bad)
            bad = a;
        if (!s->forward_only || a->op != TPP_OP_F || ++ahead <= s->linger)
            continue;
        while (old->op != TPP_OP_F)
            old++;
        release_forward(s, k, old++);
        ahead--;
    }
    return bad;
}

const tpp_action *tpp__sched_slots(tpp_schedule *s, tpp_status *status) {
    int64_t cells = (int64_t)s->chunks * s->micros, bytes = cells * (int64_t)sizeof(int32_t);
    int32_t *known = tpp__alloc(&s->allocator, 2 * bytes);
    const tpp_action *bad = NULL;
    *status = known ? TPP_OK : TPP_ERR_NO_MEMORY;
    if (!known)
        return NULL;
    for (int32_t r = 0; r < s->ranks; r++) {
        rank_slots k = {.free.heap = known + cells, .known = known};
        for (int64_t i = 0; r > 0 && i < cells; i++)
            known[i] = 0;
        const tpp_action *bad_here = follow_rank(s, r, &k);
        bad = bad ? bad : bad_here;
        s->rank_slots[r] = k.free.fresh;
        s->rank_peak[r] = k.peak;
        s->slots = k.free.fresh > s->slots ? k.free.fresh : s->slots;
    }
    tpp__free(&s->allocator, known, 2 * bytes);
    return bad;
}
