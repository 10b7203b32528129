/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COST_H
#define TPP_COST_H

/**
 * @file cost.h
 * What a transformer model costs, from its numbers alone: parameters, floating-point operations,
 * bytes of weights, gradients, optimizer states, activations and K/V cache. Pure functions: no
 * allocation, no clock, no rank has to run. What ranks say to each other is told by cost_comm.h.
 *
 *     tpp_cost_model m = {0};
 *     m.size = sizeof m;
 *     tpp_cost_model_preset(&m, "llama2-70b");     // or by hand, or model.h: tpp_model_cost
 *     tpp_cost_params p = {0};
 *     p.size = sizeof p;
 *     tpp_cost_params_query(&m, &p);               // p.total: 68,976,648,192
 *     tpp_cost_part part = {0};
 *     part.size = sizeof part;
 *     part.flags = TPP_COST_PART_EMBEDDING;        // the first of 4 pipeline stages
 *     part.tp = 8, part.layers = 20;
 *     tpp_cost_states s = {0};
 *     s.size = sizeof s;
 *     tpp_cost_states_query(&m, &part, NULL, 2, 1, &s);  // 2 data-parallel ranks, ZeRO stage 1
 *     double gigabytes = (double)s.total / 1e9;
 *
 * Letters of formulas: b sequences of a micro-batch, s tokens of a sequence, T = b s, h hidden, a
 * heads, g K/V heads, d columns of a head, f width of the MLP, E experts of which a token visits k,
 * L layers, V vocabulary, t tensor-parallel ranks, c context-parallel ranks, p pipeline ranks, N
 * data-parallel ranks, e bytes of an activation, F operations per second, W bytes per second.
 *
 * Counts are exact 64-bit integers; what does not fit is TPP_ERR_OVERFLOW. Ratios are doubles.
 * Where ranks cannot share equally, the count is that of the rank with most.
 *
 * Sources: [N] Narayanan et al. 2021, arXiv 2104.04473; [K] Korthikanti et al. 2022, arXiv
 * 2205.05198; [Z] Rajbhandari et al. 2020 (ZeRO), arXiv 1910.02054.
 *
 * Threads: any, of all functions here.
 */

#include <tpp/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Flags of tpp_cost_model. Zero is GPT's kind: LayerNorm of two vectors, biases everywhere, an MLP
 * of two matrices, a head of its own. */
enum {
    TPP_COST_TIED = 1,            /**< the head uses the embedding's table */
    TPP_COST_GATED = 2,           /**< gate, up and down (SwiGLU, GeGLU) instead of up and down */
    TPP_COST_NO_BIAS = 4,         /**< no biases in attention and MLP */
    TPP_COST_QKV_BIAS = 8,        /**< NO_BIAS, but Q, K and V have */
    TPP_COST_RMS_NORM = 16,       /**< a norm has one vector of h numbers, not two */
    TPP_COST_QK_NORM = 32,        /**< a norm of d numbers for Q and one for K in every layer */
    TPP_COST_PARALLEL_BLOCK = 64, /**< attention and MLP side by side behind one norm (block.h) */
    TPP_COST_TWO_NORMS = 128,     /**< PARALLEL_BLOCK, but the MLP has a norm of its own */
    TPP_COST_OUT_BIAS = 256,      /**< NO_BIAS, but the attention's output has */
    TPP_COST_MLP_BIAS = 512,      /**< NO_BIAS, but the MLP has */
    TPP_COST_SHARED_GATE = 1024   /**< h numbers a layer weigh the shared experts (Qwen MoE) */
};

/** A model. Fields that are 0 have the default that is said. */
typedef struct tpp_cost_model {
    uint32_t size;
    uint32_t flags;     /**< TPP_COST_... */
    int64_t vocab;      /**< V, >= 1 */
    int64_t hidden;     /**< h, >= 1 */
    int64_t ffn;        /**< f, width of the MLP; 0: 4 * hidden */
    int64_t positions;  /**< learned positions, rows of their table; 0: none */
    int64_t window;     /**< a token sees so many tokens, itself among them; 0: all before it */
    int64_t expert_ffn; /**< width of one expert; 0: ffn */
    int64_t shared_ffn; /**< width of all shared experts together, visited by all; 0: none */
    int32_t layers;     /**< L, >= 1 */
    int32_t heads;      /**< a, >= 1 */
    int32_t kv_heads;   /**< g, divides heads; 0: heads */
    int32_t head_cols;  /**< d; 0: hidden / heads, which must then be whole */
    int32_t experts;    /**< E, experts of a layer; 0: no mixture of experts */
    int32_t experts_per_token; /**< k, 1 .. experts; 0 without experts */
    int32_t dense_layers;      /**< with experts: so many first layers have a plain MLP instead */
    int32_t window_first;      /**< layers before this one have no window */
} tpp_cost_model;

