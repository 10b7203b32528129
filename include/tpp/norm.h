/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_NORM_H
#define TPP_NORM_H

/**
 * @file norm.h
 * LayerNorm over the columns (Ba et al. 2016): y = (x - mean) / sqrt(var + epsilon) * weight +
 * bias. Every rank computes it in full.
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

/** Flags of tpp_norm_desc. */
enum { TPP_NORM_NO_BIAS = 1 };

/** A LayerNorm. */
typedef struct tpp_norm_desc {
    uint32_t size;
    uint32_t flags; /**< TPP_NORM_... */
    int64_t cols;   /**< columns, >= 1 */
    double epsilon; /**< 0: 1e-5 */
} tpp_norm_desc;

/**
 * A LayerNorm. Parameters: weight [1, cols] (starts at 1), bias [1, cols] (starts at 0), whole on
 * every rank.
 *
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_TOO_NEW; TPP_ERR_NO_MEMORY.
 *
 * Comm: none. Memory: saved 2 * tokens elements. Since: 0.1.
 */
TPP_API tpp_status tpp_norm_create(tpp_layer **out, const tpp_layer_env *env,
                                   const tpp_norm_desc *desc);

#ifdef __cplusplus
}
#endif

#endif
