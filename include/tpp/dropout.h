/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_DROPOUT_H
#define TPP_DROPOUT_H

/**
 * @file dropout.h
 * Dropout (Srivastava et al. 2014): in training each element becomes 0 with the probability `rate`,
 * and the others are divided by 1 - rate. A layer of its own, for chains (behind an embedding, say);
 * blocks have it inside (block.h). Probabilities of attention are not dropped.
 *
 *     tpp_dropout_desc d = {0};
 *     d.size = sizeof d;
 *     d.cols = 64;
 *     d.rate = 0.1;
 *     env.name = "embed.dropout";               // makes the mask; another one for each layer
 *     tpp_dropout_create(&layer, &env, &d);
 *     tpp_call call = {0};
 *     call.size = sizeof call;
 *     call.dropout_seed = 42;                   // in forward and in backward
 *
 * Training or not: a call whose dropout_seed is 0 drops nothing, so evaluation is training's layer
 * called with 0. The seed is another one for every micro-batch, and the same in its forward and its
 * backward: the mask is made again, nothing of it is saved. Pipeline stages do both
 * (tpp_stage_set_dropout).
 *
 * The mask depends on the seed, the layer's name, the token's row in the call and the column alone,
 * never on the split: of the row r, counted over all tokens of the call (with env.context: of all of
 * its ranks), and the column c it is word c % 4 of Philox 4x32-10 (Salmon et al. 2011) with the seed as
 * its key and the counter (r * ceil(cols / 4) + c / 4, FNV-1a of the name), both 64-bit, low word first;
 * the element stays where that word is floor(rate * 2^32) or more.
 */

#include <tpp/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A dropout. */
typedef struct tpp_dropout_desc {
    uint32_t size;
    uint32_t flags; /**< 0 */
    int64_t cols;   /**< columns, >= 1, whole on every rank */
    double rate;    /**< 0 <= rate < 1 */
} tpp_dropout_desc;

/**
 * A dropout. No parameters.
 *
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_TOO_NEW; TPP_ERR_NO_MEMORY.
 *
 * Comm: none. Memory: saved none. Since: 0.1.
 */
TPP_API tpp_status tpp_dropout_create(tpp_layer **out, const tpp_layer_env *env,
                                      const tpp_dropout_desc *desc);

#ifdef __cplusplus
}
#endif

#endif
