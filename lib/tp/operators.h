/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_OPERATORS_H
#define TPP_TP_OPERATORS_H

/* The two operators of tensor parallelism (Shoeybi et al. 2019, Megatron-LM, section 3).
 *   f: forward identity, backward all-reduce. Stands before column-parallel weights.
 *   g: forward all-reduce, backward identity. Stands behind row-parallel weights.
 * Only the halves that do something have a function. Sums follow the fixed tree over ranks, which
 * continues the tree over a rank's blocks (partition_1d.c): that is what makes bits equal for every
 * number of ranks. */

#include "tp/layer_impl.h"

/* f backward: start the sum of `grad` over ranks, in place, so that it runs beside the weight
 * gradients; finish it before `grad` is read. finish also takes the status of what was done in
 * between: after a failure the sum is still waited for, because its request and buffer are about to
 * go. An empty request is finished at once. */
tpp_status tpp__f_backward_start(const tpp_layer *layer, void *grad, int64_t count,
                                 tpp_request *request);
tpp_status tpp__f_backward_finish(tpp_request *request, tpp_status status);

/* g forward: sum `out` over ranks, in place. */
tpp_status tpp__g_forward(const tpp_layer *layer, void *out, int64_t count);

#endif
