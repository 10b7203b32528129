/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_ATTENTION_IMPL_H
#define TPP_TP_ATTENTION_IMPL_H

/* What the files of attention share: attention.c makes the projections, attention_turn.c what is done
 * to Q and K before they meet (QK-norm, rotary positions), attention_heads.c what is done head by
 * head, attention_cache.c where keys and values are kept; attention_desc.c reads the descriptor,
 * attention_new.c makes the layer.
 *
 * Q, K and V come from one product, with the three sections side by side in each block, or from
 * three: with fewer K/V heads sections of different widths would not fit one shard map. */

#include "tp/layer_impl.h"
#include "tp/rope.h"

#include <tpp/attention.h>

enum { TPP__Q, TPP__K, TPP__V, TPP__QKV };

typedef struct tpp__attention_layer {
    tpp_layer base;
    int32_t projections; /* 1: Q, K and V in one; 3: each its own */
    int64_t heads;       /* of this rank */
    int64_t kv_heads;    /* of this rank, one for each copy */
    int32_t copies;      /* blocks that hold the same K/V head */
    int64_t head_cols;
    bool full;
    int64_t window;
    int32_t context; /* tpp_context_kind */
    bool normed;     /* Q and K by a norm of each head */
    double epsilon;
    tpp__rope rope;
    /* numbers of the parameters, or TPP__NO_PARAM */
    int32_t weight[TPP__QKV], bias[TPP__QKV], norm[2], out, out_bias;
} tpp__attention_layer;

/* Q, K and V of all tokens, or their gradients: one contiguous matrix per projection. */
typedef struct tpp__projected {
    char *matrix[TPP__QKV];
} tpp__projected;

/* What forward leaves for backward; lse is the log-sum-exp of each row of scores, [heads, tokens]. */
typedef struct tpp__attention_saved {
    tpp__projected qkv; /* as they meet */
    tpp__projected raw; /* with QK-norm: Q and K before it */
    char *rstd[2];      /* of Q's and of K's heads, [tokens, heads] */
    char *heads;        /* the heads' outputs side by side */
    char *lse;
} tpp__attention_saved;

/* Reads and checks the caller's structs; all defaults are filled in. rope.cols = 0: none. */
tpp_status tpp__attention_read(const tpp_attention_desc *given, tpp_attention_desc *desc,
                               tpp_rope_desc *rope);
/* The rule for heads and blocks: query and K/V heads over all ranks, padding included (whole groups of
 * heads that share a K/V head). */
tpp_status tpp__attention_split_heads(const tpp_layer *layer, const tpp_attention_desc *desc,
                                      int64_t *heads, int64_t *kv_heads);

/* Columns of projection `index`, and of the heads' outputs, on this rank. */
int64_t tpp__attention_cols(const tpp_layer *layer, int32_t index);
int64_t tpp__attention_heads_cols(const tpp_layer *layer);

tpp__projected tpp__attention_projected(const tpp_layer *layer, int64_t tokens, tpp__arena *arena);

/* The part of head `number` of Q, K or V (`section`, each with its own heads) at row `row`. */
typedef struct tpp__place {
    char *at;
    int64_t stride;
} tpp__place;
tpp__place tpp__attention_place(const tpp_layer *layer, const tpp__projected *projected,
                                int64_t row, int32_t section, int64_t number);
int64_t tpp__attention_section_heads(const tpp_layer *layer, int32_t section);

/* QK-norm and rotary positions. forward: raw to qkv (in place without a norm). backward: gradients of
 * qkv become those of raw in place; gradients of the norms' weights, [2][blocks * head_cols], are
 * written to `sums`. Scratch: tpp__attention_turn_scratch. */
void tpp__attention_turn_scratch(const tpp_layer *layer, tpp__arena *arena);
void tpp__attention_turn_forward(const tpp_layer *layer, const tpp__work *work,
                                 const tpp__attention_saved *saved);
void tpp__attention_turn_backward(const tpp_layer *layer, const tpp__work *work,
                                  const tpp__attention_saved *saved, const tpp__projected *grads,
                                  char *sums, tpp__arena scratch);

/* The cache: of each sequence K, then V, head by head, [cache_seq, head_cols]. Bytes of it; the keys
 * or values of a head; what a call brings, behind what it knows already. */
int64_t tpp__attention_cache_bytes(const tpp_layer *layer, int64_t batch, int64_t cache_seq);
tpp__place tpp__attention_cached(const tpp_layer *layer, const tpp__work *work, int64_t sequence,
                                 int32_t section, int64_t number);
void tpp__attention_cache_add(const tpp_layer *layer, const tpp__work *work,
                              const tpp__projected *projected);

/* Counts on `arena` what the calls below need of work->scratch: `seq` is that of
 * the keys. */
void tpp__attention_heads_scratch(const tpp_layer *layer, int64_t tokens, int64_t seq,
                                  tpp__arena *arena);

/* All heads of all sequences: their outputs and lse from qkv; the gradients of qkv from those of
 * the outputs. */
tpp_status tpp__attention_heads_forward(const tpp_layer *layer, const tpp__work *work,
                                        const tpp__attention_saved *saved);
tpp_status tpp__attention_heads_backward(const tpp_layer *layer, const tpp__work *work,
                                         const tpp__attention_saved *saved, const char *grad_heads,
                                         const tpp__projected *grads, tpp__arena scratch);

extern const tpp__layer_ops tpp__attention_ops;

#endif
