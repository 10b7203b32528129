/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_COST_IMPL_H
#define TPP_TP_COST_IMPL_H

/* What a kind states of its calls: its `cost` follows its forward and backward, product by product and
 * collective by collective. Parts are those of backward (layer_impl.h) and two of forward. */

#include "tp/layer_impl.h"

#include <tpp/layer_cost.h>

enum {
    TPP__FORWARD = 4, /* with the output */
    TPP__AGAIN = 8,   /* without (work->out is NULL) */
    TPP__FORWARDS = TPP__FORWARD | TPP__AGAIN
};

struct tpp__cost {
    int64_t batch, seq, tokens;
    tpp_layer_cost sum;
    bool repeated; /* what comes is done a second time: only gemm_flops count */
    bool overflow;
    tpp_status failed; /* of a custom layer */
};

void tpp__layer_cost(const tpp_layer *layer, int32_t parts, tpp__cost *cost);

/* A product of [m, k] and [k, n], one of them a parameter. */
void tpp__cost_product(tpp__cost *cost, int64_t m, int64_t n, int64_t k);

/* A collective of this layer; none with one rank. */
void tpp__cost_comm(const tpp_layer *layer, tpp__cost *cost, tpp_comm_kind kind, int64_t count,
                    tpp_dtype dtype);

/* `calls` operations over env.context, of `elements` each. */
void tpp__cost_context(tpp__cost *cost, tpp_comm_kind kind, int64_t calls, int64_t elements,
                       tpp_dtype dtype);

/* tpp__gather, and the sum of f backward and g forward, of [tokens, cols]. */
void tpp__cost_gather(const tpp_layer *layer, tpp__cost *cost, int64_t cols);
void tpp__cost_sum(const tpp_layer *layer, tpp__cost *cost, int64_t cols);

#endif
