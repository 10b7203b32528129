/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/ce_ends.h"
#include "tp/partition_1d.h"

#include <string.h>
#include <tpp/loss.h>

typedef struct loss {
    tpp_layer base;
    int64_t vocab;
} loss;

/* saved: of every token the largest logit, and behind it the sum of exp(logit - largest) and the
 * target's logit less the largest: these two lie side by side because they are summed over ranks in
 * one go. */
typedef struct loss_saved {
    char *largest;
    char *sum;
    char *target; /* part of the allocation of `sum` */
} loss_saved;

static loss_saved take_saved(const tpp_layer *layer, int64_t tokens, tpp__arena *arena) {
    loss_saved saved;
    saved.largest = tpp__arena_take(arena, tokens, layer->width);
    saved.sum = tpp__arena_take(arena, 2 * tokens, layer->width);
    saved.target = saved.sum ? saved.sum + tokens * layer->width : NULL;
    return saved;
}

static void needs_of(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs) {
    tpp__arena saved = tpp__arena_counting();
    take_saved(layer, batch * seq, &saved);
    tpp__arena scratch = tpp__arena_counting();
    tpp__block_sum_scratch(layer, batch * seq, &scratch);
    needs->saved = saved.used;
    needs->scratch = scratch.used;
    needs->overflow = !tpp__arena_fits(&saved) || !tpp__arena_fits(&scratch);
}

/* A block of this rank: its first class, its classes that are no padding, its place in a row of
 * logits. */
typedef struct block_cols {
    int64_t first, valid, at;
} block_cols;

static block_cols block_of(const tpp_layer *layer, int32_t block) {
    const loss *self = (const loss *)layer;
    int64_t wide = layer->in_cols / layer->count;
    block_cols cols = {(layer->first + block) * wide, wide, block * wide};
    if (cols.first + cols.valid > self->vocab)
        cols.valid = cols.first < self->vocab ? self->vocab - cols.first : 0;
    return cols;
}

static const char *logits_of(const tpp_layer *layer, const tpp__work *work, block_cols cols) {
    return (const char *)work->in + cols.at * layer->width;
}

/* sum = sum over blocks [first, first + count) of exp(logit - largest), along the binary tree. */
static void sum_blocks(const tpp_layer *layer, const tpp__work *work, const void *largest,
                       int32_t first, int32_t count, void *sum, tpp__arena scratch) {
    if (count == 1) {
        block_cols cols = block_of(layer, first);
        tpp__kern_ce_sum(layer->dtype, work->tokens, cols.valid, logits_of(layer, work, cols),
                         layer->in_cols, largest, sum);
        return;
    }
    void *right = tpp__arena_take(&scratch, work->tokens, layer->width);
    sum_blocks(layer, work, largest, first, count / 2, sum, scratch);
    sum_blocks(layer, work, largest, first + count / 2, count / 2, right, scratch);
    tpp__kern_add(layer->dtype, work->tokens, right, sum);
}

static tpp_status check_targets(const loss *self, const tpp__work *work) {
    for (int64_t i = 0; i < work->tokens; i++) {
        if (work->targets[i] < 0 || work->targets[i] >= self->vocab)
            return tpp__fail(
                TPP_ERR_RANGE,
                "call.targets[%lld] = %d is outside the vocabulary; accepted: 0 .. %lld",
                (long long)i, work->targets[i], (long long)self->vocab - 1);
    }
    return TPP_OK;
}

static tpp_status reduce(const tpp_layer *layer, void *data, int64_t count, tpp_reduce how) {
    return layer->comm ? tpp_comm_all_reduce(layer->comm, data, data, count, layer->dtype, how)
                       : TPP_OK;
}

static tpp_status forward(const tpp_layer *layer, const tpp__work *work) {
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    loss_saved saved = take_saved(layer, work->tokens, &memory);
    tpp_status status = check_targets((const loss *)layer, work);
    if (status != TPP_OK)
        return status;
    tpp__kern_ce_start(layer->dtype, work->tokens, saved.largest, saved.target);
    for (int32_t b = 0; b < layer->count; b++) {
        block_cols cols = block_of(layer, b);
        tpp__kern_ce_max(layer->dtype, work->tokens, cols.valid, logits_of(layer, work, cols),
                         layer->in_cols, saved.largest);
    }
    status = reduce(layer, saved.largest, work->tokens, TPP_MAX);
    if (status != TPP_OK)
        return status;
    sum_blocks(layer, work, saved.largest, 0, layer->count, saved.sum, work->scratch);
    for (int32_t b = 0; b < layer->count; b++) {
        block_cols cols = block_of(layer, b);
        tpp__kern_ce_pick(layer->dtype, work->tokens, cols.valid, logits_of(layer, work, cols),
                          layer->in_cols, saved.largest, work->targets, cols.first, saved.target);
    }
    status = reduce(layer, saved.sum, 2 * work->tokens, TPP_SUM_TREE);
    if (status == TPP_OK)
        tpp__kern_ce_loss(layer->dtype, work->tokens, saved.sum, saved.target, work->out);
    return status;
}

static tpp_status backward(const tpp_layer *layer, const tpp__work *work, int32_t parts) {
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    loss_saved saved = take_saved(layer, work->tokens, &memory);
    if (!(parts & TPP__INPUT))
        return TPP_OK;
    tpp_status status = check_targets((const loss *)layer, work);
    if (status != TPP_OK)
        return status;
    memset(work->grad_in, 0, (size_t)(work->tokens * layer->in_cols * layer->width));
    for (int32_t b = 0; b < layer->count; b++) {
        block_cols cols = block_of(layer, b);
        tpp__kern_ce_grad(layer->dtype, work->tokens, cols.valid, logits_of(layer, work, cols),
                          layer->in_cols, saved.largest, saved.sum, work->grad_out, work->targets,
                          cols.first, (char *)work->grad_in + cols.at * layer->width,
                          layer->in_cols);
    }
    return TPP_OK;
}

static const tpp__layer_ops ops = {needs_of, forward, backward};

tpp_status tpp_loss_create(tpp_layer **out, const tpp_layer_env *env, const tpp_loss_desc *given) {
    tpp_loss_desc desc;
    tpp_layer *layer;
    tpp_status status = tpp__sized_read(&desc, sizeof desc, 0, given, "desc");
    if (status == TPP_OK)
        status = tpp__check_positive("desc.vocab", desc.vocab);
    if (status == TPP_OK)
        status = tpp__layer_new(&layer, env, sizeof(loss), &ops, 0, 0);
    if (status != TPP_OK)
        return tpp__layer_hand_over(out, NULL, status);
    ((loss *)layer)->vocab = desc.vocab;
    layer->targets = true;
    layer->in_cols = tpp__whole_blocks(layer, desc.vocab) / layer->ranks;
    layer->out_cols = 1;
    return tpp__layer_hand_over(out, layer, TPP_OK);
}
