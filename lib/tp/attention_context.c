/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/attention_context.h"

/* What attention over a context group costs; its two ways are in attention_ring.c and
 * attention_exchange.c. */

int64_t tpp__context_chunk(const tpp_layer *layer, int32_t rank, int32_t which) {
    return which == 0 ? rank : 2 * (int64_t)layer->context_size - 1 - rank;
}

static tpp__attention shape_of(const tpp_layer *layer, int64_t seq, int64_t offset) {
    const tpp__attention_layer *self = (const tpp__attention_layer *)layer;
    return (tpp__attention){
        .seq = seq, .keys = seq, .offset = offset, .window = self->window, .full = self->full};
}

/* Chunks of this rank against those of all. */
static void ring_pairs(const tpp_layer *layer, int64_t half, double *tiles, double *seen) {
    bool full = ((const tpp__attention_layer *)layer)->full;
    *tiles = *seen = 0;
    for (int32_t i = 0; i < 4 * layer->context_size; i++) {
        int64_t ahead = tpp__context_chunk(layer, layer->context_rank, i / 2 % 2) -
                        tpp__context_chunk(layer, i / 4, i % 2);
        if (ahead < 0 && !full)
            continue;
        tpp__attention chunk = shape_of(layer, half, ahead * half);
        double some, visible;
        tpp__kern_attention_pairs(&chunk, &some, &visible);
        *tiles += some;
        *seen += visible;
    }
}

void tpp__attention_pairs(const tpp_layer *layer, int64_t seq, double *tiles, double *seen) {
    bool ring = ((const tpp__attention_layer *)layer)->context == TPP_CONTEXT_RING;
    if (layer->context && ring) {
        ring_pairs(layer, seq / 2, tiles, seen);
        return;
    }
    tpp__attention whole = shape_of(layer, seq * layer->context_size, 0);
    tpp__kern_attention_pairs(&whole, tiles, seen);
    *tiles /= layer->context_size; /* whole sequences, of a share of the heads */
    *seen /= layer->context_size;
}

void tpp__attention_context_cost(const tpp_layer *layer, bool backward, tpp__cost *cost) {
    const tpp__attention_layer *self = (const tpp__attention_layer *)layer;
    int64_t size = layer->context_size, others = size - 1;
    int64_t q = cost->tokens * self->heads * self->head_cols;
    int64_t k = cost->tokens * self->kv_heads * self->head_cols;
    if (self->context == TPP_CONTEXT_RING) {
        tpp__cost_context(cost, TPP_COMM_SEND, backward ? others + size : others, 2 * k,
                          layer->dtype);
        return;
    }
    tpp__cost_context(cost, TPP_COMM_SEND, others, ((backward ? 3 : 1) * q + 2 * k) / size,
                      layer->dtype);
    tpp__cost_context(cost, TPP_COMM_SEND, others, (q + (backward ? 2 : 0) * k) / size,
                      layer->dtype);
}
