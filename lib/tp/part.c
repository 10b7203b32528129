/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/part.h"

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

tpp__part tpp__part_of(const tpp_layer *layer, int64_t tokens) {
    if (!layer->sequence)
        return (tpp__part){0, tokens, tokens, tokens};
    tpp__part part = {.tall = (tokens + layer->blocks - 1) / layer->blocks};
    part.room = layer->count * part.tall;
    part.first = least(layer->first * part.tall, tokens);
    part.count = least(part.first + part.room, tokens) - part.first;
    return part;
}

bool tpp__is_parted(const tpp_layer *layer) {
    return layer->sequence && layer->comm;
}

int64_t tpp__in_room(const tpp_layer *layer, int64_t tokens) {
    return layer->in_part ? tpp__part_of(layer, tokens).room : tokens;
}

int64_t tpp__out_room(const tpp_layer *layer, int64_t tokens) {
    return layer->out_part ? tpp__part_of(layer, tokens).room : tokens;
}

tpp_status tpp_layer_rows(const tpp_layer *layer, int64_t tokens, int64_t *first, int64_t *count) {
    if (!layer || !first || !count)
        return tpp__fail(TPP_ERR_INVALID, "%s is NULL",
                         !layer  ? "layer"
                         : first ? "count"
                                 : "first");
    if (tokens < 0 || tokens > INT32_MAX)
        return tpp__fail(TPP_ERR_INVALID, "tokens = %lld is out of range; accepted: 0 .. %d",
                         (long long)tokens, INT32_MAX);
    tpp__part part = tpp__part_of(layer, tokens);
    *first = part.first;
    *count = part.count;
    return TPP_OK;
}
