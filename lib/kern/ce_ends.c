/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/ce_ends.h"

#include <math.h>

#define REAL float
#define NAME(x) x##_f32
#define LOG logf
#include "kern/ce_ends.inc"
#undef REAL
#undef NAME
#undef LOG
#define REAL double
#define NAME(x) x##_f64
#define LOG log
#include "kern/ce_ends.inc"

void tpp__kern_ce_start(tpp_dtype dtype, int64_t rows, void *m, void *target) {
    if (dtype == TPP_F32)
        start_f32(rows, m, target);
    else
        start_f64(rows, m, target);
}

void tpp__kern_ce_pick(tpp_dtype dtype, int64_t rows, int64_t cols, const void *z, int64_t ldz,
                       const void *m, const int32_t *ids, int64_t first, void *target) {
    if (dtype == TPP_F32)
        pick_f32(rows, cols, z, ldz, m, ids, first, target);
    else
        pick_f64(rows, cols, z, ldz, m, ids, first, target);
}

void tpp__kern_ce_loss(tpp_dtype dtype, int64_t rows, const void *sum, const void *target,
                       void *loss) {
    if (dtype == TPP_F32)
        loss_f32(rows, sum, target, loss);
    else
        loss_f64(rows, sum, target, loss);
}