/**
 * A known model by its name: gpt2, gpt2-medium, gpt2-large, gpt2-xl; gpt3-175b, gpt-22b, gpt-530b,
 * gpt-1t (of [K], vocabulary 51200, 2048 positions); llama2-7b, llama2-13b, llama2-70b; llama3-8b,
 * llama3-70b, llama3-405b; mixtral-8x7b. Those with a checkpoint have exactly its number of
 * parameters.
 *
 * @param out size must be set; all else is overwritten.
 * @return TPP_OK; TPP_ERR_INVALID (no such name: the sentence lists all). Since: 0.1.
 */
TPP_API tpp_status tpp_cost_model_preset(tpp_cost_model *out, const char *name);

/** Name of preset `index`, from 0 on; NULL behind the last. Memory: static. Since: 0.1. */
TPP_API const char *tpp_cost_model_preset_name(int32_t index);

/** Numbers of parameters. */
typedef struct tpp_cost_params {
    uint32_t size;
    uint32_t flags;     /**< 0 */
    int64_t total;      /**< of the model; a tied table counts once */
    int64_t active;     /**< of them used for one token: all but E - k experts a layer */
    int64_t embedding;  /**< V h, and positions h */
    int64_t head;       /**< V h; 0 if tied */
    int64_t final_norm; /**< 2 h; RMS: h */
    int64_t attention;  /**< of a layer: h d (2 a + 2 g), biases (a + 2 g) d + h, QK norms 2 d */
    int64_t mlp;        /**< of a layer with a plain MLP: 2 h f, gated 3 h f, and biases; else 0 */
    int64_t moe;        /**< of a layer with experts: E of them, shared ones, router h E; else 0 */
    int64_t norms;      /**< of a layer: 2 norms, side by side 1 */
    /** weights that a token is multiplied with: those of `active`, and the head's table even if
     * tied, but no biases, norms, positions, embedding; forward is 2 T of it and the cores */
    int64_t matmul;
} tpp_cost_params;

/**
 * Count parameters. For GPT's kind, tied, with s positions, `total` less final_norm is [N] equation
 * 2: 12 L h^2 (1 + 13 / (12 h) + (V + s) / (12 L h)).
 *
 * @param out size must be set.
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value and the rule); TPP_ERR_OVERFLOW;
 *         TPP_ERR_TOO_NEW. Since: 0.1.
 */
TPP_API tpp_status tpp_cost_params_query(const tpp_cost_model *model, tpp_cost_params *out);

/** How many pairs of tokens attention's operations are counted for. */
typedef int32_t tpp_cost_mask;
enum {
    TPP_COST_MASK_HALF = 0, /**< causal, s^2 / 2 pairs: what is done, in the usual rounding */
    TPP_COST_MASK_FULL = 1, /**< s^2 pairs: [N], [K], PaLM's MFU */
    TPP_COST_MASK_EXACT = 2 /**< causal, s (s + 1) / 2 pairs, less with a window (only here) */
};

/** Floating-point operations of a micro-batch's forward, all ranks together; a multiplication and
 * an addition are two. The backward has twice as many. */
typedef struct tpp_cost_flops {
    uint32_t size;
    uint32_t flags;      /**< 0 */
    int64_t projections; /**< of a layer: 2 T h d (2 a + 2 g) */
    int64_t attention;   /**< of a layer (from window_first on): 4 b pairs a d, scores and values */
    int64_t mlp;         /**< of a layer with a plain MLP: 4 T h f, gated 6 T h f; else 0 */
    int64_t moe;         /**< of a layer with experts: k, shared ones, router 2 T h E; else 0 */
    int64_t head;        /**< 2 T h V, even if tied */
    int64_t forward;     /**< of the whole model */
    int64_t layers;      /**< of it, all layers: what full recomputation does again */
    int64_t cores;       /**< of it, `attention` of all layers: what selective does again */
} tpp_cost_flops;

