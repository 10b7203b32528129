/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_MODEL_H
#define TPP_MODEL_H

/**
 * @file model.h
 * A whole language model as plain numbers: embedding, blocks, last norm, output head. From it come
 * its number of parameters and the layers of any part of it, as for a pipeline stage. io.h fills it
 * from a Hugging Face config.json.
 *
 *     tpp_model_desc m = {0};
 *     m.size = sizeof m;
 *     m.vocab = 32000, m.hidden = 4096, m.ffn = 11008;
 *     m.layers = 32, m.heads = 32;
 *     tpp_model_family_set(&m, TPP_FAMILY_LLAMA);  // norms, activation, positions, biases
 *     int64_t numbers;
 *     tpp_model_params(&m, &numbers);              // 6,738,415,616
 *     tpp_model_part_desc d = {0};
 *     d.size = sizeof d;
 *     d.model = &m;
 *     d.first = 0, d.count = 16;                   // the first half: embedding and 16 blocks
 *     tpp_model_part_create(&layer, &env, &d);
 *
 * Zero is GPT-2's kind: LayerNorm, GeLU, biases everywhere; but positions, learned or rotary, are to
 * be chosen.
 */

#include <tpp/block.h>
#include <tpp/cost.h>
#include <tpp/head.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Whose names the tensors have in files (io.h). */
typedef int32_t tpp_family;
enum {
    TPP_FAMILY_GPT2 = 0,
    TPP_FAMILY_LLAMA = 1, /**< 1, 2, 3 to 3.3 */
    TPP_FAMILY_MISTRAL = 2,
    TPP_FAMILY_QWEN2 = 3, /**< and 2.5 */
    TPP_FAMILY_QWEN3 = 4
};

/** Flags of tpp_model_desc. */
enum {
    TPP_MODEL_TIED = 1 /**< the head uses the embedding's table (head.h) */
};

/** A model. */
typedef struct tpp_model_desc {
    uint32_t size;
    uint32_t flags;    /**< TPP_MODEL_... */
    int64_t vocab;     /**< tokens, >= 1 */
    int64_t hidden;    /**< columns, >= 1 */
    int64_t ffn;       /**< of the MLP; 0: 4 * hidden */
    int64_t positions; /**< longest sequence with learned positions; 0: none */
    int64_t
        max_positions; /**< longest sequence that it was made for; 0: not known; says nothing here */
    int64_t window;    /**< as in attention.h; 0: none */
    int32_t window_first; /**< blocks before this one have no window */
    int32_t layers;       /**< blocks, >= 1 */
    int32_t heads;        /**< >= 1 */
    int32_t kv_heads;     /**< divides heads; 0: heads */
    int32_t head_cols;    /**< columns of a head; 0: hidden / heads, which must then be whole */
    uint32_t block_flags; /**< TPP_BLOCK_... (block.h) */
    int32_t act;          /**< tpp_act (mlp.h); 0: TPP_ACT_GELU_TANH */
    int32_t norm;         /**< tpp_norm_kind (norm.h) */
    double epsilon;       /**< of the norms; 0: 1e-5 */
    double init_std;      /**< of all matrices but those that feed the residual; 0: 0.02 */
    double out_std;       /**< of those; 0: init_std / sqrt(2 * layers), as in GPT-2 */
    /* rotary positions, as in tpp_rope_desc (attention.h) */
    double rope_theta; /**< 0: none */
    double rope_factor;
    double rope_low_freq_factor;
    double rope_high_freq_factor;
    int64_t rope_original_positions;
    int32_t rope_cols; /**< 0: all of a head */
    tpp_rope_scaling rope_scaling;
    uint32_t rope_flags; /**< TPP_ROPE_... */
    tpp_family family;   /**< says nothing of the computation */
} tpp_model_desc;

/**
 * Set what a family has in common, and leave the sizes: family, block_flags, act, norm, epsilon,
 * rope_theta (10000, or 0 for GPT-2), and positions, 0 or, for GPT-2, max_positions.
 *
 * @param model its size must be set, and in GPT-2's case max_positions.
 * @return TPP_OK; TPP_ERR_INVALID for a family that is none.
 *
 * Threads: any. Comm: none. Since: 0.1.
 */
TPP_API tpp_status tpp_model_family_set(tpp_model_desc *model, tpp_family family);

/**
 * Number of parameters; a tied table counts once, padding and copies not at all.
 *
 * @param out receives the number.
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value and the rule); TPP_ERR_OVERFLOW;
 *         TPP_ERR_TOO_NEW.
 *
 * Threads: any. Comm: none. Since: 0.1.
 */
TPP_API tpp_status tpp_model_params(const tpp_model_desc *model, int64_t *out);

/**
 * A model in the words of cost.h, which tells what it costs.
 *
 * @param out size must be set.
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value and the rule); TPP_ERR_OVERFLOW;
 *         TPP_ERR_TOO_NEW.
 *
 * Threads: any. Comm: none. Since: 0.1.
 */
TPP_API tpp_status tpp_model_cost(const tpp_model_desc *model, tpp_cost_model *out);

/** Flags of tpp_model_part_desc. */
enum {
    /** Tied: where embedding and head are both in the part, there is one table for both, else each
     * has a copy ("Tied" in head.h). Without this flag each has a copy wherever it is. */
    TPP_MODEL_PART_ONE_TABLE = 1
};

/** Blocks of a model, with what belongs to its ends. */
typedef struct tpp_model_part_desc {
    uint32_t size;
    uint32_t flags; /**< TPP_MODEL_PART_... */
    const tpp_model_desc *model;
    int32_t first; /**< first block; 0: the embedding comes before it */
    int32_t count; /**< blocks, >= 1; first + count = layers: norm and head come behind them */
    /** the part with the head ends in this loss, fused with the head (head.h); its vocab may be 0.
     * NULL: it gives logits */
    const tpp_loss_desc *loss;
    int64_t head_block;      /**< tokens of a block of the fused head; 0: 256 */
    tpp_recompute recompute; /**< of every block (recompute.h); 0: nothing is computed again */
    uint32_t reserved0;      /**< 0 */
    double dropout; /**< of the embedding ("embed.dropout") and in blocks (dropout.h); 0: none */
} tpp_model_part_desc;

/**
 * The layers of a part of a model, as one chain. Their names: "embed.", "h.<block>.", "ln_f.",
 * "lm_head.".
 *
 * @param env  its name is not used.
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value and the rule); TPP_ERR_TOO_NEW;
 *         TPP_ERR_NO_MEMORY.
 *
 * Comm: that of its layers. Since: 0.1.
 */
TPP_API tpp_status tpp_model_part_create(tpp_layer **out, const tpp_layer_env *env,
                                         const tpp_model_part_desc *desc);

#ifdef __cplusplus
}
#endif

#endif
