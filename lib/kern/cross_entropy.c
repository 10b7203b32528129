/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/kern.h"
#include "kern/row.h"
#include "kern/vector.h"

#include <stdbool.h>

enum { PIECE = 256 };

#define REAL float
#define FN(name) name##_f32
#include "kern/cross_entropy.inc"
#undef REAL
#undef FN

#define REAL double
#define FN(name) name##_f64
#include "kern/cross_entropy.inc"

void tpp__kern_ce_max(tpp_dtype dtype, int64_t rows, int64_t cols, const void *z, int64_t ldz,
                      void *m) {
    if (cols == 0)
        return;
    if (dtype == TPP_F32)
        ce_max_f32(rows, cols, z, ldz, m);
    else
        ce_max_f64(rows, cols, z, ldz, m);
}

void tpp__kern_ce_sum(tpp_dtype dtype, int64_t rows, int64_t cols, const void *z, int64_t ldz,
                      const void *m, void *s) {
    if (dtype == TPP_F32)
        ce_sum_f32(rows, cols, z, ldz, m, s);
    else
        ce_sum_f64(rows, cols, z, ldz, m, s);
}

void tpp__kern_ce_grad(tpp_dtype dtype, int64_t rows, int64_t cols, const void *z, int64_t ldz,
                       const void *m, const void *s, const void *w, const int32_t *target,
                       int64_t first, void *dz, int64_t lddz) {
    if (dtype == TPP_F32)
        ce_grad_f32(rows, cols, z, ldz, m, s, w, target, first, dz, lddz);
    else
        ce_grad_f64(rows, cols, z, ldz, m, s, w, target, first, dz, lddz);
}
