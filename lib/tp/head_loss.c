/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/cost_impl.h"
#include "tp/head_impl.h"
#include "tp/operators.h"

/* A head and its cross-entropy without all logits: forward keeps two numbers of each token, backward
 * makes the logits again. */

typedef struct head_saved {
    char *largest, *sum; /* [tokens] */
} head_saved;

static head_saved take_saved(const tpp_layer *layer, int64_t tokens, tpp__arena *arena) {
    char *largest = tpp__arena_take(arena, tokens, layer->wide_width);
    return (head_saved){largest, tpp__arena_take(arena, tokens, layer->wide_width)};
}

static void needs_of(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs) {
    tpp__arena saved = tpp__arena_counting();
    take_saved(layer, batch * seq, &saved);
    tpp__arena split = tpp__arena_counting();
    tpp__room_take(layer, batch * seq, layer->in_cols, &split); /* the input */
    tpp__arena scratch = split;
    tpp__room_take(layer, batch * seq, layer->in_cols, &scratch); /* its gradient */
    tpp__arena_take(&scratch, batch * seq, sizeof(double));
    tpp__head_scratch_count(layer, batch * seq, &scratch);
    needs->saved = saved.used;
    needs->split = split.used;
    needs->scratch = scratch.used;
    needs->overflow = !tpp__arena_fits(&saved) || !tpp__arena_fits(&scratch);
}

static tpp_status forward(const tpp_layer *layer, const tpp__work *work) {
    const tpp__loss_rule *rule = &((const tpp__head *)layer)->rule;
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX), free = work->scratch;
    head_saved saved = take_saved(layer, work->tokens, &memory);
    void *room = tpp__room_take(layer, work->tokens, layer->in_cols, &free);
    double *weight = tpp__arena_take(&free, work->tokens, sizeof(double));
    tpp__head_scratch s = tpp__head_scratch_take(layer, work->tokens, free);
    tpp__work all = *work;
    tpp_status status = tpp__loss_weights(rule, work, weight);
    if (status == TPP_OK)
        status = tpp__gather(layer, work->tokens, layer->in_cols, work->in, room, &all.in);
    if (status == TPP_OK)
        status = tpp__head_losses(layer, &all, 0, weight, saved.largest, saved.sum, &s);
    if (status == TPP_OK)
        tpp__loss_out(layer, rule, work, weight);
    return status;
}

/* Step by step, with the input of all tokens. */
static tpp_status backward_steps(const tpp_layer *layer, const tpp__work *work,
                                 const head_saved *saved, const char *slope,
                                 const tpp__head_scratch *s, char *grad_in, char *table_grad) {
    tpp_status status = TPP_OK;
    for (int64_t t = 0; t < work->tokens && status == TPP_OK;) {
        tpp__head_step at = tpp__head_step_at(layer, work->tokens, t);
        int64_t skip = t * layer->wide_width;
        status = tpp__head_logits(layer, work, at, s);
        if (status != TPP_OK)
            break;
        tpp__head_turn(layer, work->targets + t, at, saved->largest + skip, saved->sum + skip,
                       slope + skip, s);
        status = tpp__head_products(layer, work, at, s, grad_in, table_grad);
        t += at.count;
    }
    return status;
}

static tpp_status backward(const tpp_layer *layer, const tpp__work *work, int32_t parts) {
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX), free = work->scratch;
    tpp__arena split = tpp__arena_over(work->split, INT64_MAX);
    head_saved saved = take_saved(layer, work->tokens, &memory);
    void *in = tpp__room_take(layer, work->tokens, layer->in_cols, &split);
    void *room = tpp__room_take(layer, work->tokens, layer->in_cols, &free);
    void *partial = room ? room : work->grad_in;
    double *weight = tpp__arena_take(&free, work->tokens, sizeof(double));
    tpp__head_scratch s = tpp__head_scratch_take(layer, work->tokens, free);
    char *table_grad = parts & TPP__WEIGHT ? tpp__head_table_grad(layer, work) : NULL;
    char *slope = s.sums; /* sums are forward's alone */
    tpp__work all = *work;
    tpp__sum sum = {0};
    tpp_status status =
        tpp__loss_slopes(layer, &((const tpp__head *)layer)->rule, work, weight, slope);
    if (status == TPP_OK && (parts & TPP__INPUT))
        status = tpp__gather(layer, work->tokens, layer->in_cols, work->in, in, &all.in);
    all.in = in ? in : work->in;
    if (status == TPP_OK)
        status = backward_steps(layer, &all, &saved, slope, &s, parts & TPP__INPUT ? partial : NULL,
                                table_grad);
    if (status == TPP_OK && (parts & TPP__INPUT))
        status = tpp__f_backward_start(layer, work->tokens, layer->in_cols, partial, work->grad_in,
                                       &sum);
    return tpp__f_backward_finish(&sum, status);
}

static void cost(const tpp_layer *layer, int32_t parts, tpp__cost *c) {
    const tpp__head *self = (const tpp__head *)layer;
    bool repeated = c->repeated;
    c->repeated |= !(parts & TPP__FORWARDS); /* logits are made again, once for a whole backward */
    tpp__cost_product(c, c->tokens, self->rows, layer->in_cols);
    c->repeated = repeated;
    for (int32_t part = TPP__INPUT; part <= TPP__WEIGHT; part *= 2)
        if (parts & part)
            tpp__cost_product(c, c->tokens, layer->in_cols, self->rows);
    if (parts & (TPP__FORWARDS | TPP__INPUT))
        tpp__cost_gather(layer, c, layer->in_cols);
    if (parts & TPP__INPUT)
        tpp__cost_sum(layer, c, layer->in_cols);
    if (parts & TPP__FORWARDS)
        tpp__loss_cost(layer, &self->rule, c->tokens, c);
}

const tpp__layer_ops tpp__head_loss_ops = {
    .needs = needs_of, .forward = forward, .backward = backward, .cost = cost};
