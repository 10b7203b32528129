/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/head_impl.h"
#include "tp/logits.h"

#include <string.h>

/* Each block (of the R blocks of the vocabulary) of each step is summed from that block's own largest
 * logit; when all steps are done the largest ones are reduced over blocks and ranks, and the sums moved
 * to them: two all-reduces, however many steps there are. */

int64_t tpp__head_step_tokens(const tpp_layer *layer, int64_t tokens) {
    const tpp__head *self = (const tpp__head *)layer;
    return tokens < self->block ? tokens : self->block;
}

tpp__head_step tpp__head_step_at(const tpp_layer *layer, int64_t tokens, int64_t first) {
    int64_t step = tpp__head_step_tokens(layer, tokens);
    return (tpp__head_step){first, tokens - first < step ? tokens - first : step};
}

tpp__head_scratch tpp__head_scratch_take(const tpp_layer *layer, int64_t tokens, tpp__arena arena) {
    const tpp__head *self = (const tpp__head *)layer;
    int32_t kinds = tpp__loss_sums(&self->rule) - 1;
    int64_t step = tpp__head_step_tokens(layer, tokens);
    tpp__head_scratch s = {.vector = tokens * layer->wide_width, .kinds = kinds};
    s.largest = tpp__arena_take(&arena, layer->count * tokens, layer->wide_width);
    s.sums = tpp__arena_take(&arena, (layer->count * kinds + 1) * tokens, layer->wide_width);
    s.logits = tpp__arena_take(&arena, step * self->rows, layer->width);
    s.rest = arena;
    return s;
}

void tpp__head_scratch_count(const tpp_layer *layer, int64_t tokens, tpp__arena *arena) {
    *arena = tpp__head_scratch_take(layer, tokens, *arena).rest;
    tpp__block_sum_scratch(layer, tpp__head_step_tokens(layer, tokens) * layer->in_cols, arena);
}

static char *sums_of(const tpp__head_scratch *s, int32_t block) {
    return s->sums + (block == 0 ? 0 : 1 + (int64_t)block * s->kinds) * s->vector;
}

static char *targets_of(const tpp__head_scratch *s) {
    return s->sums + s->kinds * s->vector;
}

static tpp__ce_block block_of(const tpp_layer *layer, int64_t tokens, const char *logits,
                              int32_t block) {
    const tpp__head *self = (const tpp__head *)layer;
    return tpp__logits_block(layer, self->vocab, tokens, self->rows, logits, block);
}

tpp_status tpp__head_logits(const tpp_layer *layer, const tpp__work *work, tpp__head_step at,
                            const tpp__head_scratch *s) {
    return tpp__row_input(layer, tpp__head_shape(layer, at.count),
                          (const char *)work->in + at.first * layer->in_cols * layer->width,
                          tpp__head_table(layer, work), s->logits);
}

static void measure(const tpp_layer *layer, const tpp__work *work, tpp__head_step at,
                    const tpp__head_scratch *s) {
    int64_t skip = at.first * layer->wide_width;
    for (int32_t b = 0; b < layer->count; b++) {
        tpp__ce_block block = block_of(layer, at.count, s->logits, b);
        char *largest = s->largest + b * s->vector + skip, *sums = sums_of(s, b) + skip;
        tpp__kern_ce_start(layer->wide, at.count, largest);
        tpp__kern_ce_max(&block, largest);
        tpp__kern_ce_sum(&block, largest, sums, s->kinds == 2 ? sums + s->vector : NULL);
        tpp__kern_ce_pick(&block, NULL, work->targets + at.first, targets_of(s) + skip);
    }
}

static tpp_status join_largest(const tpp_layer *layer, int64_t tokens, const tpp__head_scratch *s,
                               char *largest) {
    tpp__ce_block own = {.dtype = layer->wide, .rows = tokens, .cols = 1, .ldz = 1};
    tpp__kern_ce_start(layer->wide, tokens, largest);
    for (int32_t b = 0; b < layer->count; b++) {
        own.z = s->largest + b * s->vector;
        tpp__kern_ce_max(&own, largest);
    }
    return tpp__loss_reduce(layer, largest, tokens, TPP_MAX);
}

