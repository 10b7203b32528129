/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_LINEAR_H
#define TPP_LINEAR_H

/**
 * @file linear.h
 * Linear layers, split over ranks by columns or by rows of the weight (Shoeybi et al. 2019,
 * Megatron-LM, section 3).
 *
 *     tpp_linear_desc d = {0};
 *     d.size = sizeof d;
 *     d.kind = TPP_LINEAR_COLUMN;
 *     d.in = 64;
 *     d.out = 256;                              // this rank computes 256 / t columns
 *     tpp_linear_create(&layer, &env, &d);
 *
 * Y = X W + bias; X is [tokens, in], W is [in, out], row-major. COLUMN: every rank has all of X and
 * gets its own columns of Y; operator f in front. ROW: every rank has its own columns of X and gets
 * all of Y; operator g behind; the bias is added once, after the sum.
 */

#include <tpp/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How the weight is split. */
typedef int32_t tpp_linear_kind;
enum { TPP_LINEAR_COLUMN = 1, TPP_LINEAR_ROW = 2 };

/** Flags of tpp_linear_desc. */
enum {
    TPP_LINEAR_NO_BIAS = 1,
    /** COLUMN: pad `out` up to a multiple of the blocks, for an output head over a vocabulary:
     * Y is -infinity there, so that padding never wins an arg-max. grad_out must be zero there, as that of a loss is. (What TPP_ENV_UNEVEN
     * does for every layer; a ROW's `in` must then be zero there.) */
    TPP_LINEAR_PAD = 2
};

/** A linear layer. */
typedef struct tpp_linear_desc {
    uint32_t size;
    uint32_t flags;       /**< TPP_LINEAR_... */
    tpp_linear_kind kind; /**< COLUMN or ROW */
    uint32_t reserved0;   /**< 0 */
    int64_t in;           /**< columns of X over all ranks, >= 1; ROW: a multiple of the blocks */
    /** columns of Y over all ranks, >= 1; COLUMN: a multiple of the blocks, or padded */
    int64_t out;
    double init_std; /**< of the weight; 0: 0.02 */
} tpp_linear_desc;

/**
 * A column- or row-parallel linear layer. Parameters: weight [in, out], bias [1, out].
 *
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value, the rule and what is accepted);
 *         TPP_ERR_TOO_NEW; TPP_ERR_NO_MEMORY.
 *
 * Comm: COLUMN forward none, backward one all-reduce of tokens * in; ROW forward one all-reduce of
 * tokens * out, backward none. TPP_ENV_SEQUENCE: COLUMN forward one all-gather of tokens * in, backward
 * one and one reduce-scatter of as many; ROW forward one reduce-scatter of tokens * out, backward one
 * all-gather. Memory: saved none. Since: 0.1.
 */
TPP_API tpp_status tpp_linear_create(tpp_layer **out, const tpp_layer_env *env,
                                     const tpp_linear_desc *desc);

#ifdef __cplusplus
}
#endif

#endif
