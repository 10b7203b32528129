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

tpp__sequence tpp__sequence_first(const tpp__work *work) {
    return at(work, 0, 0);
}

tpp__sequence tpp__sequence_next(const tpp__work *work, tpp__sequence before) {
    return at(work, before.index + 1, before.first + before.count);
}
