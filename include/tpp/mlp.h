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
 *     d.act = TPP_ACT_SWIGLU;
 *     d.ffn = 176;
 *     d.flags = TPP_MLP_NO_BIAS;
 *     tpp_mlp_create(&layer, &env, &d);         // as in Llama
 *
 * Gated activations (Shazeer 2020, GLU variants improve transformer): A is twice as wide, its first
 * half makes the gate, its second half what the gate lets through: Z = (act(X G + g) * (X U + u)) B
 * + b. The fused matrix [G | U] is two sections (shard.h): a rank holds the same columns of G and
 * of U, and a gathered tensor is [G | U] again, all of G first. With TPP_MLP_SEPARATE_GATE G and U
 * are two parameters, as in most files of weights; the result is the same but for rounding.
 */

#include <tpp/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The function between the two matrices. */
typedef int32_t tpp_act;
enum {
    TPP_ACT_GELU_TANH = 1, /**< 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
    TPP_ACT_GELU_ERF = 2,  /**< x Phi(x) = 0.5 x (1 + erf(x / sqrt(2))) */
    TPP_ACT_RELU = 3,      /**< max(x, 0); its slope at 0 is 0 */
    /** max(x, 0)^2 (So et al. 2021, Primer) */
    TPP_ACT_SQUARED_RELU = 4,
    TPP_ACT_SILU = 5, /**< x / (1 + exp(-x)), also called swish */
    /* gated ones */
    TPP_ACT_SWIGLU = 16, /**< SiLU(gate) * up */
    TPP_ACT_GEGLU = 17   /**< GELU_TANH(gate) * up */
};

/** Flags of tpp_mlp_desc. */
enum {
    TPP_MLP_NO_BIAS = 1,
    TPP_MLP_SEPARATE_GATE = 2 /**< gated only: gate and up are two matrices, not a fused one */
};

/** An MLP. */
typedef struct tpp_mlp_desc {
    uint32_t size;
    uint32_t flags; /**< TPP_MLP_... */
    int64_t hidden; /**< columns of X and Z, >= 1 */
    /** columns in between (of the gate and of up, each), a multiple of the blocks; 0: 4 * hidden;
     * fused gate and up: at most 2^30 - 1 */
    int64_t ffn;
    tpp_act act;        /**< 0: TPP_ACT_GELU_TANH */
    uint32_t reserved0; /**< 0 */
    double init_std;    /**< of A (G and U); 0: 0.02 */
    double out_std;     /**< of B; 0: init_std (GPT-2: init_std / sqrt(2 * layers)) */
} tpp_mlp_desc;

/**
 * An MLP. Parameters: up.weight [hidden, ffn], up.bias [1, ffn], down.weight [ffn, hidden],
 * down.bias [1, hidden]. Gated: up.weight [hidden, 2 * ffn] and up.bias [1, 2 * ffn] with all of
 * the gate, then all of up, each split by columns; or separate: gate.weight and up.weight
 * [hidden, ffn], gate.bias and up.bias [1, ffn].
 *
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value, the rule and what is accepted);
 *         TPP_ERR_TOO_NEW; TPP_ERR_NO_MEMORY.
 *
 * Comm: forward one all-reduce of tokens * hidden (operator g), backward one of tokens * hidden
 * (operator f). TPP_ENV_SEQUENCE: forward one all-gather and one reduce-scatter of tokens * hidden,
 * backward two all-gathers and one reduce-scatter.
 * Memory: saved 2 * tokens * ffn / t elements, gated 3 * tokens * ffn / t. Since: 0.1.
 */
TPP_API tpp_status tpp_mlp_create(tpp_layer **out, const tpp_layer_env *env,
                                  const tpp_mlp_desc *desc);

#ifdef __cplusplus
}
#endif

#endif
