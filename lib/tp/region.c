/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/region.h"

#include "tp/cost_impl.h"

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static const struct tpp__region_ops *ops_of(const tpp__region *region, int32_t i) {
    return region->side[i]->ops->region;
}

/* All rows of the input, and then in their place the sum of the output's. */
int64_t tpp__region_forward_scratch(const tpp_layer *layer, int64_t tokens, int64_t inner,
                                    bool *overflow) {
    tpp__arena sums = tpp__arena_counting();
    tpp__room_take(layer, tokens, larger(layer->in_cols, layer->out_cols), &sums);
    tpp__arena within = sums;
    tpp__arena_take(&within, inner, 1);
    tpp__block_sum_scratch(layer, tokens * layer->out_cols, &sums);
    *overflow |= !tpp__arena_fits(&sums) || !tpp__arena_fits(&within);
    return larger(within.used, sums.used);
}

/* Backward has the gradients of the inputs of all rows. */
int64_t tpp__region_scratch(const tpp_layer *layer, int64_t tokens, int32_t inputs, int64_t inner,
                            bool *overflow) {
    tpp__arena backward = tpp__arena_counting();
    for (int32_t i = 0; i < inputs; i++)
        tpp__room_take(layer, tokens, layer->in_cols, &backward);
    tpp__block_sum_scratch(layer, tokens * layer->in_cols, &backward);
    *overflow |= !tpp__arena_fits(&backward);
    return larger(tpp__region_forward_scratch(layer, tokens, inner, overflow), backward.used);
}

void tpp__region_rooms(const tpp_layer *layer, int64_t tokens, tpp__region *region, int32_t inputs,
                       tpp__arena *split) {
    region->inputs = inputs;
    region->whole_grad = tpp__room_take(layer, tokens, layer->out_cols, split);
    for (int32_t i = 0; i < inputs; i++)
        region->whole_in[i] = tpp__room_take(layer, tokens, layer->in_cols, split);
}

/* All sides up to their row-parallel products. */
static tpp_status enter(const tpp__region *region, tpp__arena scratch, void *room,
                        tpp__row_operand operands[TPP__SIDES]) {
    const tpp_layer *layer = region->layer;
    const void *whole = NULL;
    tpp_status status = TPP_OK;
    for (int32_t i = 0; i < region->count && status == TPP_OK; i++) {
        tpp__work work = region->work[i];
        if (i < region->inputs)
            status = tpp__gather(layer, region->tokens, layer->in_cols, work.in, room, &whole);
        work.in = whole;
        work.scratch = scratch;
        if (status == TPP_OK)
            status = ops_of(region, i)->forward(region->side[i], &work);
        operands[i] = ops_of(region, i)->out(region->side[i], &work);
    }
    return status;
}

tpp_status tpp__region_forward(const tpp__region *region, void *out) {
    const tpp_layer *layer = region->layer;
    tpp__arena scratch = region->scratch;
    int64_t wide = larger(layer->in_cols, layer->out_cols), cols = layer->out_cols;
    void *room = tpp__room_take(layer, region->tokens, wide, &scratch);
    void *partial = room ? room : out;
    tpp__row_operand operands[TPP__SIDES];
    tpp_status status = enter(region, scratch, room, operands);
    if (status != TPP_OK || !out)
        return status;
    status = tpp__row_forward_all(layer, region->tokens, cols, operands, region->count, partial,
                                  scratch);
    if (status == TPP_OK)
        status = tpp__g_forward(layer, region->tokens, cols, partial, out);
    int64_t rows = tpp__part_of(layer, region->tokens).count;
    for (int32_t i = 0; i < region->count && status == TPP_OK; i++) {
        const void *bias = ops_of(region, i)->bias(region->side[i], &region->work[i]);
        if (bias)
            tpp__kern_bias_add(layer->dtype, rows, cols, bias, out, cols);
    }
    return status;
}

/* What a backward has under way. */
typedef struct moves {
    tpp_request in[TPP__SIDES]; /* gathers of the inputs, which the weight gradients need */
    tpp__sum sum[TPP__SIDES];
} moves;

/* Gradients of the sides' insides. */
static tpp_status backward_sides(tpp__region *region, const void *grad_out, moves *m) {
    const tpp_layer *layer = region->layer;
    tpp_request grad;
    tpp_status status = tpp__gather_start(layer, region->tokens, layer->out_cols, grad_out,
                                          region->whole_grad, &grad);
    for (int32_t i = 0; i < region->inputs && status == TPP_OK; i++)
        status = tpp__gather_start(layer, region->tokens, layer->in_cols, region->work[i].in,
                                   region->whole_in[i], &m->in[i]);
    status = tpp__wait_for(&grad, status);
    for (int32_t i = 0; i < region->count && status == TPP_OK; i++) {
        tpp__work work = region->work[i];
        work.grad_out = region->whole_grad ? region->whole_grad : grad_out;
        work.scratch = region->scratch;
        status = ops_of(region, i)->backward(region->side[i], &work);
    }
    return status;
}

