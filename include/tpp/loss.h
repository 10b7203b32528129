/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_LOSS_H
#define TPP_LOSS_H

/**
 * @file loss.h
 * Cross-entropy over a vocabulary that is split over ranks: each has the logits of its own part,
 * and only a few numbers per token are reduced, never the logits (Shoeybi et al. 2019, Megatron-LM,
 * section 3).
 *
 *     tpp_loss_desc d = {0};
 *     d.size = sizeof d;
 *     d.vocab = 256;
 *     tpp_loss_create(&layer, &env, &d);   // [tokens, vocab / t] to [tokens, 1]
 *
 * loss = log(sum_j exp(z_j)) - z_target, computed from z - max. An output head is a linear layer
 * (COLUMN, PAD, NO_BIAS) and this, in a chain. For a mean over N tokens set every element of
 * grad_out to 1 / N.
 */

#include <tpp/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A cross-entropy. */
typedef struct tpp_loss_desc {
    uint32_t size;
    uint32_t flags; /**< 0 */
    int64_t vocab;  /**< classes, >= 1; logits beyond it are padding: probability and gradient 0 */
} tpp_loss_desc;

/**
 * A vocabulary-parallel cross-entropy. call.targets [tokens]; no parameters.
 *
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_TOO_NEW; TPP_ERR_NO_MEMORY. Forward: TPP_ERR_RANGE for a
 *         target outside the vocabulary, on every rank, before anything is sent.
 *
 * Comm: forward two all-reduces, of tokens (largest logit) and 2 * tokens (sum and target);
 * backward none.
 * Memory: saved 3 * tokens elements. Since: 0.1.
 */
TPP_API tpp_status tpp_loss_create(tpp_layer **out, const tpp_layer_env *env,
                                   const tpp_loss_desc *desc);

#ifdef __cplusplus
}
#endif

#endif
