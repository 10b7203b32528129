/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_ATTENTION_H
#define TPP_ATTENTION_H

/**
 * @file attention.h
 * Causal multi-head self-attention, split over ranks by heads (Shoeybi et al. 2019, Megatron-LM,
 * section 3): Q, K and V are column-parallel, the output matrix is row-parallel. Query heads may
 * share K/V heads: grouped-query (Ainslie et al. 2023) and multi-query (Shazeer 2019) attention.
 *
 *     tpp_attention_desc d = {0};
 *     d.size = sizeof d;
 *     d.hidden = 64;
 *     d.heads = 4;                              // each rank has 4 / t of them
 *     tpp_attention_create(&layer, &env, &d);
 *
 * K/V heads and ranks. With R blocks (the number of ranks, unless env.blocks fixes it), kv_heads is
 * a multiple of R: each block has kv_heads / R; or R is a multiple of kv_heads: each K/V head is
 * copied over R / kv_heads blocks after one another, every block with its own copy, and their
 * gradients are summed by tpp_layer_sum_copies (layer.h) once per step; else it is refused.
 *
 * Computed in tiles of rows; no [seq, seq] matrix is kept, memory grows linearly with seq.
 */

#include <tpp/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Flags of tpp_attention_desc. */
enum { TPP_ATTENTION_NO_BIAS = 1 };

/** Causal attention. */
typedef struct tpp_attention_desc {
    uint32_t size;
    uint32_t flags;    /**< TPP_ATTENTION_... */
    int64_t hidden;    /**< columns of the input and the output, >= 1 */
    int32_t heads;     /**< query heads over all ranks, a multiple of the blocks */
    int32_t head_cols; /**< columns of a head; 0: hidden / heads, which must then be whole */
    double init_std;   /**< of the QKV weight; 0: 0.02 */
    double out_std;    /**< of the output weight; 0: init_std */
    /** K/V heads over all ranks, divides heads; 0: heads. Query head i sees K/V head
     * i * kv_heads / heads */
    int32_t kv_heads;
    uint32_t reserved0; /**< 0 */
} tpp_attention_desc;

/**
 * Causal attention. Parameters: qkv.weight [hidden, 3 * heads * head_cols] with all of Q, then K,
 * then V, head by head; out.weight [heads * head_cols, hidden]; qkv.bias; out.bias. With fewer K/V
 * heads there are, instead of qkv, q.weight [hidden, heads * head_cols], k.weight and v.weight [hidden,
 * kv_heads * head_cols], q.bias, k.bias, v.bias. Scores are scaled by 1 / sqrt(head_cols).
 *
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value, the rule and what is accepted);
 *         TPP_ERR_TOO_NEW; TPP_ERR_NO_MEMORY.
 *
 * Comm: forward one all-reduce of tokens * hidden (operator g), backward one of tokens * hidden
 * (operator f). Once per step, with copies: tpp_layer_sum_copies.
 * Memory: saved 2 * tokens * (heads + kv_heads) * head_cols / t + tokens * heads / t elements, where
 * kv_heads counts every copy. Since: 0.1.
 */
TPP_API tpp_status tpp_attention_create(tpp_layer **out, const tpp_layer_env *env,
                                        const tpp_attention_desc *desc);

#ifdef __cplusplus
}
#endif

#endif
