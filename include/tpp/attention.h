/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_ATTENTION_H
#define TPP_ATTENTION_H

/**
 * @file attention.h
 * Causal multi-head self-attention, split over ranks by heads (Shoeybi et al. 2019, Megatron-LM,
 * section 3): Q, K and V are column-parallel, the output matrix is row-parallel.
 *
 *     tpp_attention_desc d = {0};
 *     d.size = sizeof d;
 *     d.hidden = 64;
 *     d.heads = 4;                              // each rank has 4 / t of them
 *     tpp_attention_create(&layer, &env, &d);
 *
 * Computed in tiles of rows; no [seq, seq] matrix is kept, memory grows linearly with seq.
 */

#include <tpp/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Flags of tpp_attention_desc. */
enum { TPP_ATTENTION_NO_BIAS = 1 };

/** Causal multi-head attention. */
typedef struct tpp_attention_desc {
    uint32_t size;
    uint32_t flags;    /**< TPP_ATTENTION_... */
    int64_t hidden;    /**< columns of the input and the output, >= 1 */
    int32_t heads;     /**< query heads over all ranks, a multiple of the blocks */
    int32_t head_cols; /**< columns of a head; 0: hidden / heads, which must then be whole */
    double init_std;   /**< of the QKV weight; 0: 0.02 */
    double out_std;    /**< of the output weight; 0: init_std */
} tpp_attention_desc;

/**
 * Causal multi-head attention. Parameters: qkv.weight [hidden, 3 * heads * head_cols] with all of
 * Q, then K, then V, head by head; out.weight [heads * head_cols, hidden]; qkv.bias; out.bias.
 * Scores are scaled by 1 / sqrt(head_cols).
 *
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value, the rule and what is accepted);
 *         TPP_ERR_TOO_NEW; TPP_ERR_NO_MEMORY.
 *
 * Comm: forward one all-reduce of tokens * hidden (operator g), backward one of tokens * hidden
 * (operator f).
 * Memory: saved 4 * tokens * heads * head_cols / t + tokens * heads / t elements. Since: 0.1.
 */
TPP_API tpp_status tpp_attention_create(tpp_layer **out, const tpp_layer_env *env,
                                        const tpp_attention_desc *desc);

#ifdef __cplusplus
}
#endif

#endif
