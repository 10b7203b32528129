/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_OPERATORS_H
#define TPP_TP_OPERATORS_H

/* What ranks say to each other at the ends of a tensor-parallel region.
 *
 * Without sequence parallelism (Shoeybi et al. 2019, Megatron-LM, section 3):
 *   f: forward identity, backward all-reduce. Stands before column-parallel weights.
 *   g: forward all-reduce, backward identity. Stands behind row-parallel weights.
 * With it (Korthikanti et al. 2022, section 4.2.2), where outside of the region every rank has its rows
 * of the tokens alone (part.h):
 *   f: forward all-gather, backward reduce-scatter.
 *   g: forward reduce-scatter, backward all-gather.
 * Sums follow the fixed tree over ranks, which continues the tree over a rank's blocks
 * (partition_1d.c): that is what makes bits equal for every number of ranks.
 *
 * A "room" is memory for the rows of all ranks; it is NULL where none is needed because this rank has
 * them all: then what is gathered is the matrix itself, and what is summed is summed in place. */

#include "tp/part.h"

void *tpp__room_take(const tpp_layer *layer, int64_t tokens, int64_t cols, tpp__arena *arena);

/* f forward, g backward: all rows of x, this rank's rows [.., cols]. *whole is `room` or x. The start
 * returns an empty request where there is nothing to wait for. */
tpp_status tpp__gather_start(const tpp_layer *layer, int64_t tokens, int64_t cols, const void *x,
                             void *room, tpp_request *request);
tpp_status tpp__gather(const tpp_layer *layer, int64_t tokens, int64_t cols, const void *x,
                       void *room, const void **whole);

/* g forward: `out` = sum over ranks of `partial`, which is the room, or out itself. */
tpp_status tpp__g_forward(const tpp_layer *layer, int64_t tokens, int64_t cols, void *partial,
                          void *out);

/* f backward: start the sum of `partial` (the room, or grad itself) over ranks, so that it runs beside
 * the weight gradients; finish it before `grad` is read. An empty sum is finished at once. */
typedef struct tpp__sum {
    tpp_request request;
    const void *from; /* where the sum arrives; NULL: in its place */
    void *to;
    int64_t bytes;
} tpp__sum;
tpp_status tpp__f_backward_start(const tpp_layer *layer, int64_t tokens, int64_t cols,
                                 void *partial, void *grad, tpp__sum *sum);

/* These also take the status of what was done in between: after a failure what is under way is still
 * waited for, because its request and buffer are about to go. */
tpp_status tpp__wait_for(tpp_request *request, tpp_status status);
tpp_status tpp__f_backward_finish(tpp__sum *sum, tpp_status status);

#endif
