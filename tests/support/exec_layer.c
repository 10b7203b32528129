/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/exec_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FREE = 0, AFTER_F = 1, AFTER_I = 2 };

struct exec_stash {
    int state;
    int32_t stage, micro;
    uint64_t step;
    const void *in;
    uint64_t x[EXEC_MOST_COUNT], y[EXEC_MOST_COUNT], dy[EXEC_MOST_COUNT];
};

static uint64_t factor(int32_t stage) {
    static const uint64_t primes[] = {3,  5,  7,  11, 13, 17, 19, 23, 29,
                                      31, 37, 41, 43, 47, 53, 59, 61, 67};
    return primes[stage % 18];
}

uint64_t exec_seed(int32_t lane, int32_t micro, uint64_t step, int64_t k) {
    return 0x9e3779b97f4a7c15u * (uint64_t)(1 + k + 10 * lane + 100 * micro) + step;
}

uint64_t exec_forward(int32_t stage, int32_t lane, int32_t micro, uint64_t x) {
    return x * factor(stage) + (uint64_t)micro + 1000u * (uint64_t)lane;
}

uint64_t exec_backward(int32_t stage, uint64_t x, uint64_t dy) {
    return dy * factor(stage) + x;
}

static tpp_status complain(const tpp_stage_call *c, const char *what) {
    char text[200];
    snprintf(text, sizeof text, "stage %d micro %d slot %d: %s", c->stage, c->micro, c->slot, what);
    tpp_message_set(text);
    return TPP_ERR_USER - 999;
}

/* All lanes of a rank meet; the sum tells that it was in the same action. */
static tpp_status meet(const exec_layer *l, const tpp_stage_call *c, int32_t op) {
    if (!l->group)
        return TPP_OK;
    int32_t size = tpp_comm_size(l->group);
    int64_t mine = (int64_t)op * 1000000 + c->stage * 1000 + c->micro, sum = 0;
    tpp_status status = tpp_comm_all_reduce(l->group, &mine, &sum, 1, TPP_I64, TPP_SUM);
    if (status < 0)
        return status;
    return sum == mine * size ? TPP_OK : complain(c, "another lane is in another action");
}

static tpp_status begin(exec_layer *l, const tpp_stage_call *c, int32_t op) {
    int32_t depth = l->rig->info.depth, own = c->stage % depth, last = depth - 1;
    int forward = op == TPP_OP_F;
    if (l->rig->hook)
        l->rig->hook(l->rig, l);
    if (l->calls++ == l->fail_at) {
        if (l->fail_text)
            tpp_message_set(l->fail_text);
        return l->fail_with;
    }
    if (c->size != sizeof *c || c->rank != l->rank || c->lane != l->lane ||
        c->stage != tpp_schedule_stage_of(l->rig->schedule, c->rank, c->chunk))
        return complain(c, "size, rank, lane, stage or chunk is wrong");
    if (c->model_stage != own || c->direction != c->stage / depth ||
        (l->rig->info.directions > 1 &&
         c->direction != (c->micro >= (l->rig->info.micros + 1) / 2)))
        return complain(c, "model_stage or direction is wrong");
    if (l->entered != l->left + 1)
        return complain(c, "called outside of enter and leave");
    if (!c->in != (own == 0) || !c->out != (!forward || own == last) ||
        !c->grad_out != (forward || own == last) ||
        !c->grad_in != (forward || op == TPP_OP_W || own == 0))
        return complain(c, "a buffer is, or is not, NULL");
    return meet(l, c, op);
}

static tpp_status find(exec_layer *l, const tpp_stage_call *c, int state, exec_stash **out) {
    exec_stash *s = &l->stash[c->slot];
    *out = s;
    if (s->state != state)
        return complain(c, "the slot is in another state");
    if (s->stage != c->stage || s->micro != c->micro || s->step != c->step)
        return complain(c, "the slot holds something else");
    if (c->in && (c->in != s->in || memcmp(c->in, s->x, (size_t)l->rig->count * 8) != 0))
        return complain(c, "the input has changed since F");
    return TPP_OK;
}

static tpp_status forward(void *ctx, const tpp_stage_call *c) {
    exec_layer *l = ctx;
    exec_stash *s = &l->stash[c->slot];
    tpp_status status = begin(l, c, TPP_OP_F);
    if (status != TPP_OK)
        return status;
    if (s->state != FREE)
        return complain(c, "the slot is in use");
    *s = (exec_stash){
        .state = AFTER_F, .stage = c->stage, .micro = c->micro, .step = c->step, .in = c->in};
    for (int64_t k = 0; k < l->rig->count; k++) {
        s->x[k] = c->in ? ((const uint64_t *)c->in)[k] : exec_seed(c->lane, c->micro, c->step, k);
        s->y[k] = exec_forward(c->model_stage, c->lane, c->micro, s->x[k]);
    }
    if (l->rig->info.forward_only)
        s->state = FREE;
    if (c->out)
        memcpy(c->out, s->y, (size_t)l->rig->count * 8);
    else
        l->loss[c->micro] = s->y[0];
    return TPP_OK;
}

