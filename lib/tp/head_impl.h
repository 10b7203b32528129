/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_HEAD_IMPL_H
#define TPP_TP_HEAD_IMPL_H

/* An output head, plain (head.c) and fused with its loss (head_loss.c, head_early.c, on head_steps.c).
 * The table is [vocab, hidden] by rows, so the products are those of a row-parallel layer seen from the
 * other side: what is its input gradient are the logits here, its output is the input gradient here. */

#include "tp/loss_rule.h"
#include "tp/partition_1d.h"

#include <tpp/head.h>

typedef struct tpp__head {
    tpp_layer base;
    int64_t vocab;
    int64_t rows;  /* of the table on this rank, padding included: columns of logits */
    int64_t block; /* fused: tokens of a step */
    tpp__loss_rule rule;
} tpp__head;

extern const tpp__layer_ops tpp__head_loss_ops, tpp__head_early_ops;

/* The table and its gradient: its own, or the embedding's. */
const void *tpp__head_table(const tpp_layer *layer, const tpp__work *work);
void *tpp__head_table_grad(const tpp_layer *layer, const tpp__work *work);

static inline tpp__linear_shape tpp__head_shape(const tpp_layer *layer, int64_t tokens) {
    return (tpp__linear_shape){tokens, ((const tpp__head *)layer)->rows, layer->in_cols};
}

/* A fused head. A step is a run of tokens whose logits are there at once: first .. first + count - 1. */
typedef struct tpp__head_step {
    int64_t first, count;
} tpp__head_step;
int64_t tpp__head_step_tokens(const tpp_layer *layer, int64_t tokens);
tpp__head_step tpp__head_step_at(const tpp_layer *layer, int64_t tokens, int64_t first);

/* Scratch. Of `sums` the numbers of block 0 and the targets come first, because they are what is
 * summed over ranks; then those of the other blocks. */
typedef struct tpp__head_scratch {
    char *largest;   /* [blocks, tokens] */
    char *sums;      /* [kinds, tokens], targets [tokens], [blocks - 1, kinds, tokens] */
    char *logits;    /* [step, rows] */
    int64_t vector;  /* bytes of one number per token */
    int32_t kinds;   /* 1, or 2 with smoothing */
    tpp__arena rest; /* of sums over blocks; tpp__head_scratch_count counts these too */
} tpp__head_scratch;
tpp__head_scratch tpp__head_scratch_take(const tpp_layer *layer, int64_t tokens, tpp__arena arena);
void tpp__head_scratch_count(const tpp_layer *layer, int64_t tokens, tpp__arena *arena);

/* Losses of all tokens of `work` step by step: weight[tokens] becomes loss[tokens], of each token the
 * largest logit and the sum of exponentials are kept. `first` is the token's number in messages. The
 * logits of the last step are still there. */
tpp_status tpp__head_losses(const tpp_layer *layer, const tpp__work *work, int64_t first,
                            double *weight, char *largest, char *sum, const tpp__head_scratch *s);

/* Logits of a step, made again. */
tpp_status tpp__head_logits(const tpp_layer *layer, const tpp__work *work, tpp__head_step at,
                            const tpp__head_scratch *s);

/* Logits of a step to their gradients, in place; padding becomes 0. largest, sum and slope are the
 * step's. */
void tpp__head_turn(const tpp_layer *layer, const int32_t *targets, tpp__head_step at,
                    const char *largest, const char *sum, const char *slope,
                    const tpp__head_scratch *s);

/* What gradients of a step's logits give: to grad_in [tokens, hidden], and added to table_grad; either
 * may be NULL. */
tpp_status tpp__head_products(const tpp_layer *layer, const tpp__work *work, tpp__head_step at,
                              const tpp__head_scratch *s, char *grad_in, char *table_grad);

#endif
