/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/walker.h"

#include "base/check.h"

static int direction(const tpp_action *a) {
    return a->op == TPP_OP_SEND_F || a->op == TPP_OP_RECV_F ? TPP__WALK_F : TPP__WALK_B;
}

/* What the other side of a message did with it. For one worker with several walkers only: those of
 * other ranks are then its own. */
static const tpp__walk_cell *other_side(const tpp__walker *w, const tpp_action *a) {
    bool up = a->op == TPP_OP_SEND_F || a->op == TPP_OP_RECV_B;
    int32_t stage = up ? a->stage + 1 : a->stage - 1;
    const tpp__walker *peer = &w->walk->walker[a->peer * w->walk->run.lanes + w->lane];
    return tpp__walker_cell(peer, w->walk->chunk_of[stage], a->micro);
}

tpp_status tpp__walker_vacate(tpp__walker *w, tpp__walk_slot *slot, int dir) {
    if (!slot->request[dir].comm)
        return TPP_OK;
    const tpp_action *send = slot->sent[dir];
    if (tpp__walk_plays_many(w->walk) && !other_side(w, send)->got[dir])
        return TPP_PENDING;
    tpp_status status = tpp__walker_wait(w, &slot->request[dir]);
    return status < 0 ? tpp__walk_fail(w->walk, w, send, status) : status;
}

void tpp__walker_note(tpp__walker *w, const tpp_action *a, double start, double end) {
    const tpp__walk *walk = w->walk;
    tpp__run_note(&walk->run, (int32_t)(w - walk->walker), walk->info.depth, a,
                  start - walk->origin, end - walk->origin);
}

/* Messages of different steps never meet: a rank may be a step ahead of its neighbour. */
static uint64_t tag_of(const tpp__walker *w, const tpp_action *a) {
    return (w->walk->run.step << 32) | a->tag;
}

static tpp_status start_receive(tpp__walker *w, const tpp_action *a, tpp_request *request) {
    const tpp_run *run = &w->walk->run;
    tpp__walk_slot *slot = tpp__walker_slot(w, a);
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
        tpp__walker_note(w, a, w->since, tpp__now());
    w->since = 0;
    tpp__walker_cell(w, a->chunk, a->micro)->got[direction(a)] = true;
    return TPP_OK;
}

/* Post and go on: the buffer is awaited when it is to be written again. */
static tpp_status send(tpp__walker *w, const tpp_action *a) {
    const tpp_run *run = &w->walk->run;
    tpp__walk_slot *slot = tpp__walker_slot(w, a);
    int dir = direction(a);
    const void *from = dir == TPP__WALK_F ? slot->out : slot->grad_in;
    slot->sent[dir] = a;
    tpp_status status = tpp_comm_send_start(w->comm, from, run->message_count, run->message_dtype,
                                            a->peer, tag_of(w, a), &slot->request[dir]);
    if (status < 0)
        return tpp__walk_fail(w->walk, w, a, status);
    tpp__walker_cell(w, a->chunk, a->micro)->sent[dir] = true;
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
        return tpp__walker_compute(w, a);
    }
}

tpp_status tpp__walker_advance(tpp__walker *w) {
    while (w->next < w->count) {
        const tpp_action *a = &w->actions[w->next];
        if (tpp__walk_failed(w->walk))
            return TPP_ERR_ABORTED;
        tpp_status status = act(w, a);
        if (status != TPP_OK)
            return status;
        w->next += tpp__walker_atom(a);
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
