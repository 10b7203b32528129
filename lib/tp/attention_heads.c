/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/attention_impl.h"

#include <math.h>

/* Head by head. A block's query heads share its K/V heads in equal groups; heads of a group follow
 * each other, so that the gradients of their K and V are added in the order of heads. */

static int64_t group_of(const tpp__attention_layer *self) {
    return self->heads / self->kv_heads;
}

/* The part of one head of one sequence in a projection. */
typedef struct place {
    char *at;
    int64_t stride;
} place;

/* Q, K or V (`section`) of a head; with one projection, blocks hold their three sections side by
 * side. */
static place place_of(const tpp_layer *layer, const tpp__projected *projected, int64_t first_token,
                      int32_t section, int64_t head) {
    const tpp__attention_layer *self = (const tpp__attention_layer *)layer;
    bool one = self->projections == 1;
    int32_t index = one ? 0 : section;
    int64_t stride = tpp__attention_cols(layer, index);
    int64_t col;
    if (one) {
        int64_t per_block = self->heads / layer->count;
        int64_t block = head / per_block, within = head % per_block;
        col = ((block * 3 + section) * per_block + within) * self->head_cols;
    } else {
        col = (section == TPP__Q ? head : head / group_of(self)) * self->head_cols;
    }
    char *at = projected->matrix[index] + (first_token * stride + col) * layer->width;
    return (place){at, stride};
}

/* Head `head` of sequence `sequence`. */
static tpp__attention head_of(const tpp_layer *layer, const tpp__work *work,
                              const tpp__attention_saved *saved, int64_t sequence, int64_t head) {
    const tpp__attention_layer *self = (const tpp__attention_layer *)layer;
    int64_t first = sequence * work->seq, cols = tpp__attention_heads_cols(layer);
    place q = place_of(layer, &saved->qkv, first, TPP__Q, head);
    place k = place_of(layer, &saved->qkv, first, TPP__K, head);
    place v = place_of(layer, &saved->qkv, first, TPP__V, head);
    return (tpp__attention){
        .gemm = &layer->gemm,
        .dtype = layer->dtype,
        .seq = work->seq,
        .keys = work->seq,
        .width = self->head_cols,
        .scale = 1 / sqrt((double)self->head_cols),
        .q = q.at,
        .k = k.at,
        .v = v.at,
        .ldq = q.stride,
        .ldk = k.stride,
        .ldv = v.stride,
        .o = saved->heads + (first * cols + head * self->head_cols) * layer->width,
        .ldo = cols,
        .lse = saved->lse + (sequence * self->heads + head) * work->seq * layer->wide_width,
    };
}

static int64_t core_bytes(const tpp_layer *layer, int64_t seq) {
    const tpp__attention_layer *self = (const tpp__attention_layer *)layer;
    return tpp__kern_attention_scratch(layer->dtype, seq, self->head_cols);
}

void tpp__attention_heads_scratch(const tpp_layer *layer, int64_t seq, tpp__arena *arena) {
    tpp__arena_take(arena, core_bytes(layer, seq), 1);
}

tpp_status tpp__attention_heads_forward(const tpp_layer *layer, const tpp__work *work,
                                        const tpp__attention_saved *saved) {
    const tpp__attention_layer *self = (const tpp__attention_layer *)layer;
    tpp__arena arena = work->scratch;
    void *scratch = tpp__arena_take(&arena, core_bytes(layer, work->seq), 1);
    tpp_status status = TPP_OK;
    for (int64_t i = 0; i < work->batch * self->heads && status == TPP_OK; i++) {
        tpp__attention head = head_of(layer, work, saved, i / self->heads, i % self->heads);
        head.scratch = scratch;
        status = tpp__kern_attention_forward(&head);
    }
    return status;
}

/* One head's gradients. */
static tpp_status head_backward(const tpp_layer *layer, const tpp__work *work, tpp__attention head,
                                const tpp__projected *grads, int64_t sequence, int64_t number) {
    int64_t first = sequence * work->seq;
    place dq = place_of(layer, grads, first, TPP__Q, number);
    place dk = place_of(layer, grads, first, TPP__K, number);
    place dv = place_of(layer, grads, first, TPP__V, number);
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
    void *scratch = tpp__arena_take(&arena, core_bytes(layer, work->seq), 1);
    tpp_status status = TPP_OK;
    for (int64_t i = 0; i < work->batch * self->heads && status == TPP_OK; i++) {
        int64_t sequence = i / self->heads, number = i % self->heads;
        tpp__attention head = head_of(layer, work, saved, sequence, number);
        head.scratch = scratch;
        head.d_o = grad_heads + ((char *)head.o - saved->heads);
        head.ld_do = head.ldo;
        status = head_backward(layer, work, head, grads, sequence, number);
    }
    return status;
}
