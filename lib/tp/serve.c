/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/layer_impl.h"

/* Forward without backward. A layer of its own finds what it would save in its scratch; a composite
 * one hands the same scratch to each of its layers. */

tpp__serve tpp__layer_serve(const tpp_layer *layer, int64_t batch, int64_t seq, int64_t cache_seq) {
    tpp__serve serve = {0};
    if (layer->ops->serve) {
        layer->ops->serve(layer, batch, seq, cache_seq, &serve);
        return serve;
    }
    tpp__needs needs = tpp__layer_needs(layer, batch, seq);
    tpp__arena scratch = tpp__arena_counting();
    tpp__arena_take(&scratch, needs.saved, 1);
    tpp__arena_take(&scratch, needs.scratch, 1);
    serve.scratch = scratch.used;
    serve.overflow = needs.overflow || !tpp__arena_fits(&scratch);
    serve.failed = needs.failed;
    return serve;
}

void tpp__serve_join(tpp__serve *serve, const tpp__serve *child) {
    tpp__arena cache = {.capacity = INT64_MAX, .used = serve->cache};
    tpp__arena_take(&cache, child->cache, 1);
    serve->cache = cache.used;
    serve->scratch = child->scratch > serve->scratch ? child->scratch : serve->scratch;
    serve->overflow |= child->overflow || !tpp__arena_fits(&cache);
    serve->failed = serve->failed != TPP_OK ? serve->failed : child->failed;
}

tpp_status tpp__layer_forward(const tpp_layer *layer, const tpp__work *work) {
    if (!work->no_grad || layer->child_count > 0)
        return layer->ops->forward(layer, work);
    tpp__work own = *work;
    own.saved =
        tpp__arena_take(&own.scratch, tpp__layer_needs(layer, work->batch, work->seq).saved, 1);
    return layer->ops->forward(layer, &own);
}

tpp_status tpp__serve_needs(const tpp_layer *layer, int64_t batch, int64_t seq, int64_t cache_seq,
                            tpp__serve *serve) {
    if (cache_seq < 0 || cache_seq > INT32_MAX)
        return tpp__fail(TPP_ERR_INVALID, "cache_seq = %lld is out of range; accepted: 0 .. %d",
                         (long long)cache_seq, INT32_MAX);
    *serve = tpp__layer_serve(layer, batch, seq, cache_seq);
    if (serve->failed != TPP_OK)
        return serve->failed;
    if (serve->overflow)
        return tpp__fail(TPP_ERR_OVERFLOW,
                         "memory for batch %lld x seq %lld with a cache of %lld tokens does not "
                         "fit into 64 bits",
                         (long long)batch, (long long)seq, (long long)cache_seq);
    return TPP_OK;
}

tpp_status tpp__check_cached(const tpp_call *call) {
    for (int64_t i = 0; i < call->batch; i++) {
        int64_t past = call->past ? call->past[i] : 0;
        int64_t count = call->lengths ? call->lengths[i] : call->seq;
        if (past + count > call->cache_seq)
            return tpp__fail(TPP_ERR_TOO_SMALL,
                             "the cache is full: sequence %lld has %lld tokens in it and brings "
                             "%lld; call.cache_seq = %lld",
                             (long long)i, (long long)past, (long long)count,
                             (long long)call->cache_seq);
    }
    return TPP_OK;
}
