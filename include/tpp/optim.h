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
 *     // Add the parts of all ranks, element by element, in the order of the full model.
 *     tpp_verdict v = {0};
 *     v.size = sizeof v;
 *     tpp_grad_verdict(parts, count, 1.0, &v);         // norm, and whether it is above 1
 *     tpp_adamw_desc d = {0};
 *     d.size = sizeof d;
 *     d.rate = 3e-4;
 *     d.grad_scale = v.grad_scale;
 *     d.step = 1;
 *     if (!v.skip)
 *         tpp_layer_adamw(model, &d, params, grads, moments);
 *
 * Everything is element by element, so a split never changes a bit.
 *
 * Early. The norm needs the gradients of all ranks. A rank that does not want to wait for it takes the
 * step as if the norm were small, and takes it back if it was not:
 *
 *     d.grad_scale = 1;
 *     tpp_layer_adamw_early(model, &d, params, grads, moments, undo);
 *     // ... the next step's forwards; then the norm comes (validation.h)
 *     if (v.grad_scale == 1 && !v.skip) {
 *         tpp_layer_adamw_keep(model, &d, grads, moments);
 *     } else {
 *         tpp_layer_adamw_undo(model, params, moments, undo);
 *         d.grad_scale = v.grad_scale;
 *         if (!v.skip)
 *             tpp_layer_adamw(model, &d, params, grads, moments);
 *     }
 *
 * All bits are then those of the plain step. Early moves the parameters and leaves m and v, so that
 * undo memory is a copy of the parameters alone; the gradients must stay until keep or undo. What was
 * computed from the early parameters has to be thrown away with them.
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
 * Move the parameters as tpp_layer_adamw does, and keep what is needed to take that back.
 *
 * @param undo info.undo_bytes, overwritten. The rest as tpp_layer_adamw; of moments only the rest of
 *        TPP_BF16 parameters changes.
 * @return TPP_OK; TPP_ERR_INVALID.
 *
 * Threads: any, one per state. Comm: none. Memory: none allocated. Since: 0.1.
 */
TPP_API tpp_status tpp_layer_adamw_early(const tpp_layer *layer, const tpp_adamw_desc *desc,
                                         void *params, const void *grads, void *moments,
                                         void *undo);

/**
 * The early step was right: move m and v as well. Undo memory is free then.
 *
 * @param desc,grads as they were for tpp_layer_adamw_early. @return TPP_OK; TPP_ERR_INVALID.
 *
 * Threads: any, one per state. Comm: none. Memory: none allocated. Since: 0.1.
 */
TPP_API tpp_status tpp_layer_adamw_keep(const tpp_layer *layer, const tpp_adamw_desc *desc,
                                        const void *grads, void *moments);

/**
 * The early step was wrong: parameters and moments get the bits from before it.
 *
 * @param undo as tpp_layer_adamw_early left it. @return TPP_OK; TPP_ERR_INVALID.
 *
 * Threads: any, one per state. Comm: none. Memory: none allocated. Since: 0.1.
 */
TPP_API tpp_status tpp_layer_adamw_undo(const tpp_layer *layer, void *params, void *moments,
                                        const void *undo);

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

/** What a step's gradients come to. */
typedef struct tpp_verdict {
    uint32_t size;
    uint32_t flags;     /**< 0 */
    double norm;        /**< of all gradients, before clipping */
    double grad_scale;  /**< for tpp_adamw_desc: 1, or clip / norm when the norm is above clip */
    int32_t skip;       /**< 1: the norm is infinite or NaN; no step is to be taken */
    uint32_t reserved0; /**< 0 */
} tpp_verdict;

/**
 * Add the parts of a norm, first to last, and decide on clipping.
 *
 * @param parts count numbers, of all ranks and stages (tpp_layer_grad_squares).
 * @param clip  largest norm; 0: none. @param out size must be set.
 * @return TPP_OK; TPP_ERR_INVALID.
 *
 * Of parts that are not all there yet the norm is never larger than that of all: a verdict that
 * clips or skips then stays one.
 * Threads: any. Comm: none. Since: 0.1.
 */
TPP_API tpp_status tpp_grad_verdict(const double *parts, int64_t count, double clip,
                                    tpp_verdict *out);

#ifdef __cplusplus
}
#endif

#endif
