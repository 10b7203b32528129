/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/head_impl.h"
#include "tp/logits.h"
#include "tp/operators.h"

#include <string.h>

/* A head and its cross-entropy without all logits. "Step" is a run of tokens whose logits are there
 * at once; "block" one of the R blocks of the vocabulary. Forward sums each block of each step from
 * that block's own largest logit; when all steps are done the largest ones are reduced over blocks and
 * ranks, and the sums moved to them: two all-reduces, however many steps there are. */

typedef struct head_saved {
    char *largest, *sum; /* [tokens] */
} head_saved;

static head_saved take_saved(const tpp_layer *layer, int64_t tokens, tpp__arena *arena) {
    char *largest = tpp__arena_take(arena, tokens, layer->wide_width);
    return (head_saved){largest, tpp__arena_take(arena, tokens, layer->wide_width)};
}

/* Scratch. Of `sums` the numbers of block 0 and the targets come first, because they are what is
 * summed over ranks; then those of the other blocks. Backward has slopes where sums are. */
typedef struct head_scratch {
    double *weight;  /* [tokens] */
    char *largest;   /* [blocks, tokens] */
    char *sums;      /* [kinds, tokens], targets [tokens], [blocks - 1, kinds, tokens] */
    char *logits;    /* [step, rows] */
    int64_t vector;  /* bytes of one number per token */
    int32_t kinds;   /* 1, or 2 with smoothing */
    tpp__arena rest; /* of sums over blocks */
} head_scratch;

static int64_t step_of(const tpp_layer *layer, int64_t tokens) {
    const tpp__head *self = (const tpp__head *)layer;
    return tokens < self->block ? tokens : self->block;
}

static head_scratch take_scratch(const tpp_layer *layer, int64_t tokens, tpp__arena arena) {
    const tpp__head *self = (const tpp__head *)layer;
    int32_t kinds = tpp__loss_sums(&self->rule) - 1;
    head_scratch s = {.vector = tokens * layer->wide_width, .kinds = kinds};
    s.weight = tpp__arena_take(&arena, tokens, sizeof(double));
    s.largest = tpp__arena_take(&arena, layer->count * tokens, layer->wide_width);
    s.sums = tpp__arena_take(&arena, (layer->count * kinds + 1) * tokens, layer->wide_width);
    s.logits = tpp__arena_take(&arena, step_of(layer, tokens) * self->rows, layer->width);
    s.rest = arena;
    return s;
}

static void needs_of(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs) {
    tpp__arena saved = tpp__arena_counting();
    take_saved(layer, batch * seq, &saved);
    tpp__arena scratch = take_scratch(layer, batch * seq, tpp__arena_counting()).rest;
    tpp__block_sum_scratch(layer, step_of(layer, batch * seq) * layer->in_cols, &scratch);
    needs->saved = saved.used;
    needs->scratch = scratch.used;
    needs->overflow = !tpp__arena_fits(&saved) || !tpp__arena_fits(&scratch);
}

static char *sums_of(const head_scratch *s, int32_t block) {
    return s->sums + (block == 0 ? 0 : 1 + (int64_t)block * s->kinds) * s->vector;
}

static char *targets_of(const head_scratch *s) {
    return s->sums + s->kinds * s->vector;
}

/* A step: tokens first .. first + count - 1. */
typedef struct span {
    int64_t first, count;
} span;

static span span_at(const tpp_layer *layer, int64_t tokens, int64_t first) {
    int64_t step = step_of(layer, tokens);
    return (span){first, tokens - first < step ? tokens - first : step};
}

static tpp_status make_logits(const tpp_layer *layer, const tpp__work *work, span at,
                              char *logits) {
    return tpp__row_input(layer, tpp__head_shape(layer, at.count),
                          (const char *)work->in + at.first * layer->in_cols * layer->width,
                          tpp__head_table(layer, work), logits);
}

static tpp__ce_block block_of(const tpp_layer *layer, span at, const char *logits, int32_t block) {
    const tpp__head *self = (const tpp__head *)layer;
    return tpp__logits_block(layer, self->vocab, at.count, self->rows, logits, block);
}

static void measure_step(const tpp_layer *layer, const tpp__work *work, span at,
                         const head_scratch *s) {
    int64_t skip = at.first * layer->wide_width;
    for (int32_t b = 0; b < layer->count; b++) {
        tpp__ce_block block = block_of(layer, at, s->logits, b);
        char *largest = s->largest + b * s->vector + skip, *sums = sums_of(s, b) + skip;
        tpp__kern_ce_start(layer->wide, at.count, largest);
        tpp__kern_ce_max(&block, largest);
        tpp__kern_ce_sum(&block, largest, sums, s->kinds == 2 ? sums + s->vector : NULL);
        tpp__kern_ce_pick(&block, NULL, work->targets + at.first, targets_of(s) + skip);
    }
}

static tpp_status join_largest(const tpp_layer *layer, int64_t tokens, const head_scratch *s,
                               char *largest) {
    const tpp__ce_block column = {.dtype = layer->wide, .rows = tokens, .cols = 1, .ldz = 1};
    tpp__kern_ce_start(layer->wide, tokens, largest);
    for (int32_t b = 0; b < layer->count; b++) {
        tpp__ce_block own = column;
        own.z = s->largest + b * s->vector;
        tpp__kern_ce_max(&own, largest);
    }
    return tpp__loss_reduce(layer, largest, tokens, TPP_MAX);
}

