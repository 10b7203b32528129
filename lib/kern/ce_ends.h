/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_KERN_CE_ENDS_H
#define TPP_KERN_CE_ENDS_H

#include <tpp/base.h>

/* The per-token ends of a cross-entropy; the passes over the logits are in kern.h. `target` holds z[target] - m.
 * start: m = -infinity, target = 0. pick: where the target lies in this block of columns, target = z - m.
 * loss: log(sum) - target. */
void tpp__kern_ce_start(tpp_dtype dtype, int64_t rows, void *m, void *target);
void tpp__kern_ce_pick(tpp_dtype dtype, int64_t rows, int64_t cols, const void *z, int64_t ldz,
                       const void *m, const int32_t *ids, int64_t first, void *target);
void tpp__kern_ce_loss(tpp_dtype dtype, int64_t rows, const void *sum, const void *target,
                       void *loss);

#endif