/* Gradients of the inputs: their sums over ranks are started. */
static tpp_status backward_inputs(const tpp__region *region, void *const grad_in[TPP__SIDES],
                                  moves *m) {
    const tpp_layer *layer = region->layer;
    tpp__arena scratch = region->scratch;
    tpp_status status = TPP_OK;
    void *partial[TPP__SIDES] = {NULL};
    for (int32_t i = 0; i < region->inputs; i++) {
        void *room = tpp__room_take(layer, region->tokens, layer->in_cols, &scratch);
        partial[i] = room ? room : grad_in[i];
    }
    for (int32_t i = 0; i < region->inputs && status == TPP_OK; i++) {
        tpp__col_operand operands[TPP__OPERANDS];
        int32_t last = region->inputs == 1 ? region->count : i + 1, count = 0;
        for (int32_t s = i; s < last; s++)
            count += ops_of(region, s)->in(region->side[s], &region->work[s], operands + count);
        status = tpp__col_input_all(layer, region->tokens, layer->in_cols, operands, count,
                                    partial[i], scratch);
        if (status == TPP_OK)
            status = tpp__f_backward_start(layer, region->tokens, layer->in_cols, partial[i],
                                           grad_in[i], &m->sum[i]);
    }
    return status;
}

static tpp_status backward_weights(const tpp__region *region, const void *grad_out) {
    tpp_status status = TPP_OK;
    for (int32_t i = 0; i < region->count && status == TPP_OK; i++) {
        int32_t input = region->inputs == 1 ? 0 : i;
        tpp__work work = region->work[i];
        work.in = region->whole_in[input] ? region->whole_in[input] : region->work[input].in;
        work.grad_out = region->whole_grad ? region->whole_grad : grad_out;
        work.scratch = region->scratch;
        status = ops_of(region, i)->weight(region->side[i], &work);
    }
    return status;
}

tpp_status tpp__region_backward(tpp__region *region, const void *grad_out,
                                void *const grad_in[TPP__SIDES], int32_t parts) {
    moves m = {0};
    tpp_status status = TPP_OK;
    if (parts & TPP__INPUT)
        status = backward_sides(region, grad_out, &m);
    if (status == TPP_OK && (parts & TPP__INPUT))
        status = backward_inputs(region, grad_in, &m);
    for (int32_t i = 0; i < region->inputs; i++)
        status = tpp__wait_for(&m.in[i], status);
    if (status == TPP_OK && (parts & TPP__WEIGHT))
        status = backward_weights(region, grad_out);
    for (int32_t i = 0; i < region->inputs; i++)
        status = tpp__f_backward_finish(&m.sum[i], status);
    return status;
}

void tpp__region_layer_needs(const tpp_layer *layer, int64_t batch, int64_t seq,
                             tpp__needs *needs) {
    tpp__region rooms;
    layer->ops->region->needs(layer, batch, seq, needs);
    tpp__arena split = tpp__arena_counting();
    tpp__arena_take(&split, needs->split, 1);
    tpp__region_rooms(layer, batch * seq, &rooms, 1, &split);
    tpp__arena scratch = split;
    tpp__arena_take(
        &scratch, tpp__region_scratch(layer, batch * seq, 1, needs->scratch, &needs->overflow), 1);
    needs->split = split.used;
    needs->scratch = scratch.used;
    needs->overflow |= !tpp__arena_fits(&scratch);
}

static tpp__region region_of(const tpp_layer *layer, const tpp__work *work) {
    return (tpp__region){.layer = layer,
                         .tokens = work->tokens,
                         .scratch = work->scratch,
                         .count = 1,
                         .side = {layer},
                         .work = {*work},
                         .inputs = 1};
}

tpp_status tpp__region_layer_forward(const tpp_layer *layer, const tpp__work *work) {
    tpp__region region = region_of(layer, work);
    return tpp__region_forward(&region, work->out);
}

tpp_status tpp__region_layer_backward(const tpp_layer *layer, const tpp__work *work,
                                      int32_t parts) {
    tpp__region region = region_of(layer, work);
    tpp__needs inner = {0};
    layer->ops->region->needs(layer, work->batch, work->seq, &inner);
    tpp__arena split = tpp__arena_over(work->split, INT64_MAX);
    tpp__arena_take(&split, inner.split, 1);
    tpp__region_rooms(layer, work->tokens, &region, 1, &split);
    void *const grad_in[TPP__SIDES] = {work->grad_in, NULL};
    return tpp__region_backward(&region, work->grad_out, grad_in, parts);
}

void tpp__region_cost(const tpp_layer *layer, int32_t inputs, int32_t parts, tpp__cost *cost) {
    for (int32_t i = 0; i < inputs && (parts & (TPP__FORWARDS | TPP__INPUT)); i++)
        tpp__cost_gather(layer, cost, layer->in_cols);
    if (parts & TPP__FORWARD)
        tpp__cost_sum(layer, cost, layer->out_cols);
    if (!(parts & TPP__INPUT))
        return;
    tpp__cost_gather(layer, cost, layer->out_cols);
    for (int32_t i = 0; i < inputs; i++)
        tpp__cost_sum(layer, cost, layer->in_cols);
}

void tpp__region_layer_cost(const tpp_layer *layer, int32_t parts, tpp__cost *cost) {
    layer->ops->region->cost(layer, parts, cost);
    tpp__region_cost(layer, 1, parts, cost);
}
