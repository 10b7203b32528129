/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_HEAD_IMPL_H
#define TPP_TP_HEAD_IMPL_H

/* An output head, plain (head.c) and fused with its loss (head_loss.c). The table is [vocab, hidden] by
 * rows, so the products are those of a row-parallel layer seen from the other side: what is its input
 * gradient are the logits here, its output is the input gradient here. */

#include "tp/loss_rule.h"
#include "tp/partition_1d.h"

#include <tpp/head.h>

typedef struct tpp__head {
    tpp_layer base;
    int64_t vocab;
    int64_t rows;  /* of the table on this rank, padding included: columns of logits */
    int64_t block; /* fused: tokens of a block */
    tpp__loss_rule rule;
} tpp__head;

extern const tpp__layer_ops tpp__head_loss_ops;

/* The table and its gradient: its own, or the embedding's. */
const void *tpp__head_table(const tpp_layer *layer, const tpp__work *work);
void *tpp__head_table_grad(const tpp_layer *layer, const tpp__work *work);

static inline tpp__linear_shape tpp__head_shape(const tpp_layer *layer, int64_t tokens) {
    return (tpp__linear_shape){tokens, ((const tpp__head *)layer)->rows, layer->in_cols};
}

#endif
