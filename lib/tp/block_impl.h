/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_BLOCK_IMPL_H
#define TPP_TP_BLOCK_IMPL_H

/* What the two kinds of blocks share: block.c has attention and MLP one after the other and makes both
 * kinds, block_parallel.c has them side by side. */

#include "tp/drop.h"
#include "tp/part.h"

/* Children in this order. A parallel block may have no second norm: its MLP is then the third one. */
enum { TPP__NORM1, TPP__ATTENTION, TPP__NORM2, TPP__MLP, TPP__PARTS };

typedef struct tpp__block {
    tpp_layer base;
    int32_t parts; /* children: 4, or 3 with one norm */
    tpp__drop after_attention,
        after_mlp; /* of a parallel block: the first, behind the sum of both */
} tpp__block;

static inline const tpp__block *tpp__block_of(const tpp_layer *layer) {
    return (const tpp__block *)layer;
}

/* Elements of a matrix [rows of this rank, hidden]: what memory is made for; and the real ones. */
static inline int64_t tpp__block_room(const tpp_layer *block, int64_t tokens) {
    return tpp__in_room(block, tokens) * block->in_cols;
}
static inline int64_t tpp__block_elements(const tpp_layer *block, const tpp__work *work) {
    return work->rows * block->in_cols;
}

/* The work of a child with its own parameters and gradients. */
tpp__work tpp__block_child(const tpp_layer *block, const tpp__work *work, int32_t child);

/* y = x + what dropout leaves of y. */
void tpp__block_join(const tpp_layer *block, const tpp__work *work, const tpp__drop *drop,
                     const void *x, void *y);

extern const tpp__layer_ops tpp__block_parallel_ops;

#endif
