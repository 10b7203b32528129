/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched_walk.h"

#include "base/check.h"

/* How messages pass under each kind of channel. */

/* The backward that a stage's rank has of a micro-batch: B or I. */
static const char *backward_of(const tpp_schedule *s, int32_t stage, int32_t micro) {
    int32_t r = s->rank_of[stage];
    for (int64_t i = s->first[r]; i < s->first[r + 1]; i++) {
        const tpp_action *a = s->actions + i;
        if (a->stage == stage && a->micro == micro && (a->op == TPP_OP_B || a->op == TPP_OP_I))
            return tpp_op_name(a->op);
    }
    return "B";
}

/* `op` NULL: the backward. */
tpp_status tpp__sched_misplaced(const tpp__sched_walk *w, const tpp_action *a, const char *op,
                                int32_t stage) {
    if (w->quiet)
        return TPP_ERR_SCHEDULE;
    if (!op)
        op = backward_of(w->s, stage, a->micro);
    return tpp__fail(TPP_ERR_SCHEDULE, "rank %d: %d%s%d stands before %d%s%d",
                     w->s->rank_of[a->stage], a->stage, tpp_op_name(a->op), a->micro, stage, op,
                     a->micro);
}

/* What a message carries, or the slot it fills, must be there. */
static tpp_status check_message(const tpp__sched_walk *w, const tpp_action *a) {
    uint8_t here = *tpp__sched_cell_at(w, a->stage, a->micro);
    if ((a->op == TPP_OP_SEND_F || a->op == TPP_OP_RECV_B) && !(here & DID_F))
        return tpp__sched_misplaced(w, a, "F", a->stage);
    if (a->op == TPP_OP_SEND_B && !(here & DID_I))
        return tpp__sched_misplaced(w, a, NULL, a->stage);
    return TPP__SCHED_STEPPED;
}

static void note_message(tpp__sched_walk *w, const tpp_action *a) {
    static const uint8_t bits[] = {SENT_F, GOT_F, SENT_B, GOT_B};
    *tpp__sched_cell_at(w, a->stage, a->micro) |= bits[a->op - TPP_OP_SEND_F];
}

/* Nothing is buffered: both ranks pass a message together, once both stand at it. */
static tpp_status meet(tpp__sched_walk *w, int32_t rank, const tpp_action *a) {
    int32_t peer = a->peer;
    const tpp_action *b = w->s->actions + w->at[peer];
    if (w->at[peer] == w->s->first[peer + 1] || !tpp__sched_is_message(b->op) || b->tag != a->tag) {
        w->waits_for[rank] = peer;
        return TPP__SCHED_WAITS;
    }
    tpp_status status = check_message(w, b);
    if (status != TPP__SCHED_STEPPED)
        return status;
    note_message(w, b);
    w->at[peer]++;
    return TPP__SCHED_STEPPED;
}

/* How many messages the channel holds that leaves `sender` with outputs or gradients. */
static int32_t *held(tpp__sched_walk *w, int32_t sender, bool backward) {
    return &w->in_channel[w->channel_of[2 * sender + (backward ? 1 : 0)]];
}

static tpp_status put(tpp__sched_walk *w, int32_t rank, const tpp_action *a) {
    if (w->channel == TPP_CHANNEL_POSTED)
        return TPP__SCHED_STEPPED;
    int32_t *count = held(w, a->stage, a->op == TPP_OP_SEND_B);
    if (*count < w->capacity) {
        ++*count;
        return TPP__SCHED_STEPPED;
    }
    w->waits_for[rank] = a->peer;
    return TPP__SCHED_WAITS;
}

/* In a FIFO whose order is right the oldest message is this one. */
static tpp_status take(tpp__sched_walk *w, int32_t rank, const tpp_action *a) {
    int32_t sender = tpp__sched_other(a->op, a->stage);
    bool backward = a->op == TPP_OP_RECV_B;
    if (!(*tpp__sched_cell_at(w, sender, a->micro) & (backward ? SENT_B : SENT_F))) {
        w->waits_for[rank] = a->peer;
        return TPP__SCHED_WAITS;
    }
    if (w->channel != TPP_CHANNEL_POSTED)
        --*held(w, sender, backward);
    return TPP__SCHED_STEPPED;
}

static tpp_status pass(tpp__sched_walk *w, int32_t rank, const tpp_action *a) {
    if (w->channel != TPP_CHANNEL_POSTED && w->capacity == 0)
        return meet(w, rank, a);
    bool sends = a->op == TPP_OP_SEND_F || a->op == TPP_OP_SEND_B;
    return sends ? put(w, rank, a) : take(w, rank, a);
}

void tpp__sched_wake(tpp__sched_walk *w, int32_t rank, int32_t peer) {
    if (w->waits_for[peer] != rank)
        return;
    w->waits_for[peer] = -1;
    w->ready[w->ready_count++] = peer;
}

tpp_status tpp__sched_message(tpp__sched_walk *w, int32_t rank, const tpp_action *a) {
    tpp_status status = check_message(w, a);
    if (status != TPP__SCHED_STEPPED)
        return status;
    status = pass(w, rank, a);
    if (status != TPP__SCHED_STEPPED)
        return status;
    note_message(w, a);
    tpp__sched_wake(w, rank, a->peer);
    return TPP__SCHED_STEPPED;
}