/* Sums over blocks, along the binary tree, and over ranks; behind them the targets' logits. */
static tpp_status join_sums(const tpp_layer *layer, int64_t tokens, const head_scratch *s,
                            const char *largest) {
    for (int32_t b = 0; b < layer->count; b++) {
        tpp__ce_block block = block_of(layer, (span){0, tokens}, NULL, b);
        tpp__kern_ce_move(layer->wide, tokens, block.cols, s->largest + b * s->vector, largest,
                          sums_of(s, b), s->kinds == 2 ? sums_of(s, b) + s->vector : NULL);
    }
    for (int32_t far = 1; far < layer->count; far *= 2)
        for (int32_t b = 0; b + far < layer->count; b += 2 * far)
            tpp__kern_add(layer->wide, s->kinds * tokens, sums_of(s, b + far), sums_of(s, b));
    return tpp__loss_reduce(layer, s->sums, (s->kinds + 1) * tokens, TPP_SUM_TREE);
}

static tpp_status forward(const tpp_layer *layer, const tpp__work *work) {
    const tpp__loss_rule *rule = &((const tpp__head *)layer)->rule;
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    head_saved saved = take_saved(layer, work->tokens, &memory);
    head_scratch s = take_scratch(layer, work->tokens, work->scratch);
    tpp_status status = tpp__loss_weights(rule, work, s.weight);
    memset(targets_of(&s), 0, (size_t)s.vector);
    for (int64_t t = 0; t < work->tokens && status == TPP_OK; t += step_of(layer, work->tokens)) {
        span at = span_at(layer, work->tokens, t);
        status = make_logits(layer, work, at, s.logits);
        if (status == TPP_OK)
            measure_step(layer, work, at, &s);
    }
    if (status == TPP_OK)
        status = join_largest(layer, work->tokens, &s, saved.largest);
    if (status == TPP_OK)
        status = tpp__loss_check_largest(layer, work->tokens, saved.largest, s.weight);
    if (status == TPP_OK)
        status = join_sums(layer, work->tokens, &s, saved.largest);
    if (status != TPP_OK)
        return status;
    memcpy(saved.sum, s.sums, (size_t)s.vector);
    tpp__kern_ce_below(layer->wide, work->tokens, saved.largest, targets_of(&s));
    tpp__kern_ce_loss(layer->wide, work->tokens, &rule->ce, saved.largest, s.sums, targets_of(&s),
                      s.kinds == 2 ? s.sums + s.vector : NULL, s.weight, s.weight);
    tpp__loss_out(layer, rule, work, s.weight);
    return TPP_OK;
}

/* Logits of a step to their gradients, in place; padding becomes 0. */
static void turn_step(const tpp_layer *layer, const tpp__work *work, span at,
                      const head_saved *saved, const head_scratch *s) {
    const tpp__head *self = (const tpp__head *)layer;
    int64_t wide = self->rows / layer->count, skip = at.first * layer->wide_width;
    for (int32_t b = 0; b < layer->count; b++) {
        tpp__ce_block block = block_of(layer, at, s->logits, b);
        char *to = s->logits + b * wide * layer->width;
        tpp__kern_ce_grad(&block, &self->rule.ce, saved->largest + skip, saved->sum + skip,
                          s->sums + skip, work->targets + at.first, to, self->rows);
    }
    tpp__logits_pad(layer, self->vocab, at.count, self->rows, s->logits, 0);
}

static tpp_status backward_step(const tpp_layer *layer, const tpp__work *work, span at,
                                const head_saved *saved, const head_scratch *s, int32_t parts) {
    tpp__linear_shape shape = tpp__head_shape(layer, at.count);
    int64_t skip = at.first * layer->in_cols * layer->width;
    tpp_status status = make_logits(layer, work, at, s->logits);
    if (status != TPP_OK)
        return status;
    turn_step(layer, work, at, saved, s);
    if (parts & TPP__INPUT)
        status = tpp__row_forward(layer, shape, s->logits, tpp__head_table(layer, work),
                                  (char *)work->grad_in + skip, s->rest);
    if (status == TPP_OK && (parts & TPP__WEIGHT))
        status = tpp__row_weight(layer, shape, s->logits, (const char *)work->in + skip,
                                 tpp__head_table_grad(layer, work), NULL);
    return status;
}

static tpp_status backward(const tpp_layer *layer, const tpp__work *work, int32_t parts) {
    const tpp__loss_rule *rule = &((const tpp__head *)layer)->rule;
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    head_saved saved = take_saved(layer, work->tokens, &memory);
    head_scratch s = take_scratch(layer, work->tokens, work->scratch);
    tpp_request sum = {0};
    tpp_status status = tpp__loss_slopes(layer, rule, work, s.weight, s.sums);
    for (int64_t t = 0; t < work->tokens && status == TPP_OK; t += step_of(layer, work->tokens))
        status = backward_step(layer, work, span_at(layer, work->tokens, t), &saved, &s, parts);
    if (status == TPP_OK && (parts & TPP__INPUT))
        status = tpp__f_backward_start(layer, work->grad_in, work->tokens * layer->in_cols, &sum);
    return tpp__f_backward_finish(&sum, status);
}

const tpp__layer_ops tpp__head_loss_ops = {
    .needs = needs_of, .forward = forward, .backward = backward};
