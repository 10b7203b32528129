/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/walker.h"

#include "base/check.h"

#include <assert.h>

static tpp__walk_cell *cell(const tpp__walker *w, int32_t chunk, int32_t micro) {
    return &w->cells[(int64_t)chunk * w->walk->info.micros + micro];
}

/* The slot of (stage, micro) if that stage lies on this rank too, else NULL. */
static tpp__walk_slot *beside(const tpp__walker *w, int32_t stage, int32_t micro) {
    const tpp__walk *walk = w->walk;
    if (stage < 0 || stage >= walk->info.stages ||
        tpp_schedule_rank_of(walk->run.schedule, stage) != w->rank)
        return NULL;
    return &w->slot[cell(w, walk->chunk_of[stage], micro)->slot];
}

static tpp__walk_slot *slot_of(const tpp__walker *w, const tpp_action *a) {
    assert(w->slot && a->slot >= 0 && a->slot < w->slots);
    return &w->slot[a->slot];
}

static int direction(const tpp_action *a) {
    return a->op == TPP_OP_SEND_F || a->op == TPP_OP_RECV_F ? TPP__WALK_F : TPP__WALK_B;
}

/* What the other side of a message did with it. For one worker with several walkers only: those of
 * other ranks are then its own. */
static const tpp__walk_cell *other_side(const tpp__walker *w, const tpp_action *a) {
    bool up = a->op == TPP_OP_SEND_F || a->op == TPP_OP_RECV_B;
    int32_t stage = up ? a->stage + 1 : a->stage - 1;
    const tpp__walker *peer = &w->walk->walker[a->peer * w->walk->run.lanes + w->lane];
    return cell(peer, w->walk->chunk_of[stage], a->micro);
}

/* Make sure that the message which left from a buffer of `slot` is gone. */
static tpp_status vacate(tpp__walker *w, tpp__walk_slot *slot, int dir) {
    if (!slot->request[dir].comm)
        return TPP_OK;
    const tpp_action *send = slot->sent[dir];
    if (tpp__walk_plays_many(w->walk) && !other_side(w, send)->got[dir])
        return TPP_PENDING;
    tpp_status status = tpp__walker_wait(w, &slot->request[dir]);
    return status < 0 ? tpp__walk_fail(w->walk, w, send, status) : status;
}

/* Give F the output of the stage before on this rank as its input. The two slots exchange
 * buffers: the other slot may be used again while this one still needs its input (for W). */
static void take_input(const tpp__walker *w, const tpp_action *a, tpp__walk_slot *slot) {
    tpp__walk_slot *before = beside(w, a->stage - 1, a->micro);
    if (!before)
        return;
    void *spare = slot->in;
    slot->in = before->out;
    before->out = spare;
}

/* Where the gradient of the input goes: to the stage before if it lies on this rank, else to be
 * sent. */
static void *gradient_place(const tpp__walker *w, const tpp_action *a, const tpp__walk_slot *slot) {
    const tpp__walk_slot *before = beside(w, a->stage - 1, a->micro);
    return before ? before->grad_out : slot->grad_in;
}

static tpp_status call_stage(tpp__walker *w, const tpp_action *a, const tpp_stage_call *call) {
    tpp_status status;
    switch (a->op) {
    case TPP_OP_F:
        status = w->ops.forward(w->ctx, call);
        break;
    case TPP_OP_B:
        status = w->ops.backward(w->ctx, call);
        break;
    case TPP_OP_I:
        status = w->ops.backward_input(w->ctx, call);
        break;
    default:
        status = w->ops.backward_weight(w->ctx, call);
    }
    if (status > 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "the callback returned %d; it must return TPP_OK or a failure", status);
    return status;
}

static tpp_stage_call describe(const tpp__walker *w, const tpp_action *a,
                               const tpp__walk_slot *slot) {
    bool first = a->stage == 0, last = a->stage == w->walk->info.stages - 1;
    bool forward = a->op == TPP_OP_F;
    tpp_stage_call call = {.size = sizeof call,
                           .step = w->walk->run.step,
                           .rank = w->rank,
                           .lane = w->lane,
                           .stage = a->stage,
                           .chunk = a->chunk,
                           .micro = a->micro,
                           .slot = a->slot,
                           .count = w->walk->run.message_count,
                           .dtype = w->walk->run.message_dtype};
    call.in = first ? NULL : slot->in;
    call.out = forward && !last ? slot->out : NULL;
    call.grad_out = forward || last ? NULL : slot->grad_out;
    call.grad_in = first || forward || a->op == TPP_OP_W ? NULL : gradient_place(w, a, slot);
    return call;
}

/* The buffer that a compute action is about to write must have nothing under way. */
static tpp_status vacate_for(tpp__walker *w, const tpp_action *a, tpp__walk_slot *slot) {
    if (a->op == TPP_OP_F && a->stage < w->walk->info.stages - 1)
        return vacate(w, slot, TPP__WALK_F);
    if ((a->op == TPP_OP_B || a->op == TPP_OP_I) && a->stage > 0 &&
        !beside(w, a->stage - 1, a->micro))
        return vacate(w, slot, TPP__WALK_B);
    return TPP_OK;
}

