/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_ATTENTION_IMPL_H
#define TPP_TP_ATTENTION_IMPL_H

/* What the files of attention share: attention.c makes the projections, attention_heads.c does what
 * is done head by head, attention_new.c makes the layer.
 *
 * Q, K and V come from one product, with the three sections side by side in each block, or, with
 * fewer K/V heads, from three: sections of different widths would not fit one shard map. */

#include "tp/layer_impl.h"

#include <tpp/attention.h>

enum { TPP__Q, TPP__K, TPP__V, TPP__QKV };

typedef struct tpp__attention_layer {
    tpp_layer base;
    int32_t projections; /* 1: Q, K and V in one; 3: each its own */
    int64_t heads;       /* of this rank */
    int64_t kv_heads;    /* of this rank, one for each copy */
    int64_t head_cols;
} tpp__attention_layer;

/* Q, K and V of all tokens, or their gradients: one contiguous matrix per projection. */
typedef struct tpp__projected {
    char *matrix[TPP__QKV];
} tpp__projected;

/* What forward leaves for backward; lse is the log-sum-exp of each row of scores. */
typedef struct tpp__attention_saved {
    tpp__projected qkv;
    char *heads; /* the heads' outputs side by side */
    char *lse;
} tpp__attention_saved;

/* Columns of projection `index`, and of the heads' outputs, on this rank. */
int64_t tpp__attention_cols(const tpp_layer *layer, int32_t index);
int64_t tpp__attention_heads_cols(const tpp_layer *layer);

tpp__projected tpp__attention_projected(const tpp_layer *layer, int64_t tokens, tpp__arena *arena);

/* Counts on `arena` what the calls below need of work->scratch. */
void tpp__attention_heads_scratch(const tpp_layer *layer, int64_t seq, tpp__arena *arena);

/* All heads of all sequences: their outputs and lse from qkv; the gradients of qkv from those of
 * the outputs. */
tpp_status tpp__attention_heads_forward(const tpp_layer *layer, const tpp__work *work,
                                        const tpp__attention_saved *saved);
tpp_status tpp__attention_heads_backward(const tpp_layer *layer, const tpp__work *work,
                                         const tpp__attention_saved *saved, const char *grad_heads,
                                         const tpp__projected *grads, tpp__arena scratch);

extern const tpp__layer_ops tpp__attention_ops;

#endif
