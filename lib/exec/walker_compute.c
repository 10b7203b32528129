/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/walker.h"

#include "base/check.h"

/* Compute actions: which buffers a stage's callback gets, and the call. */

static bool is_first(const tpp__walker *w, const tpp_action *a) {
    return a->stage % w->walk->info.depth == 0;
}

static bool is_last(const tpp__walker *w, const tpp_action *a) {
    return (a->stage + 1) % w->walk->info.depth == 0;
}

/* The slot of the stage before, in the same direction, if it lies on this rank too, else NULL. */
static tpp__walk_slot *before(const tpp__walker *w, const tpp_action *a) {
    if (is_first(w, a) || tpp_schedule_rank_of(w->walk->run.schedule, a->stage - 1) != w->rank)
        return NULL;
    return &w->slot[tpp__walker_cell(w, w->walk->chunk_of[a->stage - 1], a->micro)->slot];
}

/* Give F the output of the stage before on this rank as its input. The two slots exchange
 * buffers: the other slot may be used again while this one still needs its input (for W). */
static void take_input(const tpp__walker *w, const tpp_action *a, tpp__walk_slot *slot) {
    tpp__walk_slot *giver = before(w, a);
    if (!giver)
        return;
    void *spare = slot->in;
    slot->in = giver->out;
    giver->out = spare;
}

/* Where the gradient of the input goes: to the stage before if it lies on this rank, else to be
 * sent. */
static void *gradient_place(const tpp__walker *w, const tpp_action *a, const tpp__walk_slot *slot) {
    const tpp__walk_slot *taker = before(w, a);
    return taker ? taker->grad_out : slot->grad_in;
}

static tpp_stage_call describe(const tpp__walker *w, const tpp_action *a,
                               const tpp__walk_slot *slot) {
    bool first = is_first(w, a), last = is_last(w, a);
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
                           .dtype = w->walk->run.message_dtype,
                           .direction = a->stage / w->walk->info.depth,
                           .model_stage = a->stage % w->walk->info.depth};
    call.in = first ? NULL : slot->in;
    call.out = forward && !last ? slot->out : NULL;
    call.grad_out = forward || last ? NULL : slot->grad_out;
    call.grad_in = first || forward || a->op == TPP_OP_W ? NULL : gradient_place(w, a, slot);
    return call;
}

/* The buffer that a compute action is about to write must have nothing under way. */
static tpp_status vacate_for(tpp__walker *w, const tpp_action *a) {
    if (a->op == TPP_OP_F && !is_last(w, a))
        return tpp__walker_vacate(w, tpp__walker_slot(w, a), TPP__WALK_F);
    if ((a->op == TPP_OP_B || a->op == TPP_OP_I) && !is_first(w, a) && !before(w, a))
        return tpp__walker_vacate(w, tpp__walker_slot(w, a), TPP__WALK_B);
    return TPP_OK;
}

static tpp_stage_call prepare(tpp__walker *w, const tpp_action *a) {
    tpp__walk_slot *slot = tpp__walker_slot(w, a);
    if (a->op == TPP_OP_F) {
        take_input(w, a, slot);
        tpp__walker_cell(w, a->chunk, a->micro)->slot = a->slot;
    }
    return describe(w, a, slot);
}

static tpp_status call_stage(const tpp__walker *w, const tpp_action *a,
                             const tpp_stage_call *call) {
    switch (a->op) {
    case TPP_OP_F:
        return w->ops.forward(w->ctx, call);
    case TPP_OP_B:
        return w->ops.backward(w->ctx, call);
    case TPP_OP_I:
        return w->ops.backward_input(w->ctx, call);
    default:
        return w->ops.backward_weight(w->ctx, call);
    }
}

/* A callback that failed, or returned what it must not. */
static tpp_status refuse(tpp__walker *w, const tpp_action *a, tpp_status status) {
    if (status > 0)
        status = tpp__fail(TPP_ERR_INVALID,
                           "the callback returned %d; it must return TPP_OK or a failure", status);
    return tpp__walk_fail(w->walk, w, a, status);
}

static void count(tpp__walker *w, const tpp_action *a, double start, double end) {
    tpp__run_row_add(w->row, a, start, end);
    if (w->walk->info.forward_only)
        tpp__run_row_passed(w->row, w->walk->run.schedule, w->walk->info.depth, a);
}

static tpp_status compute_one(tpp__walker *w, const tpp_action *a) {
    tpp_action alone = *a;
    alone.flags = 0;
    tpp_stage_call call = prepare(w, a);
    double start = tpp__now();
    tpp_status status = call_stage(w, a, &call);
    double end = tpp__now();
    if (status != TPP_OK)
        return refuse(w, &alone, status);
    count(w, a, start, end);
    tpp__walker_note(w, &alone, start, end);
    return TPP_OK;
}

/* An F and the B behind it, by the callback that does both. */
static tpp_status compute_pair(tpp__walker *w, const tpp_action *f) {
    const tpp_action *b = f + 1;
    tpp_stage_call f_call = prepare(w, f), b_call = prepare(w, b);
    double start = tpp__now();
    tpp_status status = w->ops.forward_backward(w->ctx, &f_call, &b_call);
    double end = tpp__now();
    if (status != TPP_OK)
        return refuse(w, f, status);
    count(w, f, start, end);
    count(w, b, end, end); /* the time was counted */
    tpp__walker_note(w, f, start, end);
    tpp_action back = *b;
    back.flags = TPP_ACTION_FUSED;
    tpp__walker_note(w, &back, start, end);
    return TPP_OK;
}

tpp_status tpp__walker_compute(tpp__walker *w, const tpp_action *a) {
    int atom = tpp__walker_atom(a);
    tpp_status status = TPP_OK;
    for (int i = 0; i < atom && status == TPP_OK; i++)
        status = vacate_for(w, a + i);
    if (status == TPP_OK && atom == 2 && w->ops.forward_backward)
        return compute_pair(w, a);
    for (int i = 0; i < atom && status == TPP_OK; i++)
        status = compute_one(w, a + i);
    return status;
}