/**
 * Count operations. A step takes 3 `forward` of each micro-batch, full recomputation `layers`
 * besides (add them up as doubles: a step of a large model has more than 2^63). With
 * TPP_COST_MASK_FULL that is [N] equation 3 and [K] equation 7. ([K] equation 8 counts the cores
 * that selective recomputation does again three times; once is what is done.)
 *
 * @param batch,seq b and s, >= 1. @param mask tpp_cost_mask. @param out size must be set.
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value and the rule); TPP_ERR_OVERFLOW;
 *         TPP_ERR_TOO_NEW. Since: 0.1.
 */
TPP_API tpp_status tpp_cost_flops_query(const tpp_cost_model *model, int64_t batch, int64_t seq,
                                        tpp_cost_mask mask, tpp_cost_flops *out);

/** Flags of tpp_cost_part. */
enum {
    TPP_COST_PART_EMBEDDING = 1, /**< it begins with the embedding */
    TPP_COST_PART_HEAD = 2       /**< it ends with the last norm and the head */
};

/** A part of a model on one tensor-parallel rank: a pipeline stage, or all of a pipeline rank. */
typedef struct tpp_cost_part {
    uint32_t size;
    uint32_t flags;         /**< TPP_COST_PART_... */
    int32_t tp;             /**< t; 0: 1 */
    int32_t layers;         /**< >= 0 */
    int32_t dense_layers;   /**< of these, those with a plain MLP in a model with experts */
    int32_t vocab_multiple; /**< the vocabulary is padded to a multiple of this times t; 0: 1 */
} tpp_cost_part;

/**
 * Parameters of a part on one rank. Divided by t: matrices, biases of columns (Q, K, V, gate, up),
 * every expert, the tables' rows (padded); a rank has max(g / t, 1) K/V heads. Whole: norms, biases
 * of rows (the attention's output, down), positions, the router. Embedding and tied head in one
 * part are one table, in two parts each has its own.
 *
 * @param out receives the number.
 * @return TPP_OK; TPP_ERR_INVALID (also where t does not divide heads or widths); TPP_ERR_OVERFLOW;
 *         TPP_ERR_TOO_NEW. Since: 0.1.
 */
TPP_API tpp_status tpp_cost_part_params(const tpp_cost_model *model, const tpp_cost_part *part,
                                        int64_t *out);

/** Bytes per parameter, each >= 0. All 0: mixed precision with Adam, 2 + 2 + 0 + 4 + 4 + 4 = 16. */
typedef struct tpp_cost_bytes {
    uint32_t size;
    uint32_t flags;    /**< 0 */
    int32_t weight;    /**< what products read */
    int32_t grad;      /**< 2, or 4 as in Megatron-LM: 18 in all */
    int32_t grad_copy; /**< a second copy of the gradient in another type */
    int32_t master;    /**< copy of the weight in float32 */
    int32_t momentum;  /**< first moment */
    int32_t variance;  /**< second moment */
} tpp_cost_bytes;

/** Bytes of model states on a rank. */
typedef struct tpp_cost_states {
    uint32_t size;
    uint32_t flags;    /**< 0 */
    int64_t params;    /**< P, parameters on this rank before they are shared out among N */
    int64_t weights;   /**< 2 P; ZeRO 3: 2 P / N */
    int64_t grads;     /**< gradient and its copy: 2 P; ZeRO 2 and 3: 2 P / N */
    int64_t optimizer; /**< master, momentum, variance: 12 P; ZeRO 1 to 3: 12 P / N */
    int64_t total;     /**< the sum of the three */
} tpp_cost_states;

/**
 * Bytes of weights, gradients and optimizer states ([Z] section 5). P / N is rounded up.
 *
 * @param bytes NULL: the default list. @param dp N, >= 1. @param zero ZeRO stage, 0 .. 3.
 * @param out   size must be set.
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value and the rule); TPP_ERR_OVERFLOW;
 *         TPP_ERR_TOO_NEW. Since: 0.1.
 */
TPP_API tpp_status tpp_cost_states_query(const tpp_cost_model *model, const tpp_cost_part *part,
                                         const tpp_cost_bytes *bytes, int64_t dp, int32_t zero,
                                         tpp_cost_states *out);

/** The same of `params` parameters, >= 0. Since: 0.1. */
TPP_API tpp_status tpp_cost_states_of(int64_t params, const tpp_cost_bytes *bytes, int64_t dp,
                                      int32_t zero, tpp_cost_states *out);

