/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/cost_impl.h"
#include "tp/block_impl.h"
#include "tp/region.h"

/* y = x + attention(n1) + mlp(n2), n1 = norm1(x), n2 = norm2(x), or n1 when there is one norm.
 * Attention and MLP are the two sides of one region, so that their outputs, and with one norm the
 * gradients of their inputs, are summed over ranks together. */

enum { SIDES = TPP__SIDES };
static const int32_t norm_at[SIDES] = {TPP__NORM1, TPP__NORM2};

static int32_t norms_of(const tpp_layer *block) {
    return tpp__block_of(block)->parts == TPP__PARTS ? 2 : 1;
}

/* Number of a side among the children. */
static int32_t side_at(const tpp_layer *block, int32_t side) {
    return side == 0 ? TPP__ATTENTION : tpp__block_of(block)->parts - 1;
}

/* Needs of a side without what the region does; and of a norm. */
static tpp__needs side_needs(const tpp_layer *block, int32_t side, int64_t batch, int64_t seq) {
    const tpp_layer *layer = block->children[side_at(block, side)];
    tpp__needs needs = {0};
    layer->ops->region->needs(layer, batch, seq, &needs);
    return needs;
}

static tpp__needs norm_needs(const tpp_layer *block, int32_t norm, int64_t batch, int64_t seq) {
    return tpp__layer_needs(block->children[norm_at[norm]], batch, seq);
}

/* A matrix [rows, hidden] for each norm, as values its output, as gradients that of its output; then
 * the sides' own, saved or split; saved: the norms' own. */
typedef struct parallel_memory {
    char *normed[SIDES];
    char *side[SIDES];
    char *norm[SIDES];
} parallel_memory;

static parallel_memory take(const tpp_layer *block, int64_t batch, int64_t seq, int64_t tokens,
                            bool saved, tpp__arena *arena) {
    parallel_memory m = {{NULL}, {NULL}, {NULL}};
    for (int32_t i = 0; i < norms_of(block); i++)
        m.normed[i] = tpp__arena_take(arena, tpp__block_room(block, tokens), block->width);
    for (int32_t i = 0; i < SIDES; i++) {
        tpp__needs needs = side_needs(block, i, batch, seq);
        m.side[i] = tpp__arena_take(arena, saved ? needs.saved : needs.split, 1);
    }
    for (int32_t i = 0; i < norms_of(block) && saved; i++)
        m.norm[i] = tpp__arena_take(arena, norm_needs(block, i, batch, seq).saved, 1);
    return m;
}

/* What backward needs beside the split: a gradient that dropout has gone through, and that of the
 * second norm's input. */
static char *take_extra(const tpp_layer *block, int64_t tokens, bool needed, tpp__arena *arena) {
    return needed ? tpp__arena_take(arena, tpp__block_room(block, tokens), block->width) : NULL;
}

static bool has_drop(const tpp_layer *block) {
    return tpp__block_of(block)->after_attention.rate > 0;
}

static void needs_of(const tpp_layer *block, int64_t batch, int64_t seq, tpp__needs *needs) {
    int64_t tokens = batch * seq, inner = 0;
    tpp__region rooms;
    tpp__arena saved = tpp__arena_counting(), split = saved;
    take(block, batch, seq, tokens, true, &saved);
    take(block, batch, seq, tokens, false, &split);
    tpp__region_rooms(block, tokens, &rooms, norms_of(block), &split);
    for (int32_t i = 0; i < SIDES; i++) {
        tpp__needs side = side_needs(block, i, batch, seq);
        inner = side.scratch > inner ? side.scratch : inner;
        needs->overflow |= side.overflow;
    }
    tpp__arena scratch = split; /* of a whole backward */
    take_extra(block, tokens, has_drop(block), &scratch);
    take_extra(block, tokens, norms_of(block) == 2, &scratch);
    tpp__arena_take(
        &scratch, tpp__region_scratch(block, tokens, norms_of(block), inner, &needs->overflow), 1);
    needs->saved = saved.used;
    needs->split = split.used;
    needs->scratch = scratch.used;
    needs->overflow |=
        !tpp__arena_fits(&saved) || !tpp__arena_fits(&split) || !tpp__arena_fits(&scratch);
}

/* Forward alone has in scratch what is saved otherwise; behind it what a side needs of its own is no
 * less than what it needs here. */
static void serve(const tpp_layer *block, int64_t batch, int64_t seq, int64_t cache_seq,
                  tpp__serve *out) {
    tpp__arena scratch = tpp__arena_counting();
    take(block, batch, seq, batch * seq, true, &scratch);
    for (int32_t i = 0; i < SIDES; i++) {
        tpp__serve side =
            tpp__layer_serve(block->children[side_at(block, i)], batch, seq, cache_seq);
        tpp__serve_join(out, &side); /* only the attention has a cache */
    }
    tpp__arena_take(&scratch, out->scratch, 1);
    out->scratch = scratch.used;
    out->overflow |= !tpp__arena_fits(&scratch);
}