static void input_half(exec_layer *l, const tpp_stage_call *c, exec_stash *s) {
    for (int64_t k = 0; k < l->rig->count; k++) {
        s->dy[k] = c->grad_out ? ((const uint64_t *)c->grad_out)[k] : s->y[k] + 7;
        if (c->grad_in)
            ((uint64_t *)c->grad_in)[k] = exec_backward(c->model_stage, s->x[k], s->dy[k]);
    }
    s->state = AFTER_I;
}

static void weight_half(exec_layer *l, const tpp_stage_call *c, exec_stash *s) {
    for (int64_t k = 0; k < l->rig->count; k++) {
        uint64_t more = s->dy[k] * s->x[k];
        l->dw[c->stage] += more;
        l->chain[c->stage] = l->chain[c->stage] * 31 + more;
    }
    s->state = FREE;
}

static tpp_status backward(void *ctx, const tpp_stage_call *c) {
    exec_stash *s;
    tpp_status status = begin(ctx, c, TPP_OP_B);
    if (status == TPP_OK)
        status = find(ctx, c, AFTER_F, &s);
    if (status != TPP_OK)
        return status;
    input_half(ctx, c, s);
    weight_half(ctx, c, s);
    return TPP_OK;
}

/* Of a pair: what F reads and writes is nothing that B does. */
static tpp_status forward_backward(void *ctx, const tpp_stage_call *f, const tpp_stage_call *b) {
    exec_layer *l = ctx;
    if (f->slot == b->slot || (f->out && (f->out == b->in || f->out == b->grad_out)) ||
        (b->grad_in && b->grad_in == f->in))
        return complain(f, "the two of a pair share memory");
    l->pairs++;
    tpp_status status = backward(ctx, b); /* B first: neither needs the other */
    return status == TPP_OK ? forward(ctx, f) : status;
}

static tpp_status backward_input(void *ctx, const tpp_stage_call *c) {
    exec_stash *s;
    tpp_status status = begin(ctx, c, TPP_OP_I);
    if (status == TPP_OK)
        status = find(ctx, c, AFTER_F, &s);
    if (status != TPP_OK)
        return status;
    input_half(ctx, c, s);
    return TPP_OK;
}

static tpp_status backward_weight(void *ctx, const tpp_stage_call *c) {
    exec_layer *l = ctx;
    exec_stash *s;
    tpp_status status = begin(l, c, TPP_OP_W);
    if (status == TPP_OK)
        status = find(l, c, AFTER_I, &s);
    if (status != TPP_OK)
        return status;
    if (c->grad_out && memcmp(c->grad_out, s->dy, (size_t)l->rig->count * 8) != 0)
        return complain(c, "grad_out has changed since I");
    weight_half(l, c, s);
    return TPP_OK;
}

static void enter(void *ctx) {
    ((exec_layer *)ctx)->entered++;
}

static void leave(void *ctx) {
    ((exec_layer *)ctx)->left++;
}

static void stop(void *ctx) {
    exec_layer *l = ctx;
    atomic_fetch_add(&l->rig->aborts, 1);
    tpp_comm_abort(l->group);
}

const tpp_stage_ops exec_layer_ops = {.size = sizeof exec_layer_ops,
                                      .forward = forward,
                                      .backward = backward,
                                      .backward_input = backward_input,
                                      .backward_weight = backward_weight,
                                      .enter = enter,
                                      .leave = leave,
                                      .abort = stop};

const tpp_stage_ops exec_layer_pair_ops = {.size = sizeof exec_layer_pair_ops,
                                           .forward = forward,
                                           .backward = backward,
                                           .backward_input = backward_input,
                                           .backward_weight = backward_weight,
                                           .enter = enter,
                                           .leave = leave,
                                           .abort = stop,
                                           .forward_backward = forward_backward};

void exec_layer_open(exec_layer *l, exec_rig *rig, int32_t row) {
    const tpp_schedule_info *i = &rig->info;
    *l =
        (exec_layer){.rig = rig, .rank = row / rig->lanes, .lane = row % rig->lanes, .fail_at = -1};
    l->stash = calloc((size_t)i->slots, sizeof *l->stash);
    l->dw = calloc((size_t)i->stages, sizeof *l->dw);
    l->chain = calloc((size_t)i->stages, sizeof *l->chain);
    l->loss = calloc((size_t)i->micros, sizeof *l->loss);
}

void exec_layer_reset(exec_layer *l) {
    memset(l->stash, 0, (size_t)l->rig->info.slots * sizeof *l->stash); /* of a failed run */
    memset(l->dw, 0, (size_t)l->rig->info.stages * sizeof *l->dw);
    memset(l->chain, 0, (size_t)l->rig->info.stages * sizeof *l->chain);
    memset(l->loss, 0, (size_t)l->rig->info.micros * sizeof *l->loss);
    l->calls = 0;
    l->pairs = 0;
}

void exec_layer_close(exec_layer *l) {
    tpp_comm_destroy(l->group);
    free(l->stash);
    free(l->dw);
    free(l->chain);
    free(l->loss);
}

int exec_layer_idle(const exec_layer *l) {
    for (int32_t s = 0; s < l->rig->info.slots; s++) {
        if (l->stash[s].state != FREE)
            return 0;
    }
    return 1;
}
