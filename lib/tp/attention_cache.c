/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/attention_impl.h"
#include "tp/sequences.h"

static int64_t kv_heads_of(const tpp_layer *layer) {
    return ((const tpp__attention_layer *)layer)->kv_heads;
}

static int64_t head_cols_of(const tpp_layer *layer) {
    return ((const tpp__attention_layer *)layer)->head_cols;
}

int64_t tpp__attention_cache_bytes(const tpp_layer *layer, int64_t batch, int64_t cache_seq) {
    tpp__arena arena = tpp__arena_counting();
    int64_t tokens = 0, cols = 2 * kv_heads_of(layer) * head_cols_of(layer) * layer->width;
    arena.overflow = !tpp__mul(batch, cache_seq, &tokens);
    tpp__arena_take(&arena, tokens, cols);
    return tpp__arena_fits(&arena) ? arena.used : INT64_MAX;
}

tpp__place tpp__attention_cached(const tpp_layer *layer, const tpp__work *work, int64_t sequence,
                                 int32_t section, int64_t number) {
    int64_t slot = (sequence * 2 + (section == TPP__V)) * kv_heads_of(layer) + number;
    int64_t cols = head_cols_of(layer);
    return (tpp__place){work->cache + slot * work->cache_seq * cols * layer->width, cols};
}

void tpp__attention_cache_add(const tpp_layer *layer, const tpp__work *work,
                              const tpp__projected *projected) {
    int64_t cols = head_cols_of(layer);
    for (tpp__sequence s = tpp__sequence_first(work); s.index < work->batch;
         s = tpp__sequence_next(work, s)) {
        for (int64_t n = 0; n < 2 * kv_heads_of(layer); n++) {
            int32_t section = n % 2 ? TPP__V : TPP__K;
            tpp__place from = tpp__attention_place(layer, projected, s.first, section, n / 2);
            tpp__place to = tpp__attention_cached(layer, work, s.index, section, n / 2);
            tpp__kern_copy(layer->dtype, s.count, cols, from.at, from.stride,
                           to.at + s.past * cols * layer->width, cols);
        }
    }
}