static tpp__region region_of(const tpp_layer *block, const tpp__work *work,
                             const parallel_memory *saved, tpp__arena scratch) {
    tpp__region region = {.layer = block,
                          .tokens = work->tokens,
                          .scratch = scratch,
                          .count = SIDES,
                          .inputs = norms_of(block)};
    for (int32_t i = 0; i < SIDES; i++) {
        region.side[i] = block->children[side_at(block, i)];
        region.work[i] = tpp__block_child(block, work, side_at(block, i));
        region.work[i].in = saved->normed[norms_of(block) == 2 ? i : 0];
        region.work[i].saved = saved->side[i];
    }
    return region;
}

static tpp__work norm_work(const tpp_layer *block, const tpp__work *work,
                           const parallel_memory *saved, int32_t norm) {
    tpp__work own = tpp__block_child(block, work, norm_at[norm]);
    own.saved = saved->norm[norm];
    return own;
}

static tpp_status forward(const tpp_layer *block, const tpp__work *work) {
    tpp__arena kept = tpp__arena_over(work->saved, INT64_MAX), scratch = work->scratch;
    parallel_memory saved =
        take(block, work->batch, work->seq, work->tokens, true, work->no_grad ? &scratch : &kept);
    tpp_status status = TPP_OK;
    for (int32_t i = 0; i < norms_of(block) && status == TPP_OK; i++) {
        const tpp_layer *norm = block->children[norm_at[i]];
        tpp__work own = norm_work(block, work, &saved, i);
        own.out = saved.normed[i];
        status = norm->ops->forward(norm, &own);
    }
    tpp__region region = region_of(block, work, &saved, scratch);
    if (status == TPP_OK)
        status = tpp__region_forward(&region, work->out);
    if (status == TPP_OK && work->out)
        tpp__block_join(block, work, &tpp__block_of(block)->after_attention, work->in, work->out);
    return status;
}

/* From the gradients of the norms' outputs to that of x, to which the residual's is added. */
static tpp_status backward_norms(const tpp_layer *block, const tpp__work *work,
                                 const parallel_memory *saved, const parallel_memory *grads,
                                 void *second, int32_t parts) {
    int64_t elements = tpp__block_elements(block, work);
    tpp_status status = TPP_OK;
    for (int32_t i = 0; i < norms_of(block) && status == TPP_OK; i++) {
        tpp__work own = norm_work(block, work, saved, i);
        own.grad_out = grads->normed[i];
        own.grad_in = i == 0 ? work->grad_in : second;
        status = tpp__layer_backward(block->children[norm_at[i]], &own, parts);
        if (status == TPP_OK && (parts & TPP__INPUT))
            tpp__kern_add(block->dtype, elements, i == 0 ? work->grad_out : second, work->grad_in);
    }
    return status;
}

static tpp_status backward(const tpp_layer *block, const tpp__work *work, int32_t parts) {
    const tpp__drop *drop = &tpp__block_of(block)->after_attention;
    int64_t batch = work->batch, seq = work->seq;
    tpp__arena kept = tpp__arena_over(work->saved, INT64_MAX), scratch = work->scratch;
    parallel_memory saved = take(block, batch, seq, work->tokens, true, &kept);
    tpp__arena apart = tpp__arena_over(work->split, INT64_MAX);
    tpp__arena *split = parts == TPP__BOTH ? &scratch : &apart;
    parallel_memory grads = take(block, batch, seq, work->tokens, false, split);
    tpp__region region = region_of(block, work, &saved, scratch);
    tpp__region_rooms(block, work->tokens, &region, norms_of(block), split);
    char *dropped = take_extra(block, work->tokens, has_drop(block), &scratch);
    char *second = take_extra(block, work->tokens, norms_of(block) == 2, &scratch);
    region.scratch = scratch;
    for (int32_t i = 0; i < SIDES; i++)
        region.work[i].split = grads.side[i];
    const void *grad_out = work->grad_out;
    if (tpp__drops(drop, work)) {
        tpp__drop_apply(block, drop, work, block->in_cols, grad_out, dropped);
        grad_out = dropped;
    }
    void *const grad_in[SIDES] = {grads.normed[0], grads.normed[1]};
    tpp_status status = tpp__region_backward(&region, grad_out, grad_in, parts);
    if (status == TPP_OK)
        status = backward_norms(block, work, &saved, &grads, second, parts);
    return status;
}

static void cost(const tpp_layer *block, int32_t parts, tpp__cost *c) {
    for (int32_t i = 0; i < SIDES; i++) {
        const tpp_layer *side = block->children[side_at(block, i)];
        side->ops->region->cost(side, parts, c);
    }
    tpp__region_cost(block, norms_of(block), parts, c);
}

const tpp__layer_ops tpp__block_parallel_ops = {
    .needs = needs_of, .forward = forward, .backward = backward, .cost = cost, .serve = serve};
