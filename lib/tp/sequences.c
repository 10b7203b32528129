/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/sequences.h"

static tpp__sequence at(const tpp__work *work, int64_t index, int64_t first) {
    tpp__sequence s = {.index = index, .first = first};
    if (index < work->batch) {
        s.count = work->lengths ? work->lengths[index] : work->seq;
        s.past = work->past ? work->past[index] : 0;
    }
    return s;
}

int64_t tpp__sequence_position(const tpp_layer *layer, const tpp__sequence *s, int64_t i) {
    if (!layer->context)
        return s->past + i;
    return tpp_context_index(layer->context_size, layer->context_rank, s->count, i);
}

tpp__sequence tpp__sequence_first(const tpp__work *work) {
    return at(work, 0, 0);
}

tpp__sequence tpp__sequence_next(const tpp__work *work, tpp__sequence before) {
    return at(work, before.index + 1, before.first + before.count);
}
