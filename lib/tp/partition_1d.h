/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_PARTITION_1D_H
#define TPP_TP_PARTITION_1D_H

/* The six products of the one-dimensional (Megatron) partition. A rank holds `layer->count` of R
 * blocks, and every product is done block by block in the block's shape, so that its bits do not
 * depend on how many blocks a rank has. Sums over blocks follow a fixed binary tree. Matrices are
 * contiguous; `in` and `out` are this rank's sizes. */

#include "tp/layer_impl.h"

typedef struct tpp__linear_shape {
    int64_t tokens, in, out;
} tpp__linear_shape;

/* Columns of W on this rank: Y = X W (+ bias); dX partial, to be summed over ranks by operator
 * f; dW += X^T dY. */
tpp_status tpp__col_forward(const tpp_layer *layer, tpp__linear_shape s, const void *x,
                            const void *w, const void *bias, void *y);
tpp_status tpp__col_input(const tpp_layer *layer, tpp__linear_shape s, const void *dy,
                          const void *w, void *dx, tpp__arena scratch);
/* The same for several weights on one input: dX = sum of dY W^T over `count` of them, block by
 * block before blocks are summed. */
enum { TPP__OPERANDS = 5 }; /* at most */
typedef struct tpp__col_operand {
    int64_t out; /* columns of dy and w on this rank */
    const void *dy, *w;
} tpp__col_operand;
tpp_status tpp__col_input_all(const tpp_layer *layer, int64_t tokens, int64_t in,
                              const tpp__col_operand *operands, int32_t count, void *dx,
                              tpp__arena scratch);
tpp_status tpp__col_weight(const tpp_layer *layer, tpp__linear_shape s, const void *x,
                           const void *dy, void *dw, void *dbias);

/* Rows of W on this rank: Y partial, to be summed over ranks by operator g; dX = dY W^T; dW +=
 * X^T dY. */
tpp_status tpp__row_forward(const tpp_layer *layer, tpp__linear_shape s, const void *x,
                            const void *w, void *y, tpp__arena scratch);
/* The same for several products that are added: Y = sum of X W over `count` of them, likewise. */
typedef struct tpp__row_operand {
    int64_t in; /* columns of x and rows of w on this rank */
    const void *x, *w;
} tpp__row_operand;
tpp_status tpp__row_forward_all(const tpp_layer *layer, int64_t tokens, int64_t out,
                                const tpp__row_operand *operands, int32_t count, void *y,
                                tpp__arena scratch);
tpp_status tpp__row_input(const tpp_layer *layer, tpp__linear_shape s, const void *dy,
                          const void *w, void *dx);
tpp_status tpp__row_weight(const tpp_layer *layer, tpp__linear_shape s, const void *x,
                           const void *dy, void *dw, void *dbias);

/* Scratch of a sum over blocks whose result has `count` elements: counts on `arena`. */
void tpp__block_sum_scratch(const tpp_layer *layer, int64_t count, tpp__arena *arena);

#endif
