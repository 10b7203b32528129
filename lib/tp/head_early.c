/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/cost_impl.h"
#include "tp/head_impl.h"
#include "tp/operators.h"

#include <string.h>

/* A fused head that makes its gradients in forward, while the logits are there: for a loss of one
 * number they only have to be multiplied by its gradient in backward. Each step is a loss of its own,
 * with its own two all-reduces. */

typedef struct head_saved {
    char *grad_in;    /* [tokens, hidden], this rank's part of the sum over ranks */
    char *table_grad; /* [rows, hidden] of layer->wide */
} head_saved;

static int64_t table_elements(const tpp_layer *layer) {
    return ((const tpp__head *)layer)->rows * layer->in_cols;
}

static head_saved take_saved(const tpp_layer *layer, int64_t tokens, tpp__arena *arena) {
    char *grad_in = tpp__arena_take(arena, tokens * layer->in_cols, layer->width);
    int64_t elements = tokens > 0 ? table_elements(layer) : 0;
    return (head_saved){grad_in, tpp__arena_take(arena, elements, layer->wide_width)};
}

typedef struct early_scratch {
    double *weight;      /* [tokens] */
    char *slope;         /* [tokens] */
    char *largest, *sum; /* [step] */
    tpp__arena rest;
} early_scratch;

static early_scratch take_scratch(const tpp_layer *layer, int64_t tokens, tpp__arena arena) {
    int64_t step = tpp__head_step_tokens(layer, tokens);
    early_scratch s;
    s.weight = tpp__arena_take(&arena, tokens, sizeof(double));
    s.slope = tpp__arena_take(&arena, tokens, layer->wide_width);
    s.largest = tpp__arena_take(&arena, step, layer->wide_width);
    s.sum = tpp__arena_take(&arena, step, layer->wide_width);
    s.rest = arena;
    return s;
}

static void needs_of(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs) {
    tpp__arena saved = tpp__arena_counting();
    take_saved(layer, batch * seq, &saved);
    tpp__arena room = tpp__arena_counting(); /* of the input, or of its gradient */
    tpp__room_take(layer, batch * seq, layer->in_cols, &room);
    tpp__arena scratch = take_scratch(layer, batch * seq, room).rest;
    tpp__head_scratch_count(layer, tpp__head_step_tokens(layer, batch * seq), &scratch);
    needs->saved = saved.used;
    needs->scratch = scratch.used;
    needs->overflow = !tpp__arena_fits(&saved) || !tpp__arena_fits(&scratch);
}

/* The work of one step, as if it were all tokens. */
static tpp__work step_work(const tpp_layer *layer, const tpp__work *work, tpp__head_step at) {
    tpp__work own = *work;
    own.tokens = at.count;
    own.in = (const char *)work->in + at.first * layer->in_cols * layer->width;
    own.targets = work->targets + at.first;
    return own;
}

static tpp_status forward_step(const tpp_layer *layer, const tpp__work *work, tpp__head_step at,
                               const head_saved *saved, const early_scratch *e) {
    tpp__work own = step_work(layer, work, at);
    const tpp__head_step all = {0, at.count};
    tpp__head_scratch s = tpp__head_scratch_take(layer, at.count, e->rest);
    tpp_status status =
        tpp__head_losses(layer, &own, at.first, e->weight + at.first, e->largest, e->sum, &s);
    if (status != TPP_OK)
        return status;
    tpp__head_turn(layer, own.targets, all, e->largest, e->sum,
                   e->slope + at.first * layer->wide_width, &s);
    return tpp__head_products(layer, &own, all, &s,
                              saved->grad_in + at.first * layer->in_cols * layer->width,
                              saved->table_grad);
}

static tpp_status forward(const tpp_layer *layer, const tpp__work *work) {
    const tpp__loss_rule *rule = &((const tpp__head *)layer)->rule;
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    head_saved saved = take_saved(layer, work->tokens, &memory);
    tpp__arena free = work->scratch;
    void *room = tpp__room_take(layer, work->tokens, layer->in_cols, &free);
    early_scratch e = take_scratch(layer, work->tokens, free);
    tpp__work of_one = *work;
    of_one.grad_out = NULL; /* 1, as yet */
    tpp_status status = tpp__loss_slopes(layer, rule, &of_one, e.weight, e.slope);
    if (status == TPP_OK)
        status = tpp__gather(layer, work->tokens, layer->in_cols, work->in, room, &of_one.in);
    memset(saved.table_grad, 0, (size_t)(table_elements(layer) * layer->wide_width));
    for (int64_t t = 0; t < work->tokens && status == TPP_OK;) {
        tpp__head_step at = tpp__head_step_at(layer, work->tokens, t);
        status = forward_step(layer, &of_one, at, &saved, &e);
        t += at.count;
    }
    if (status == TPP_OK)
        tpp__loss_out(layer, rule, work, e.weight);
    return status;
}

static tpp_status backward(const tpp_layer *layer, const tpp__work *work, int32_t parts) {
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    head_saved saved = take_saved(layer, work->tokens, &memory);
    int64_t cols = layer->in_cols;
    double given = tpp__loss_load(layer, work->grad_out, 0);
    tpp__arena scratch = work->scratch;
    void *room = tpp__room_take(layer, work->tokens, cols, &scratch);
    void *partial = room ? room : work->grad_in;
    tpp__sum sum = {0};
    tpp_status status = TPP_OK;
    if (parts & TPP__INPUT) {
        memcpy(partial, saved.grad_in, (size_t)(work->tokens * cols * layer->width));
        status = tpp__f_backward_start(layer, work->tokens, cols, partial, work->grad_in, &sum);
    }
    if (status == TPP_OK && (parts & TPP__WEIGHT))
        tpp__kern_add_times(layer->wide, table_elements(layer), given, saved.table_grad,
                            tpp__head_table_grad(layer, work));
    status = tpp__f_backward_finish(&sum, status);
    if (status == TPP_OK &&
        (parts & TPP__INPUT)) /* behind the sum: bits as for every other split */
        tpp__kern_times(layer->dtype, work->rows * cols, given, work->grad_in, work->grad_in);
    return status;
}

/* All products are forward's, those of backward with them. */
static void cost(const tpp_layer *layer, int32_t parts, tpp__cost *c) {
    const tpp__head *self = (const tpp__head *)layer;
    for (int32_t i = 0; i < 3 && (parts & TPP__FORWARDS); i++)
        tpp__cost_product(c, c->tokens, self->rows, layer->in_cols);
    for (int64_t t = 0; t < c->tokens && (parts & TPP__FORWARDS);) {
        tpp__head_step at = tpp__head_step_at(layer, c->tokens, t);
        tpp__loss_cost(layer, &self->rule, at.count, c);
        t += at.count;
    }
    if (parts & TPP__FORWARDS)
        tpp__cost_gather(layer, c, layer->in_cols);
    if (parts & TPP__INPUT)
        tpp__cost_sum(layer, c, layer->in_cols);
}

const tpp__layer_ops tpp__head_early_ops = {
    .needs = needs_of, .forward = forward, .backward = backward, .cost = cost};