/* Sums over blocks, along the binary tree, and over ranks; behind them the targets' logits. */
static tpp_status join_sums(const tpp_layer *layer, int64_t tokens, const tpp__head_scratch *s,
                            const char *largest) {
    for (int32_t b = 0; b < layer->count; b++) {
        int64_t cols = block_of(layer, tokens, NULL, b).cols;
        tpp__kern_ce_move(layer->wide, tokens, cols, s->largest + b * s->vector, largest,
                          sums_of(s, b), s->kinds == 2 ? sums_of(s, b) + s->vector : NULL);
    }
    for (int32_t far = 1; far < layer->count; far *= 2)
        for (int32_t b = 0; b + far < layer->count; b += 2 * far)
            tpp__kern_add(layer->wide, s->kinds * tokens, sums_of(s, b + far), sums_of(s, b));
    return tpp__loss_reduce(layer, s->sums, (s->kinds + 1) * tokens, TPP_SUM_TREE);
}

tpp_status tpp__head_losses(const tpp_layer *layer, const tpp__work *work, int64_t first,
                            double *weight, char *largest, char *sum, const tpp__head_scratch *s) {
    int64_t tokens = work->tokens;
    tpp_status status = TPP_OK;
    memset(targets_of(s), 0, (size_t)s->vector);
    for (int64_t t = 0; t < tokens && status == TPP_OK; t += tpp__head_step_tokens(layer, tokens)) {
        tpp__head_step at = tpp__head_step_at(layer, tokens, t);
        status = tpp__head_logits(layer, work, at, s);
        if (status == TPP_OK)
            measure(layer, work, at, s);
    }
    if (status == TPP_OK)
        status = join_largest(layer, tokens, s, largest);
    if (status == TPP_OK)
        status = tpp__loss_check_largest(layer, first, tokens, largest, weight);
    if (status == TPP_OK)
        status = join_sums(layer, tokens, s, largest);
    if (status != TPP_OK)
        return status;
    memcpy(sum, s->sums, (size_t)s->vector);
    tpp__kern_ce_below(layer->wide, tokens, largest, targets_of(s));
    tpp__kern_ce_loss(layer->wide, tokens, &((const tpp__head *)layer)->rule.ce, largest, s->sums,
                      targets_of(s), s->kinds == 2 ? s->sums + s->vector : NULL, weight, weight);
    return TPP_OK;
}

void tpp__head_turn(const tpp_layer *layer, const int32_t *targets, tpp__head_step at,
                    const char *largest, const char *sum, const char *slope,
                    const tpp__head_scratch *s) {
    const tpp__head *self = (const tpp__head *)layer;
    int64_t wide = self->rows / layer->count;
    for (int32_t b = 0; b < layer->count; b++) {
        tpp__ce_block block = block_of(layer, at.count, s->logits, b);
        tpp__kern_ce_grad(&block, &self->rule.ce, largest, sum, slope, targets,
                          s->logits + b * wide * layer->width, self->rows);
    }
    tpp__logits_pad(layer, self->vocab, at.count, self->rows, s->logits, 0);
}

tpp_status tpp__head_products(const tpp_layer *layer, const tpp__work *work, tpp__head_step at,
                              const tpp__head_scratch *s, char *grad_in, char *table_grad) {
    tpp__linear_shape shape = tpp__head_shape(layer, at.count);
    int64_t skip = at.first * layer->in_cols * layer->width;
    tpp_status status = TPP_OK;
    if (grad_in)
        status = tpp__row_forward(layer, shape, s->logits, tpp__head_table(layer, work),
                                  grad_in + skip, s->rest);
    if (status == TPP_OK && table_grad)
        status = tpp__row_weight(layer, shape, s->logits, (const char *)work->in + skip, table_grad,
                                 NULL);
    return status;
}
