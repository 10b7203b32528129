/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_LAYER_COST_H
#define TPP_LAYER_COST_H

/**
 * @file layer_cost.h
 * What a call of a layer does, told beforehand: collectives over env.comm, messages over env.context, and floating-point
 * operations of matrix products. They are the layer's own statement of the "Comm:" lines of its header,
 * for all options, and follow from shapes alone: no memory is needed, no rank has to run.
 *
 *     tpp_layer_cost cost = {0};
 *     cost.size = sizeof cost;
 *     tpp_layer_cost_query(layer, TPP_COST_BACKWARD, 1, tokens, &cost);
 *     bytes = cost.comm[TPP_COMM_ALL_REDUCE].bytes;
 *
 * Two ways to count operations, of this rank, a multiplication and an addition being two.
 * *Done*: gemm_flops are those of every product that is asked of env.gemm, with what recomputation and
 * a fused head compute again, and attention in whole tiles. *Asked for*: weight_flops and
 * attention_flops are what the mathematics needs, nothing twice: of products with parameters, and
 * of scores and their products with values; backward is twice forward. The mask counts in
 * attention_flops (causal: s (s + 1) / 2 pairs of s tokens), attention_flops_full is s * s whatever
 * the mask is; conventions that halve it are half of that. Padding of uneven shards counts in all.
 */

#include <tpp/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The call that is asked about. */
typedef int32_t tpp_cost_call;
enum {
    TPP_COST_FORWARD = 1,
    TPP_COST_BACKWARD = 2,
    TPP_COST_INPUT = 3,  /**< tpp_layer_backward_input */
    TPP_COST_WEIGHT = 4, /**< tpp_layer_backward_weight */
    TPP_COST_COPIES = 5, /**< tpp_layer_sum_copies; batch and seq do not matter */
    TPP_COST_CONTEXT = 6 /**< tpp_layer_sum_context; batch and seq do not matter */
};

/** What a call does on this rank. */
typedef struct tpp_layer_cost {
    uint32_t size;
    uint32_t flags; /**< 0 */
    /** by tpp_comm_kind, as a traced comm (comm.h) counts it */
    tpp_comm_count comm[TPP_COMM_KINDS];
    double gemm_flops;           /**< of all products that are done */
    double weight_flops;         /**< of products with parameters */
    double attention_flops;      /**< of attention, pairs that the mask lets through */
    double attention_flops_full; /**< of attention, all pairs */
    /** the same as comm over env.context; seq is then a rank's share, as in a call */
    tpp_comm_count context[TPP_COMM_KINDS];
} tpp_layer_cost;

/**
 * What a call of `layer` does.
 *
 * @param call      which.
 * @param batch,seq shape, >= 0; sequences that are shorter (call.lengths) cost less.
 * @param out       size must be set.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_OVERFLOW; a custom layer's failure. A custom layer without
 *         `cost` (custom.h) counts as nothing.
 *
 * Threads: any. Comm: none. Since: 0.1.
 */
TPP_API tpp_status tpp_layer_cost_query(const tpp_layer *layer, tpp_cost_call call, int64_t batch,
                                        int64_t seq, tpp_layer_cost *out);

#ifdef __cplusplus
}
#endif

#endif