static tpp_status compute(tpp__walker *w, const tpp_action *a) {
    tpp__walk_slot *slot = slot_of(w, a);
    tpp_status status = vacate_for(w, a, slot);
    if (status != TPP_OK)
        return status;
    if (a->op == TPP_OP_F) {
        take_input(w, a, slot);
        cell(w, a->chunk, a->micro)->slot = a->slot;
    }
    tpp_stage_call call = describe(w, a, slot);
    double start = tpp__now();
    status = call_stage(w, a, &call);
    double end = tpp__now();
    if (status < 0)
        return tpp__walk_fail(w->walk, w, a, status);
    tpp__run_row_add(w->row, a, start, end);
    tpp__run_note(&w->walk->run, (int32_t)(w - w->walk->walker), a, start - w->walk->origin,
                  end - w->walk->origin);
    return TPP_OK;
}

/* Messages of different steps never meet: a rank may be a step ahead of its neighbour. */
static uint64_t tag_of(const tpp__walker *w, const tpp_action *a) {
    return (w->walk->run.step << 32) | a->tag;
}

static tpp_status start_receive(tpp__walker *w, const tpp_action *a, tpp_request *request) {
    const tpp_run *run = &w->walk->run;
    tpp__walk_slot *slot = slot_of(w, a);
    void *to = direction(a) == TPP__WALK_F ? slot->in : slot->grad_out;
    tpp_status status = tpp_comm_recv_start(w->comm, to, run->message_count, run->message_dtype,
                                            a->peer, tag_of(w, a), request);
    return status < 0 ? status : tpp_comm_test(request);
}

static tpp_status receive(tpp__walker *w, const tpp_action *a) {
    if (tpp__walk_plays_many(w->walk) && !other_side(w, a)->sent[direction(a)]) {
        if (w->since == 0)
            w->since = tpp__now();
        return TPP_PENDING;
    }
    tpp_request request = {0};
    tpp_status status = start_receive(w, a, &request);
    if (status == TPP_PENDING) {
        if (w->since == 0)
            w->since = tpp__now();
        status = tpp__walker_wait(w, &request);
    }
    if (status < 0)
        return tpp__walk_fail(w->walk, w, a, status);
    if (w->since > 0)
        tpp__run_note(&w->walk->run, (int32_t)(w - w->walk->walker), a, w->since - w->walk->origin,
                      tpp__now() - w->walk->origin);
    w->since = 0;
    cell(w, a->chunk, a->micro)->got[direction(a)] = true;
    return TPP_OK;
}

/* Post and go on: the buffer is awaited when it is to be written again. */
static tpp_status send(tpp__walker *w, const tpp_action *a) {
    const tpp_run *run = &w->walk->run;
    tpp__walk_slot *slot = slot_of(w, a);
    int dir = direction(a);
    const void *from = dir == TPP__WALK_F ? slot->out : slot->grad_in;
    slot->sent[dir] = a;
    tpp_status status = tpp_comm_send_start(w->comm, from, run->message_count, run->message_dtype,
                                            a->peer, tag_of(w, a), &slot->request[dir]);
    if (status < 0)
        return tpp__walk_fail(w->walk, w, a, status);
    cell(w, a->chunk, a->micro)->sent[dir] = true;
    return TPP_OK;
}

static tpp_status act(tpp__walker *w, const tpp_action *a) {
    switch (a->op) {
    case TPP_OP_SEND_F:
    case TPP_OP_SEND_B:
        return send(w, a);
    case TPP_OP_RECV_F:
    case TPP_OP_RECV_B:
        return receive(w, a);
    default:
        return compute(w, a);
    }
}

tpp_status tpp__walker_advance(tpp__walker *w) {
    for (; w->next < w->count; w->next++) {
        if (tpp__walk_failed(w->walk))
            return TPP_ERR_ABORTED;
        tpp_status status = act(w, &w->actions[w->next]);
        if (status != TPP_OK)
            return status;
    }
    return TPP_OK;
}

void tpp__walker_enter(tpp__walker *w) {
    if (w->ops.enter)
        w->ops.enter(w->ctx);
}

void tpp__walker_leave(tpp__walker *w) {
    for (int32_t s = 0; s < w->slots; s++) {
        for (int dir = 0; dir < 2; dir++) {
            tpp__walk_slot *slot = &w->slot[s];
            if (!slot->request[dir].comm)
                continue;
            tpp_status status = tpp__walker_wait(w, &slot->request[dir]);
            if (status < 0)
                tpp__walk_fail(w->walk, w, slot->sent[dir], status);
        }
    }
    if (w->ops.leave)
        w->ops.leave(w->ctx);
}
