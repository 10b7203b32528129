/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched_walk.h"

#include "base/check.h"
#include "base/fetch.h"
#include "sched/deps.h"

_Static_assert(DID_F == 1 << TPP__SCHED_F && DID_I == 1 << TPP__SCHED_I &&
                   DID_W == 1 << TPP__SCHED_W,
               "a result's bit is its kind's");

/* --- Compute --- */

/* A result of this rank must stand before `a`; one of another rank must have been received. */
static tpp_status check_need(const tpp__sched_walk *w, const tpp_action *a, tpp__sched_need need) {
    if (tpp__sched_far(w->s, a->stage, need.stage)) {
        bool forward = need.kind == TPP__SCHED_F;
        if (!(*tpp__sched_cell_at(w, a->stage, a->micro) & (forward ? GOT_F : GOT_B)))
            return tpp__sched_misplaced(w, a, forward ? "RECV_F" : "RECV_B", a->stage);
        return TPP__SCHED_STEPPED;
    }
    static const char *const names[] = {"F", NULL, "W"};
    if (!(*tpp__sched_cell_at(w, need.stage, need.micro) & 1 << need.kind))
        return tpp__sched_misplaced(w, a, names[need.kind], need.stage);
    return TPP__SCHED_STEPPED;
}

/* An action writes to a slot whose result, that of cell `old`, is still to be sent or received. */
static tpp_status not_gone(tpp__sched_walk *w, int32_t rank, const tpp_action *a, int32_t old) {
    const tpp_schedule *s = w->s;
    int32_t stage = old / s->micros, micro = old % s->micros;
    bool forward = a->op == TPP_OP_F;
    if (w->cells[old] & (forward ? SENT_F : SENT_B)) {
        w->waits_for[rank] = s->rank_of[forward ? stage + 1 : stage - 1];
        return TPP__SCHED_WAITS;
    }
    if (w->quiet)
        return TPP_ERR_SCHEDULE;
    return tpp__fail(TPP_ERR_SCHEDULE, "rank %d: %d%s%d overwrites slot %d before %d%s%d", rank,
                     a->stage, tpp_op_name(a->op), a->micro, a->slot, stage,
                     forward ? "SEND_F" : "SEND_B", micro);
}

/* The result of cell `old` needs its slot no more: posted, when it has been received, else once it is
 * in the channel. */
static bool is_gone(const tpp__sched_walk *w, int32_t old, bool forward) {
    if (w->channel != TPP_CHANNEL_POSTED)
        return w->cells[old] & (forward ? SENT_F : SENT_B);
    int32_t receiver = forward ? old + w->s->micros : old - w->s->micros;
    return w->cells[receiver] & (forward ? GOT_F : GOT_B);
}

/* B and I write the input gradient of their slot: what was sent from there must have been received.
 * The output that F writes needs no such care if its slot was freed by a backward: the next stage
 * has then had the output of that micro-batch. Without backwards it is as with B and I. */
static tpp_status overwrite(tpp__sched_walk *w, int32_t rank, const tpp_action *a) {
    bool forward = a->op == TPP_OP_F;
    int32_t *writer = w->writer + w->slot_first[rank] + a->slot;
    int32_t old = *writer - 1, cell = tpp__sched_cell(w->s, a->stage, a->micro);
    if (old >= 0 && !is_gone(w, old, forward))
        return not_gone(w, rank, a, old);
    if (w->rules[a->stage].far[forward ? 0 : 1])
        *writer = 1 + cell;
    /* else it is written for this rank itself: the slot's message may still be under way */
    return TPP__SCHED_STEPPED;
}

/* Which need of an action is not there. */
static tpp_status explain(const tpp__sched_walk *w, const tpp_action *a) {
    tpp__sched_need needs[2];
    tpp_status status = TPP__SCHED_STEPPED;
    int n = tpp__sched_needs(w->s->depth, w->s->stages, a, needs);
    for (int i = 0; i < n && status == TPP__SCHED_STEPPED; i++)
        status = check_need(w, a, needs[i]);
    return status;
}

static tpp_status compute(tpp__sched_walk *w, int32_t rank, const tpp_action *a) {
    static const uint8_t makes[] = {DID_F, DID_I | DID_W, DID_I, DID_W};
    int op = a->op - TPP_OP_F;
    const tpp__sched_rule *rule = &w->rules[a->stage];
    uint8_t *cell = tpp__sched_cell_at(w, a->stage, a->micro);
    if ((rule->here[op] & ~*cell) | (rule->there[op] & ~cell[rule->other[op]]))
        return explain(w, a);
    bool writes =
        a->op == TPP_OP_B || a->op == TPP_OP_I || (a->op == TPP_OP_F && w->s->forward_only);
    tpp_status status = writes ? overwrite(w, rank, a) : TPP__SCHED_STEPPED;
    if (status == TPP__SCHED_STEPPED)
        *cell |= makes[op];
    return status;
}

static void add_need(const tpp_schedule *s, tpp__sched_rule *rule, const tpp_action *a,
                     tpp__sched_need need) {
    int op = a->op - TPP_OP_F;
    uint8_t bit = (uint8_t)(1 << need.kind);
    if (tpp__sched_far(s, a->stage, need.stage))
        rule->here[op] |= need.kind == TPP__SCHED_F ? GOT_F : GOT_B;
    else if (need.stage == a->stage)
        rule->here[op] |= bit;
    else {
        rule->other[op] = (need.stage - a->stage) * s->micros;
        rule->there[op] |= bit;
    }
}

