/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_NORM_H
#define TPP_NORM_H

/**
 * @file norm.h
 * LayerNorm over the columns (Ba et al. 2016): y = (x - mean) / sqrt(var + epsilon) * weight +
 * bias; or RMSNorm (Zhang and Sennrich 2019): y = x / sqrt(mean(x^2) + epsilon) * weight. Every
 * rank computes it in full.
 *
 *     tpp_norm_desc d = {0};
 *     d.size = sizeof d;
 *     d.cols = 64;
 *     tpp_norm_create(&layer, &env, &d);
 */

#include <tpp/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What is computed. */
typedef int32_t tpp_norm_kind;
enum {
    TPP_NORM_LAYER = 0, /**< LayerNorm */
    TPP_NORM_RMS = 1    /**< RMSNorm, which has no bias */
};

/** Flags of tpp_norm_desc. */
enum { TPP_NORM_NO_BIAS = 1 };

/** A norm. */
typedef struct tpp_norm_desc {
    uint32_t size;
    uint32_t flags; /**< TPP_NORM_... */
    int64_t cols;   /**< columns, >= 1 */
    double epsilon; /**< 0: 1e-5 */
    tpp_norm_kind kind;
    uint32_t reserved0; /**< 0 */
} tpp_norm_desc;

/**
 * A norm. Parameters: weight [1, cols] (starts at 1) and, in a LayerNorm, bias [1, cols] (starts at
 * 0), whole on every rank.
 *
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_TOO_NEW; TPP_ERR_NO_MEMORY.
 *
 * Comm: none; TPP_ENV_SEQUENCE: tpp_layer_sum_copies once per step, because every block has a copy of
 * the parameters. Memory: saved 2 * tokens elements, RMSNorm tokens. Since: 0.1.
 */
TPP_API tpp_status tpp_norm_create(tpp_layer **out, const tpp_layer_env *env,
                                   const tpp_norm_desc *desc);

#ifdef __cplusplus
}
#endif

#endif
