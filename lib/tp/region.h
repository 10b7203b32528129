/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_REGION_H
#define TPP_TP_REGION_H

/* A tensor-parallel region: operator f, column-parallel products, what each rank does with its own
 * columns, a row-parallel product, operator g. An MLP is one, and so is attention: each has a table of
 * what is between f and g, and region.c does what is said to other ranks, the bias behind g and the
 * order of it all. A region may also have two sides, whose row-parallel products are added block by
 * block before anything is summed over blocks and ranks: so a block's attention and MLP share one sum
 * (block_parallel.c). */

#include "tp/operators.h"
#include "tp/partition_1d.h"

/* What is between f and g. work->in and work->grad_out hold all tokens. */
struct tpp__region_ops {
    /* saved, split, and of scratch what is needed beside split */
    void (*needs)(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs);
    tpp_status (*forward)(const tpp_layer *layer,
                          const tpp__work *work); /* up to what `out` tells */
    tpp__row_operand (*out)(const tpp_layer *layer, const tpp__work *work);
    const void *(*bias)(const tpp_layer *layer, const tpp__work *work); /* behind g; NULL: none */
    tpp_status (*backward)(const tpp_layer *layer, const tpp__work *work); /* down to `in` */
    int32_t (*in)(const tpp_layer *layer, const tpp__work *work, tpp__col_operand *operands);
    tpp_status (*weight)(const tpp_layer *layer, const tpp__work *work);
    void (*cost)(const tpp_layer *layer, int32_t parts, tpp__cost *cost); /* all products */
};

enum { TPP__SIDES = 2 };

/* Sides with their works; in, saved, split, params and grads are each one's own. */
typedef struct tpp__region {
    const tpp_layer *layer; /* whose tokens, columns, ranks and scratch these are */
    int64_t tokens;
    tpp__arena scratch;
    int32_t count;
    const tpp_layer *side[TPP__SIDES];
    tpp__work work[TPP__SIDES];
    int32_t inputs;   /* 1: all sides have the input of the first one */
    void *whole_grad; /* rooms, for backward: of grad_out and of the inputs */
    void *whole_in[TPP__SIDES];
} tpp__region;

/* Scratch of a region's forward alone, and of all calls, when its sides need so much beside their split. */
int64_t tpp__region_forward_scratch(const tpp_layer *layer, int64_t tokens, int64_t inner,
                                    bool *overflow);
int64_t tpp__region_scratch(const tpp_layer *layer, int64_t tokens, int32_t inputs, int64_t inner,
                            bool *overflow);
/* Rooms in what is kept between the halves. */
void tpp__region_rooms(const tpp_layer *layer, int64_t tokens, tpp__region *region, int32_t inputs,
                       tpp__arena *split);

/* out NULL: nothing behind the sides' own columns is done. */
tpp_status tpp__region_forward(const tpp__region *region, void *out);
tpp_status tpp__region_backward(tpp__region *region, const void *grad_out,
                                void *const grad_in[TPP__SIDES], int32_t parts);

/* What is said to other ranks. */
void tpp__region_cost(const tpp_layer *layer, int32_t inputs, int32_t parts, tpp__cost *cost);

/* Calls of a layer that is a region by itself. */
void tpp__region_layer_needs(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs);
tpp_status tpp__region_layer_forward(const tpp_layer *layer, const tpp__work *work);
tpp_status tpp__region_layer_backward(const tpp_layer *layer, const tpp__work *work, int32_t parts);
void tpp__region_layer_cost(const tpp_layer *layer, int32_t parts, tpp__cost *cost);

#endif
