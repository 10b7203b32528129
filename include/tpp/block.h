/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_BLOCK_H
#define TPP_BLOCK_H

/**
 * @file block.h
 * A pre-norm transformer block: x + attention(norm1(x)), then x + mlp(norm2(x)). By default of the
 * GPT-2 kind: LayerNorm, GeLU, biases everywhere.
 *
 *     tpp_block_desc d = {0};
 *     d.size = sizeof d;
 *     d.hidden = 64;
 *     d.heads = 4;
 *     tpp_block_create(&layer, &env, &d);
 *     d.norm = TPP_NORM_RMS;
 *     d.act = TPP_ACT_SWIGLU;
 *     d.flags = TPP_BLOCK_NO_BIAS;
 *     tpp_rope_desc rope = {0};
 *     rope.size = sizeof rope;
 *     d.rope = &rope;
 *     tpp_block_create(&layer, &env, &d);      // as in Llama
 *
 * Parallel (Wang and Komatsuzaki 2021, GPT-J; Chowdhery et al. 2022, PaLM): with TPP_BLOCK_PARALLEL a
 * block is x + attention(norm1(x)) + mlp(norm1(x)), or mlp(norm2(x)) with TPP_BLOCK_TWO_NORMS. What
 * attention and MLP give is added block by block before it is summed over ranks: one sum for both.
 */

#include <tpp/attention.h>
#include <tpp/dropout.h>
#include <tpp/recompute.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Flags of tpp_block_desc. */
enum {
    TPP_BLOCK_NO_BIAS = 1,       /**< no biases in norms, attention and MLP */
    TPP_BLOCK_SEPARATE_GATE = 2, /**< TPP_MLP_SEPARATE_GATE (mlp.h) */
    /* exceptions to NO_BIAS: the Q, K, V, the attention's output, the MLP have biases */
    TPP_BLOCK_QKV_BIAS = 4,
    TPP_BLOCK_OUT_BIAS = 8, /**< only together with QKV_BIAS */
    TPP_BLOCK_MLP_BIAS = 16,
    /* of the attention (attention.h) */
    TPP_BLOCK_SEPARATE_QKV = 32,
    TPP_BLOCK_QK_NORM = 64, /**< with the norms' epsilon */
    TPP_BLOCK_FULL = 128,
    TPP_BLOCK_PARALLEL = 256, /**< attention and MLP side by side: "Parallel" above */
    TPP_BLOCK_TWO_NORMS = 512 /**< with PARALLEL: the MLP has a norm of its own (GPT-NeoX) */
};

/** A block. */
typedef struct tpp_block_desc {
    uint32_t size;
    uint32_t flags;            /**< TPP_BLOCK_... */
    int64_t hidden;            /**< columns, >= 1 */
    int64_t ffn;               /**< of the MLP; 0: 4 * hidden */
    int32_t heads;             /**< a multiple of the blocks */
    int32_t act;               /**< tpp_act (mlp.h); 0: TPP_ACT_GELU_TANH */
    double epsilon;            /**< of the norms; 0: 1e-5 */
    double init_std;           /**< 0: 0.02 */
    double out_std;            /**< of the two matrices that feed the residual; 0: init_std */
    int32_t norm;              /**< tpp_norm_kind (norm.h); 0: TPP_NORM_LAYER */
    int32_t kv_heads;          /**< as in attention.h; 0: heads */
    const tpp_rope_desc *rope; /**< rotary positions; NULL: none; copied */
    int64_t window;            /**< as in attention.h; 0: none */
    int32_t head_cols;         /**< 0: hidden / heads, which must then be whole */
    int32_t context;           /**< tpp_context_kind (attention.h) */
    /** of what attention and MLP each give, before it is added (dropout.h: attn.dropout and
     * mlp.dropout behind env.name are the names); of a parallel block, of their sum (dropout); 0:
     * none */
    double dropout;
    /** what backward computes again; 0: nothing is; a parallel block has no selective */
    tpp_recompute recompute;
    uint32_t reserved0; /**< 0 */
} tpp_block_desc;

/**
 * A transformer block. Parameters: ln_1., attn., ln_2., mlp. and the names of norm.h, attention.h,
 * mlp.h; no ln_2. in a parallel block with one norm.
 *
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value, the rule and what is accepted);
 *         TPP_ERR_TOO_NEW; TPP_ERR_NO_MEMORY.
 *
 * Comm: forward two all-reduces of tokens * hidden, backward two; parallel: one and one, with two norms
 * one and two. TPP_ENV_SEQUENCE: forward two all-gathers and two reduce-scatters, backward four and
 * two; parallel: one and one, two and one; with two norms two and one, three and two. What recomputation
 * adds to backward: recompute.h.
 * Memory: saved that of its layers and 3 * tokens * hidden elements between them, parallel one for each
 * norm; with TPP_RECOMPUTE_SELECTIVE without that of attention, with TPP_RECOMPUTE_FULL none. Since: 0.1.
 */
TPP_API tpp_status tpp_block_create(tpp_layer **out, const tpp_layer_env *env,
                                    const tpp_block_desc *desc);

#ifdef __cplusplus
}
#endif

#endif
