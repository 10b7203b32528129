/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/cost_impl.h"
#include "tp/logits.h"
#include "tp/loss_rule.h"

#include <string.h>

typedef struct loss {
    tpp_layer base;
    tpp__loss_rule rule;
} loss;

/* saved: of every token the largest logit and the sum of exp(logit - largest). */
typedef struct loss_saved {
    void *largest, *sum;
} loss_saved;

static loss_saved take_saved(const tpp_layer *layer, int64_t tokens, tpp__arena *arena) {
    void *largest = tpp__arena_take(arena, tokens, layer->wide_width);
    return (loss_saved){largest, tpp__arena_take(arena, tokens, layer->wide_width)};
}

/* What forward needs of scratch: weights, then losses, of the tokens; the numbers that are summed over
 * ranks in one go, of all tokens each: sums, with smoothing those of shifted logits, targets. */
typedef struct loss_scratch {
    double *weight;
    char *sums;
    int64_t vector; /* bytes of one number per token */
    int32_t kinds;  /* of sums: 1, or 2 with smoothing; targets lie behind them */
} loss_scratch;

static loss_scratch take_scratch(const tpp_layer *layer, int64_t tokens, tpp__arena *arena) {
    int32_t kinds = tpp__loss_sums(&((const loss *)layer)->rule) - 1;
    loss_scratch s = {.vector = tokens * layer->wide_width, .kinds = kinds};
    s.weight = tpp__arena_take(arena, tokens, sizeof(double));
    s.sums = tpp__arena_take(arena, (kinds + 1) * tokens, layer->wide_width);
    return s;
}

static char *targets_of(const loss_scratch *s) {
    return s->sums + s->kinds * s->vector;
}

static void needs_of(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs) {
    int32_t sums = tpp__loss_sums(&((const loss *)layer)->rule) - 1; /* over blocks */
    tpp__arena saved = tpp__arena_counting();
    take_saved(layer, batch * seq, &saved);
    tpp__arena scratch = tpp__arena_counting();
    take_scratch(layer, batch * seq, &scratch);
    for (int32_t n = layer->count; n > 1; n /= 2)
        tpp__arena_take(&scratch, sums * batch * seq, layer->wide_width);
    needs->saved = saved.used;
    needs->scratch = scratch.used;
    needs->overflow = !tpp__arena_fits(&saved) || !tpp__arena_fits(&scratch);
}

static tpp__ce_block block_of(const tpp_layer *layer, const tpp__work *work, int32_t block) {
    return tpp__logits_block(layer, ((const loss *)layer)->rule.vocab, work->tokens, layer->in_cols,
                             work->in, block);
}

/* sums (and, behind them, those of shifted logits) over blocks [first, first + count), along the
 * binary tree. */
static void sum_blocks(const tpp_layer *layer, const tpp__work *work, const void *largest,
                       int32_t first, int32_t count, char *sums, tpp__arena scratch) {
    int32_t kinds = tpp__loss_sums(&((const loss *)layer)->rule) - 1;
    if (count == 1) {
        tpp__ce_block block = block_of(layer, work, first);
        tpp__kern_ce_sum(&block, largest, sums,
                         kinds == 2 ? sums + work->tokens * layer->wide_width : NULL);
        return;
    }
    char *right = tpp__arena_take(&scratch, kinds * work->tokens, layer->wide_width);
    sum_blocks(layer, work, largest, first, count / 2, sums, scratch);
    sum_blocks(layer, work, largest, first + count / 2, count / 2, right, scratch);
    tpp__kern_add(layer->wide, kinds * work->tokens, right, sums);
}

static tpp_status find_largest(const tpp_layer *layer, const tpp__work *work, void *largest) {
    tpp__kern_ce_start(layer->wide, work->tokens, largest);
    for (int32_t b = 0; b < layer->count; b++) {
        tpp__ce_block block = block_of(layer, work, b);
        tpp__kern_ce_max(&block, largest);
    }
    return tpp__loss_reduce(layer, largest, work->tokens, TPP_MAX);
}