/** Flags of tpp_cost_shape. */
enum {
    /** sequence parallelism: norms, dropout and residuals have ceil(T / t) tokens on a rank */
    TPP_COST_SEQUENCE = 1,
    TPP_COST_NO_DROPOUT = 2, /**< no dropout, so no masks */
    TPP_COST_SCORES = 4,     /**< scores are kept: no flash attention */
    TPP_COST_KEEP_SILU = 8,  /**< a gated MLP keeps the activated gate too */
    /** context parallelism exchanges heads (TPP_CONTEXT_ALL_TO_ALL) instead of sending K and V
     * round a ring: for cost_comm.h */
    TPP_COST_EXCHANGE = 16
};

/** The work of a micro-batch on a rank. */
typedef struct tpp_cost_shape {
    uint32_t size;
    uint32_t flags;          /**< TPP_COST_SEQUENCE, .. */
    int64_t batch;           /**< b, >= 1 */
    int64_t seq;             /**< s of the whole sequence, >= 1 */
    int32_t tp;              /**< t; 0: 1 */
    int32_t cp;              /**< c, divides s; 0: 1 */
    tpp_recompute recompute; /**< in every layer */
    int32_t element_bytes;   /**< e; 0: 2 */
} tpp_cost_shape;

/** Bytes of activations that a rank keeps of a micro-batch from forward to backward. */
typedef struct tpp_cost_activations {
    uint32_t size;
    uint32_t flags;    /**< 0 */
    int64_t layer;     /**< of a layer with a plain MLP, as kept under `recompute`; else 0 */
    int64_t moe_layer; /**< of a layer with experts, likewise; else 0 */
    /* of what a layer has without recomputation */
    int64_t attention; /**< input, Q, K, V, heads' outputs, mask; QK norms' inputs */
    int64_t scores;    /**< (2 e + 1) a s^2 b / (c t), without dropout e; flash: 4 a T / (c t) */
    int64_t mlp;       /**< of a plain MLP: input, intermediates, mask; else 0 */
    int64_t moe;       /**< of experts; else 0 */
    int64_t norms;     /**< their inputs */
    /* and beside the layers */
    int64_t work;      /**< what recomputation makes again, of one layer at a time */
    int64_t embedding; /**< its mask */
    int64_t head;      /**< inputs of the last norm and of the head, float32 logits 4 T V / (c t) */
} tpp_cost_activations;

/**
 * Bytes of activations. In general, for T / c tokens: divided by t Q, K, V, the heads' outputs,
 * scores or (flash) the float32 log-sum-exp, logits, and 2 intermediates of f numbers (gated 3,
 * KEEP_SILU 4); whole, or with TPP_COST_SEQUENCE for a rank's own tokens, the inputs of norms, of
 * Q, K, V, of the MLP, and the masks of one byte. Experts: k intermediates of theirs and the shared
 * ones, the router's float32 scores 4 E, and k copies of the MLP's input; loads are taken as equal.
 * Side by side: one norm input, one mask, and with one norm one input for both.
 *
 * With e = 2, f = 4 h, g = a, two matrices, TPP_COST_SCORES this is [K] table 2 (t divides T):
 *
 * | flags | recompute | layer |
 * |---|---|---|
 * | 0 | none | s b h (10 + 24 / t + 5 a s / (h t)) |
 * | SEQUENCE | none | s b h (34 + 5 a s / h) / t |
 * | 0 | selective: scores are not kept | s b h (10 + 24 / t) |
 * | SEQUENCE | selective | 34 s b h / t |
 * | 0 | full: the layer's input alone | 2 s b h; SEQUENCE: 2 s b h / t |
 *
 * @param out size must be set.
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value and the rule); TPP_ERR_OVERFLOW;
 *         TPP_ERR_TOO_NEW. Since: 0.1.
 */
TPP_API tpp_status tpp_cost_activations_query(const tpp_cost_model *model,
                                              const tpp_cost_shape *shape,
                                              tpp_cost_activations *out);

/**
 * Bytes of K/V cache on a rank: 2 layers max(g / t, 1) d s b e, for all tokens whatever the window
 * is.
 *
 * @param layers        on the rank, 0 .. L. @param tp t; 0: 1.
 * @param batch,seq     b sequences of s tokens, >= 0.
 * @param element_bytes e; 0: 2. @param out receives the number.
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value and the rule); TPP_ERR_OVERFLOW;
 *         TPP_ERR_TOO_NEW. Since: 0.1.
 */
TPP_API tpp_status tpp_cost_kv_cache(const tpp_cost_model *model, int32_t layers, int32_t tp,
                                     int64_t batch, int64_t seq, int32_t element_bytes,
                                     int64_t *out);

#ifdef __cplusplus
}
#endif

#endif
