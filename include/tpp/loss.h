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
 *     d.flags = TPP_LOSS_IGNORE;
 *     d.ignore = -100;                     // targets that do not count
 *     d.reduction = TPP_LOSS_MEAN;
 *     tpp_loss_create(&layer, &env, &d);   // [tokens, vocab / t] to [1, 1]
 *
 * An output head is a head layer (head.h), which can also be fused with this so that the logits are
 * never held, or a linear layer (COLUMN, PAD, NO_BIAS), and this, in a chain.
 *
 * With l = log(sum_j exp(z_j)), computed from z - max, a token's loss is
 *
 *   weight * (l - sum_j q_j z_j + z_loss * l^2).
 *
 * q is 1 at the target and 0 elsewhere; with label smoothing e it is 1 - e at the target plus e /
 * vocab everywhere (Szegedy et al. 2016, section 7; as PyTorch), or, with TPP_LOSS_SMOOTH_OTHERS, 1 -
 * e at the target and e / (vocab - 1) at each other class. z_loss keeps l near 0 (Chowdhery et al.
 * 2022, PaLM, section 5: 1e-4). weight is call.weights, 1 without. Of an ignored token and of one
 * whose weight is 0, loss and gradient are 0 whatever its logits are.
 *
 * Mean over micro-batches. TPP_LOSS_MEAN divides by the sum of the weights of the call's tokens that
 * are not ignored (so without weights: by their number), or by call.weight_sum when that is not 0;
 * over no token, or a sum of 0, it is 0. Micro-batches may hold unequal numbers of tokens that count:
 * for the mean over a step, however it is cut, give every micro-batch the same weight_sum, that of
 * the whole step (tpp_loss_weight_sum), and grad_out = 1; the losses add up to the mean.
 *
 * Extremes. Logits of -infinity have probability 0, also where a rank has no others; a target of
 * -infinity gives the loss infinity. A row of nothing but -infinity, or with a +infinity, has no
 * loss: TPP_ERR_RANGE on all ranks. NaN gives NaN, as a sign that training has diverged.
 */

#include <tpp/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Flags of tpp_loss_desc. */
enum {
    TPP_LOSS_IGNORE = 1,       /**< tokens whose target is `ignore` do not count */
    TPP_LOSS_SMOOTH_OTHERS = 2 /**< smoothing is spread over the other classes alone */
};

/** What call.out is. */
typedef int32_t tpp_reduction;
enum {
    TPP_LOSS_TOKENS = 0, /**< [tokens, 1]: the loss of each token */
    TPP_LOSS_SUM = 1,    /**< [1, 1]: their sum */
    TPP_LOSS_MEAN = 2    /**< [1, 1]: their sum / the sum of weights ("Mean" above) */
};

/** A cross-entropy. */
typedef struct tpp_loss_desc {
    uint32_t size;
    uint32_t flags; /**< TPP_LOSS_... */
    int64_t vocab;  /**< classes, >= 1; logits beyond it are padding: probability and gradient 0 */
    int32_t ignore; /**< with TPP_LOSS_IGNORE: a class, or a number that is none, such as -100 */
    tpp_reduction reduction; /**< 0: TPP_LOSS_TOKENS */
    double smoothing;        /**< e, 0 <= e < 1; 0: none */
    double z_loss;           /**< coefficient of l^2, >= 0; 0: none */
} tpp_loss_desc;

/**
 * A vocabulary-parallel cross-entropy. call.targets [tokens], call.weights [tokens] or NULL, the same
 * on all ranks; no parameters. out and grad_out have info.out_rows rows.
 *
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_TOO_NEW; TPP_ERR_NO_MEMORY. Forward: TPP_ERR_RANGE for a
 *         target that is neither a class nor ignored and for a weight that is not finite, on every
 *         rank, before anything is sent; and as "Extremes" above says.
 *
 * Comm: forward two all-reduces, of tokens (largest logit) and 2 * tokens (sum and target), or 3 *
 * tokens with smoothing; backward none.
 * Memory: saved 2 * tokens elements. Since: 0.1.
 */
TPP_API tpp_status tpp_loss_create(tpp_layer **out, const tpp_layer_env *env,
                                   const tpp_loss_desc *desc);

/**
 * Sum of the weights of tokens that are not ignored: what TPP_LOSS_MEAN divides by.
 *
 * @param desc    of the loss.
 * @param targets [count]. @param weights [count], or NULL: all 1. @param count >= 0.
 * @param out     receives the sum.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_TOO_NEW; TPP_ERR_RANGE as in forward.
 *
 * Threads: any. Comm: none. Since: 0.1.
 */
TPP_API tpp_status tpp_loss_weight_sum(const tpp_loss_desc *desc, const int32_t *targets,
                                       const double *weights, int64_t count, double *out);

#ifdef __cplusplus
}
#endif

#endif