static tpp_status forward(const tpp_layer *layer, const tpp__work *work) {
    const tpp__loss_rule *rule = &((const loss *)layer)->rule;
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX), free = work->scratch;
    loss_saved saved = take_saved(layer, work->tokens, &memory);
    loss_scratch s = take_scratch(layer, work->tokens, &free);
    tpp_status status = tpp__loss_weights(rule, work, s.weight);
    if (status == TPP_OK)
        status = find_largest(layer, work, saved.largest);
    if (status == TPP_OK)
        status = tpp__loss_check_largest(layer, 0, work->tokens, saved.largest, s.weight);
    if (status != TPP_OK)
        return status;
    sum_blocks(layer, work, saved.largest, 0, layer->count, s.sums, free);
    memset(targets_of(&s), 0, (size_t)s.vector);
    for (int32_t b = 0; b < layer->count; b++) {
        tpp__ce_block block = block_of(layer, work, b);
        tpp__kern_ce_pick(&block, saved.largest, work->targets, targets_of(&s));
    }
    status = tpp__loss_reduce(layer, s.sums, tpp__loss_sums(rule) * work->tokens, TPP_SUM_TREE);
    if (status != TPP_OK)
        return status;
    memcpy(saved.sum, s.sums, (size_t)s.vector);
    tpp__kern_ce_loss(layer->wide, work->tokens, &rule->ce, saved.largest, s.sums, targets_of(&s),
                      s.kinds == 2 ? s.sums + s.vector : NULL, s.weight, s.weight);
    tpp__loss_out(layer, rule, work, s.weight);
    return TPP_OK;
}

static tpp_status backward(const tpp_layer *layer, const tpp__work *work, int32_t parts) {
    const tpp__loss_rule *rule = &((const loss *)layer)->rule;
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX), free = work->scratch;
    loss_saved saved = take_saved(layer, work->tokens, &memory);
    loss_scratch s = take_scratch(layer, work->tokens, &free); /* slopes where sums were */
    if (!(parts & TPP__INPUT))
        return TPP_OK;
    tpp_status status = tpp__loss_slopes(layer, rule, work, s.weight, s.sums);
    if (status != TPP_OK)
        return status;
    memset(work->grad_in, 0, (size_t)(work->tokens * layer->in_cols * layer->width));
    for (int32_t b = 0; b < layer->count; b++) {
        tpp__ce_block block = block_of(layer, work, b);
        int64_t at = (const char *)block.z - (const char *)work->in;
        tpp__kern_ce_grad(&block, &rule->ce, saved.largest, saved.sum, s.sums, work->targets,
                          (char *)work->grad_in + at, layer->in_cols);
    }
    return TPP_OK;
}

static void cost(const tpp_layer *layer, int32_t parts, tpp__cost *c) {
    if (parts & TPP__FORWARDS)
        tpp__loss_cost(layer, &((const loss *)layer)->rule, c->tokens, c);
}

static const tpp__layer_ops ops = {
    .needs = needs_of, .forward = forward, .backward = backward, .cost = cost};

tpp_status tpp_loss_create(tpp_layer **out, const tpp_layer_env *env, const tpp_loss_desc *desc) {
    tpp__loss_rule rule;
    tpp_layer *layer;
    tpp_status status = tpp__loss_read(&rule, desc, "desc");
    if (status == TPP_OK)
        status = tpp__layer_new(&layer, env, sizeof(loss), &ops, 0, 0);
    if (status != TPP_OK)
        return tpp__layer_hand_over(out, NULL, status);
    ((loss *)layer)->rule = rule;
    layer->in_cols = tpp__whole_blocks(layer, rule.vocab) / layer->ranks;
    tpp__loss_ends(layer, &rule);
    return tpp__layer_hand_over(out, layer, TPP_OK);
}
