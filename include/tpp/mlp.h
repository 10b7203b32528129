/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_MLP_H
#define TPP_MLP_H

/**
 * @file mlp.h
 * The transformer's MLP, Z = act(X A + a) B + b, split over ranks: A by columns, B by rows (Shoeybi
 * et al. 2019, Megatron-LM, section 3): each rank applies the activation to its own columns, and
 * one sum at the end is all that is said.
 *
 *     tpp_mlp_desc d = {0};
 *     d.size = sizeof d;
 *     d.hidden = 64;
 *     tpp_mlp_create(&layer, &env, &d);         // 64 -> 256 -> 64, GeLU
 */

#include <tpp/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The function between the two matrices. */
typedef int32_t tpp_act;
enum {
    TPP_ACT_GELU_TANH = 1, /**< 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
    TPP_ACT_GELU_ERF = 2   /**< x Phi(x) = 0.5 x (1 + erf(x / sqrt(2))) */
};

/** Flags of tpp_mlp_desc. */
enum { TPP_MLP_NO_BIAS = 1 };

/** An MLP. */
typedef struct tpp_mlp_desc {
    uint32_t size;
    uint32_t flags;     /**< TPP_MLP_... */
    int64_t hidden;     /**< columns of X and Z, >= 1 */
    int64_t ffn;        /**< columns in between, a multiple of the blocks; 0: 4 * hidden */
    tpp_act act;        /**< 0: TPP_ACT_GELU_TANH */
    uint32_t reserved0; /**< 0 */
    double init_std;    /**< of A; 0: 0.02 */
    double out_std;     /**< of B; 0: init_std (GPT-2: init_std / sqrt(2 * layers)) */
} tpp_mlp_desc;

/**
 * An MLP. Parameters: up.weight [hidden, ffn], down.weight [ffn, hidden], up.bias [1, ffn],
 * down.bias [1, hidden].
 *
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value, the rule and what is accepted);
 *         TPP_ERR_TOO_NEW; TPP_ERR_NO_MEMORY.
 *
 * Comm: forward one all-reduce of tokens * hidden (operator g), backward one of tokens * hidden
 * (operator f).
 * Memory: saved 2 * tokens * ffn / t elements. Since: 0.1.
 */
TPP_API tpp_status tpp_mlp_create(tpp_layer **out, const tpp_layer_env *env,
                                  const tpp_mlp_desc *desc);

#ifdef __cplusplus
}
#endif

#endif
