/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/layer_impl.h"

int64_t tpp_context_index(int32_t size, int32_t rank, int64_t seq, int64_t local) {
    if (size < 1 || rank < 0 || rank >= size || local < 0 || local >= seq || seq % 2 != 0 ||
        seq > INT64_MAX / size)
        return -1;
    int64_t half = seq / 2;
    int64_t chunk = local < half ? rank : 2 * (int64_t)size - 1 - rank;
    return chunk * half + local % half;
}

tpp_status tpp_layer_sum_context(const tpp_layer *layer, void *grads) {
    if (!layer)
        return tpp__fail(TPP_ERR_INVALID, "layer is NULL");
    if (!layer->context || layer->grad_bytes == 0)
        return TPP_OK;
    if (!grads)
        return tpp__fail(TPP_ERR_INVALID, "grads is NULL; it must hold %lld bytes",
                         (long long)layer->grad_bytes);
    return tpp_comm_all_reduce(layer->context, grads, grads, layer->grad_bytes / layer->wide_width,
                               layer->wide, TPP_SUM_TREE);
}
