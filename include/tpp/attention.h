/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_ATTENTION_H
#define TPP_ATTENTION_H

/**
 * @file attention.h
 * Multi-head self-attention, split over ranks by heads (Shoeybi et al. 2019, Megatron-LM, section
 * 3): Q, K and V are column-parallel, the output matrix is row-parallel. Query heads may share K/V
 * heads: grouped-query (Ainslie et al. 2023) and multi-query (Shazeer 2019) attention. Causal,
 * unless TPP_ATTENTION_FULL.
 *
 *     tpp_attention_desc d = {0};
 *     d.size = sizeof d;
 *     d.hidden = 64;
 *     d.heads = 4;                              // each rank has 4 / t of them
 *     tpp_attention_create(&layer, &env, &d);
 *     tpp_rope_desc rope = {0};
 *     rope.size = sizeof rope;
 *     rope.theta = 500000;
 *     d.rope = &rope;                           // rotary positions
 *     d.kv_heads = 2;                           // two query heads share a K/V head
 *     d.flags = TPP_ATTENTION_NO_BIAS;
 *     tpp_attention_create(&layer, &env, &d);   // as in Llama 3
 *
 * K/V heads and ranks. With R blocks (the number of ranks, unless env.blocks fixes it), kv_heads is
 * a multiple of R: each block has kv_heads / R; or R divides heads and is a multiple of kv_heads:
 * each K/V head is copied over R / kv_heads blocks after one another, every block with its own copy,
 * and their gradients are summed by tpp_layer_sum_copies (layer.h) once per step; else it is refused,
 * or with TPP_ENV_UNEVEN padded to a multiple of R.
 *
 * Before Q and K meet, each head of theirs may be normalised (QK-norm: RMSNorm over its columns, as
 * in Qwen3) and is then turned by its token's position (rotary positions). Position i of a sequence
 * is call.past + i, whatever the split.
 *
 * Computed in tiles of rows; no [seq, seq] matrix is kept, memory grows linearly with seq.
 */

#include <tpp/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How rotary positions are stretched beyond the length that a model was trained with. */
typedef int32_t tpp_rope_scaling;
enum {
    TPP_ROPE_PLAIN = 0,
    TPP_ROPE_LINEAR = 1, /**< every angle / factor */
    /** Slow pairs (fewer turns in original_positions than low_freq_factor) / factor, fast ones (more
     * than high_freq_factor) as they are, a straight line between the two (Llama 3.1) */
    TPP_ROPE_LLAMA3 = 2
};

/** Flags of tpp_rope_desc. */
enum {
    /** pair j is columns (2j, 2j + 1) (GPT-J, the paper) instead of (j, j + cols / 2) (GPT-NeoX,
     * and Llama's weights in Hugging Face's files) */
    TPP_ROPE_INTERLEAVED = 1
};

/** Rotary positions (Su et al. 2021, RoFormer): pair j of a head at position p is turned by the
 * angle p * theta^(-2j / cols). Angles are right to the last bits of float64 at every position. */
typedef struct tpp_rope_desc {
    uint32_t size;
    uint32_t flags; /**< TPP_ROPE_... */
    double theta;   /**< >= 1; 0: 10000 */
    int32_t cols;   /**< of a head that are turned, the first ones, an even number; 0: all */
    tpp_rope_scaling scaling;
    double factor;              /**< LINEAR, LLAMA3: >= 1 */
    double low_freq_factor;     /**< LLAMA3: > 0 */
    double high_freq_factor;    /**< LLAMA3: > low_freq_factor */
    int64_t original_positions; /**< LLAMA3: >= 1 */
} tpp_rope_desc;

/** How the ranks of env.context (layer.h) attend to the whole sequence. */
typedef int32_t tpp_context_kind;
enum {
    /** K and V go round the ring of ranks, and their gradients with them (Liu et al. 2023, Ring
     * Attention) */
    TPP_CONTEXT_RING = 0,
    /** each rank gets whole sequences of its share of the heads (Jacobs et al. 2023, DeepSpeed-Ulysses);
     * heads and kv_heads on a rank are multiples of the group's size */
    TPP_CONTEXT_ALL_TO_ALL = 1
};

/** Flags of tpp_attention_desc. */
enum {
    TPP_ATTENTION_NO_BIAS = 1,
    TPP_ATTENTION_QKV_BIAS = 2, /**< with NO_BIAS: Q, K and V have biases nevertheless (Qwen2) */
    TPP_ATTENTION_SEPARATE_QKV = 4, /**< three weights q, k, v also where one would do */
    /** RMSNorm of every head of Q and K, before rotary positions; implies SEPARATE_QKV */
    TPP_ATTENTION_QK_NORM = 8,
    TPP_ATTENTION_FULL = 16 /**< no causal mask: every token sees the whole sequence */
};

/** Attention. */
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
    tpp_context_kind context;  /**< with env.context only */
    const tpp_rope_desc *rope; /**< NULL: no rotary positions; copied */
    /** a query sees the keys after its own position - window alone (Mistral); 0: all */
    int64_t window;
    double norm_epsilon; /**< of QK-norm; 0: 1e-5 */
} tpp_attention_desc;

/**
 * Attention. Parameters: qkv.weight [hidden, 3 * heads * head_cols] with all of Q, then K, then V,
 * head by head; out.weight [heads * head_cols, hidden]; qkv.bias; out.bias. With fewer K/V heads,
 * or SEPARATE_QKV, there are, instead of qkv, q.weight [hidden, heads * head_cols], k.weight and
 * v.weight [hidden, kv_heads * head_cols], q.bias, k.bias, v.bias. QK-norm: q_norm.weight and
 * k_norm.weight [1, head_cols], of which every block has a copy. Scores are scaled by 1 /
 * sqrt(head_cols).
 *
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value, the rule and what is accepted);
 *         TPP_ERR_TOO_NEW; TPP_ERR_NO_MEMORY.
 *
 * Comm: forward one all-reduce of tokens * hidden (operator g), backward one of tokens * hidden
 * (operator f). TPP_ENV_SEQUENCE: forward one all-gather and one reduce-scatter of tokens * hidden,
 * backward two all-gathers and one reduce-scatter. Once per step, with copies: tpp_layer_sum_copies.
 * Over env.context of c ranks, where k = tokens * kv_heads * head_cols / t, copies of K/V heads
 * included, and q the same with heads:
 * ring: forward c - 1 messages of 2 k elements, backward 2 c - 1; all-to-all: forward c - 1 messages of
 * (q + 2 k) / c and c - 1 of q / c, backward c - 1 of (3 q + 2 k) / c and c - 1 of (q + 2 k) / c.
 * Memory: saved 2 * tokens * (heads + kv_heads) * head_cols / t + tokens * heads / t elements, where
 * kv_heads counts every copy; QK-norm: tokens * (heads + kv_heads) * (head_cols + 1) / t more.
 * Since: 0.1.
 */
TPP_API tpp_status tpp_attention_create(tpp_layer **out, const tpp_layer_env *env,
                                        const tpp_attention_desc *desc);

#ifdef __cplusplus
}
#endif

#endif
