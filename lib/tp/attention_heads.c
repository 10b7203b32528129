/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/attention_context.h"
#include "tp/sequences.h"

#include <math.h>

/* Head by head. A block's query heads share its K/V heads in equal groups; heads of a group follow
 * each other, so that the gradients of their K and V are added in the order of heads. */

static int64_t group_of(const tpp__attention_layer *self) {
    return self->heads / self->kv_heads;
}

int64_t tpp__attention_section_heads(const tpp_layer *layer, int32_t section) {
    const tpp__attention_layer *self = (const tpp__attention_layer *)layer;
    return section == TPP__Q ? self->heads : self->kv_heads;
}

/* With one projection, blocks hold their three sections side by side. */
tpp__place tpp__attention_place(const tpp_layer *layer, const tpp__projected *projected,
                                int64_t row, int32_t section, int64_t number) {
    const tpp__attention_layer *self = (const tpp__attention_layer *)layer;
    bool one = self->projections == 1;
    int32_t index = one ? 0 : section;
    int64_t stride = tpp__attention_cols(layer, index), slot = number;
    if (one) {
        int64_t per_block = self->heads / layer->count;
        slot = (number / per_block * 3 + section) * per_block + number % per_block;
    }
    char *at = projected->matrix[index] + (row * stride + slot * self->head_cols) * layer->width;
    return (tpp__place){at, stride};
}

/* Q, K or V of query head `head` of a sequence. */
static tpp__place place_of(const tpp_layer *layer, const tpp__projected *projected,
                           tpp__sequence sequence, int32_t section, int64_t head) {
    int64_t group = group_of((const tpp__attention_layer *)layer);
    return tpp__attention_place(layer, projected, sequence.first, section,
                                section == TPP__Q ? head : head / group);
}

/* K or V that query head `head` of a sequence meets: those of this call, or all in the cache. */
static tpp__place met_by(const tpp_layer *layer, const tpp__work *work,
                         const tpp__attention_saved *saved, tpp__sequence sequence, int32_t section,
                         int64_t head) {
    int64_t group = group_of((const tpp__attention_layer *)layer);
    if (work->cache)
        return tpp__attention_cached(layer, work, sequence.index, section, head / group);
    return place_of(layer, &saved->qkv, sequence, section, head);
}

/* Head `head` of a sequence. */
static tpp__attention head_of(const tpp_layer *layer, const tpp__work *work,
                              const tpp__attention_saved *saved, tpp__sequence sequence,
                              int64_t head) {
    const tpp__attention_layer *self = (const tpp__attention_layer *)layer;
    int64_t cols = tpp__attention_heads_cols(layer);
    tpp__place q = place_of(layer, &saved->qkv, sequence, TPP__Q, head);
    tpp__place k = met_by(layer, work, saved, sequence, TPP__K, head);
    tpp__place v = met_by(layer, work, saved, sequence, TPP__V, head);
    int64_t before = work->cache ? sequence.past : 0; /* keys of earlier calls */
    return (tpp__attention){
        .gemm = &layer->gemm,
        .dtype = layer->dtype,
        .seq = sequence.count,
        .keys = before + sequence.count,
        .offset = before,
        .window = self->window,
        .full = self->full,
        .width = self->head_cols,
        .scale = 1 / sqrt((double)self->head_cols),
        .q = q.at,
        .k = k.at,
        .v = v.at,
        .ldq = q.stride,
        .ldk = k.stride,
        .ldv = v.stride,
        .o = saved->heads + (sequence.first * cols + head * self->head_cols) * layer->width,
        .ldo = cols,
        .lse = saved->lse + (head * work->tokens + sequence.first) * layer->wide_width,
    };
}

static int64_t core_bytes(const tpp_layer *layer, int64_t keys) {
    const tpp__attention_layer *self = (const tpp__attention_layer *)layer;
    return tpp__kern_attention_scratch(layer->dtype, keys, self->head_cols);
}

static bool over_ring(const tpp_layer *layer) {
    return ((const tpp__attention_layer *)layer)->context == TPP_CONTEXT_RING;
}

void tpp__attention_heads_scratch(const tpp_layer *layer, int64_t tokens, int64_t seq,
                                  tpp__arena *arena) {
    if (!layer->context)
        tpp__arena_take(arena, core_bytes(layer, seq), 1);
    else if (over_ring(layer))
        tpp__attention_ring_scratch(layer, tokens, seq, arena);
    else
        tpp__attention_exchange_scratch(layer, tokens, seq, arena);
}

tpp_status tpp__attention_heads_forward(const tpp_layer *layer, const tpp__work *work,
                                        const tpp__attention_saved *saved) {
    const tpp__attention_layer *self = (const tpp__attention_layer *)layer;
    if (layer->context)
        return over_ring(layer) ? tpp__attention_ring_forward(layer, work, saved)
                                : tpp__attention_exchange_forward(layer, work, saved);
    tpp__arena arena = work->scratch;
    int64_t keys = work->cache ? work->cache_seq : work->seq; /* as in serve */
    void *scratch = tpp__arena_take(&arena, core_bytes(layer, keys), 1);
    tpp_status status = TPP_OK;
    for (tpp__sequence s = tpp__sequence_first(work); s.index < work->batch && status == TPP_OK;
         s = tpp__sequence_next(work, s)) {
        for (int64_t n = 0; n < self->heads && status == TPP_OK; n++) {
            tpp__attention head = head_of(layer, work, saved, s, n);
            head.scratch = scratch;
            status = tpp__kern_attention_forward(&head);
        }
    }
    return status;
}

/* One head's gradients. */
static tpp_status head_backward(const tpp_layer *layer, tpp__attention head,
                                const tpp__projected *grads, tpp__sequence sequence,
                                int64_t number) {
    tpp__place dq = place_of(layer, grads, sequence, TPP__Q, number);
    tpp__place dk = place_of(layer, grads, sequence, TPP__K, number);
    tpp__place dv = place_of(layer, grads, sequence, TPP__V, number);
    head.dq = dq.at;
    head.dk = dk.at;
    head.dv = dv.at;
    head.lddq = dq.stride;
    head.lddk = dk.stride;
    head.lddv = dv.stride;
    head.add_kv = number % group_of((const tpp__attention_layer *)layer) != 0;
    return tpp__kern_attention_backward(&head);
}

tpp_status tpp__attention_heads_backward(const tpp_layer *layer, const tpp__work *work,
                                         const tpp__attention_saved *saved, const char *grad_heads,
                                         const tpp__projected *grads, tpp__arena arena) {
    const tpp__attention_layer *self = (const tpp__attention_layer *)layer;
    if (layer->context)
        return over_ring(layer)
                   ? tpp__attention_ring_backward(layer, work, saved, grad_heads, grads, arena)
                   : tpp__attention_exchange_backward(layer, work, saved, grad_heads, grads, arena);
    void *scratch = tpp__arena_take(&arena, core_bytes(layer, work->seq), 1);
    tpp_status status = TPP_OK;
    for (tpp__sequence s = tpp__sequence_first(work); s.index < work->batch && status == TPP_OK;
         s = tpp__sequence_next(work, s)) {
        for (int64_t n = 0; n < self->heads && status == TPP_OK; n++) {
            tpp__attention head = head_of(layer, work, saved, s, n);
            head.scratch = scratch;
            head.d_o = grad_heads + ((char *)head.o - saved->heads);
            head.ld_do = head.ldo;
            status = head_backward(layer, head, grads, s, n);
        }
    }
    return status;
}