static void find_rule(tpp__sched_walk *w, int32_t stage) {
    tpp__sched_rule *rule = &w->rules[stage];
    for (int op = TPP_OP_F; op <= TPP_OP_W; op++) {
        tpp_action a = {.op = (uint8_t)op, .stage = stage};
        tpp__sched_need needs[2];
        int n = tpp__sched_needs(w->s->depth, w->s->stages, &a, needs);
        for (int i = 0; i < n; i++)
            add_need(w->s, rule, &a, needs[i]);
    }
    rule->far[0] = tpp__sched_far(w->s, stage, stage + 1);
    rule->far[1] = tpp__sched_far(w->s, stage, stage - 1);
}

/* --- All ranks --- */

static tpp_status follow(tpp__sched_walk *w, int32_t rank) {
    int64_t i = w->at[rank], end = w->s->first[rank + 1];
    tpp_status status = TPP__SCHED_STEPPED;
    for (; i < end; i++) {
        const tpp_action *a = w->s->actions + i;
        tpp__fetch(a + (i + 16 < end ? 16 : 0));
        status =
            tpp__sched_is_message(a->op) ? tpp__sched_message(w, rank, a) : compute(w, rank, a);
        if (status != TPP__SCHED_STEPPED)
            break;
    }
    w->at[rank] = i;
    return i < end ? status : TPP_OK;
}

tpp_status tpp__sched_walk_run(tpp__sched_walk *w) {
    while (w->ready_count > 0) {
        tpp_status status = follow(w, w->ready[--w->ready_count]);
        if (status < 0)
            return status;
    }
    for (int32_t r = 0; r < w->s->ranks; r++) {
        if (w->at[r] < w->s->first[r + 1])
            return TPP__SCHED_WAITS;
    }
    return TPP_OK;
}

int32_t tpp__sched_walk_unreceived(const tpp__sched_walk *w, int32_t rank) {
    const tpp_action *a = w->s->actions + w->at[rank];
    if (w->waits_for[rank] < 0 || tpp__sched_is_message(a->op))
        return -1;
    return w->writer[w->slot_first[rank] + a->slot] - 1;
}

void tpp__sched_walk_receive(tpp__sched_walk *w, int32_t cell) {
    int32_t stage = cell / w->s->micros;
    w->cells[cell - w->s->micros] |= GOT_B;
    tpp__sched_wake(w, w->s->rank_of[stage - 1], w->s->rank_of[stage]);
}

/* --- Memory: one block --- */

static void lay_out(tpp__sched_walk *w, tpp__arena *arena, int64_t slots) {
    const tpp_schedule *s = w->s;
    w->cells = tpp__arena_take(arena, (int64_t)s->stages * s->micros, sizeof *w->cells);
    w->rules = tpp__arena_take(arena, s->stages, sizeof *w->rules);
    w->at = tpp__arena_take(arena, s->ranks, sizeof *w->at);
    w->waits_for = tpp__arena_take(arena, s->ranks, sizeof *w->waits_for);
    w->ready = tpp__arena_take(arena, s->ranks, sizeof *w->ready);
    w->channel_of = tpp__arena_take(arena, 2 * (int64_t)s->stages, sizeof *w->channel_of);
    w->in_channel = tpp__arena_take(arena, 2 * (int64_t)s->stages, sizeof *w->in_channel);
    w->slot_first = tpp__arena_take(arena, s->ranks, sizeof *w->slot_first);
    w->writer = tpp__arena_take(arena, slots, sizeof *w->writer);
}

tpp_status tpp__sched_walk_begin(tpp__sched_walk *w, const tpp_schedule *s, tpp_channel channel,
                                 int32_t capacity) {
    int64_t slots = 0;
    for (int32_t r = 0; r < s->ranks; r++)
        slots += s->rank_slots[r];
    *w = (tpp__sched_walk){.s = s, .channel = channel, .capacity = capacity};
    tpp__arena arena = tpp__arena_counting();
    lay_out(w, &arena, slots);
    w->bytes = arena.used;
    void *memory = tpp__alloc(&s->allocator, w->bytes);
    if (!memory)
        return TPP_ERR_NO_MEMORY;
    arena = tpp__arena_over(memory, w->bytes);
    lay_out(w, &arena, slots);
    for (int32_t stage = 0; stage < s->stages; stage++)
        find_rule(w, stage);
    slots = 0;
    for (int32_t r = 0; r < s->ranks; r++) {
        w->at[r] = s->first[r];
        w->waits_for[r] = -1;
        w->ready[w->ready_count++] = s->ranks - 1 - r;
        w->slot_first[r] = slots;
        slots += s->rank_slots[r];
    }
    tpp_status status = TPP_OK;
    if (channel != TPP_CHANNEL_POSTED && capacity > 0)
        status = tpp__sched_channels(s, channel, w->channel_of);
    if (status < 0)
        tpp__sched_walk_end(w);
    return status;
}

void tpp__sched_walk_end(tpp__sched_walk *w) {
    tpp__free(&w->s->allocator, w->cells, w->bytes);
}
