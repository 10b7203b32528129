/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_OPTIM_H
#define TPP_OPTIM_H

/**
 * @file optim.h
 * AdamW on the state of a layer (Loshchilov and Hutter 2019), and the parts of a gradient norm that
 * adds up to the same bits under every split.
 *
 *     tpp_layer_sum_copies(model, grads, scratch, bytes);  // layer.h: of K/V heads, once a step
 *     tpp_layer_grad_squares(model, grads, parts);     // [params * blocks]
 *     // Add the parts of all ranks in the order of the full model; the root is the norm.
 *     tpp_adamw_desc d = {0};
 *     d.size = sizeof d;
 *     d.rate = 3e-4;
 *     d.step = 1;
 *     tpp_layer_adamw(model, &d, params, grads, moments);
 *
 * Everything is element by element, so a split never changes a bit.
 */

#include <tpp/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One AdamW step. */
typedef struct tpp_adamw_desc {
    uint32_t size;
    uint32_t flags;    /**< 0 */
    double rate;       /**< learning rate of this step, >= 0 */
    double beta1;      /**< 0: 0.9 */
    double beta2;      /**< 0: 0.999 */
    double epsilon;    /**< 0: 1e-8 */
    double decay;      /**< weight decay, not applied to TPP_PARAM_NO_DECAY; 0: none */
    double grad_scale; /**< gradients are multiplied by it first (clipping); 0: 1 */
    int64_t step;      /**< 1 for the first step */
} tpp_adamw_desc;

/**
 * Update the parameters: m and v are the running means of g and g^2, p -= rate * (m / (1 -
 * beta1^step) / (sqrt(v / (1 - beta2^step)) + epsilon) + decay * p).
 *
 * With TPP_BF16 all is computed in float32 on float32 parameters (master weights): params is their
 * rounding, and what it leaves is kept behind the moments, so that small steps add up.
 *
 * @param params state_bytes. @param grads grad_bytes. @param moments info.moments_bytes, zero before
 *        the first step: m, v, each as grads, and for TPP_BF16 the rest of the parameters.
 * @return TPP_OK; TPP_ERR_INVALID.
 *
 * Threads: any, one per state. Comm: none. Memory: none allocated. Since: 0.1.
 */
TPP_API tpp_status tpp_layer_adamw(const tpp_layer *layer, const tpp_adamw_desc *desc, void *params,
                                   const void *grads, void *moments);

/**
 * Sum of the squares of the gradients, per parameter and block: out[index * blocks + b] is block b
 * of parameter `index`. A block of another rank is 0; of a parameter that every rank holds whole,
 * block 0 is its sum on rank 0 and 0 elsewhere; a copied head is counted in the block of its first
 * copy (call tpp_layer_sum_copies before); a parameter that is TPP_PARAM_COPY counts 0. So the parts of all ranks add up exactly, in any order.
 *
 * @param out params * blocks numbers (tpp_layer_query). @return TPP_OK; TPP_ERR_INVALID. Comm:
 *         none. Since: 0.1.
 */
TPP_API tpp_status tpp_layer_grad_squares(const tpp_layer *layer, const void *grads, double *out);

#ifdef __cplusplus
}
#endif

#endif
