/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/logits.h"

#include <string.h>
#include <tpp/convert.h>

/* How many of `cols` columns, the first of which is class `first`, are classes. */
static int64_t valid_of(int64_t vocab, int64_t first, int64_t cols) {
    int64_t left = vocab - first;
    return left < 0 ? 0 : left < cols ? left : cols;
}

tpp__ce_block tpp__logits_block(const tpp_layer *layer, int64_t vocab, int64_t tokens, int64_t cols,
                                const void *logits, int32_t block) {
    int64_t wide = cols / layer->count, first = (layer->first + block) * wide;
    return (tpp__ce_block){
        .dtype = layer->dtype,
        .rows = tokens,
        .cols = valid_of(vocab, first, wide),
        .z = logits ? (const char *)logits + block * wide * layer->width : NULL,
        .ldz = cols,
        .first = first,
    };
}

void tpp__logits_pad(const tpp_layer *layer, int64_t vocab, int64_t tokens, int64_t cols,
                     void *logits, double value) {
    char pad[sizeof(double)];
    int64_t valid = valid_of(vocab, layer->first * (cols / layer->count), cols);
    if (valid == cols)
        return;
    tpp_convert(pad, layer->dtype, &value, TPP_F64, 1);
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t c = valid; c < cols; c++)
            memcpy((char *)logits + (t * cols + c) * layer->width, pad, (size_t)layer->width);
}
