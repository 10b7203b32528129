/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/kern.h"
#include "kern/row.h"
#include "kern/vector.h"

enum { PIECE = 256 };

#define REAL float
#define FN(name) name##_f32
#include "kern/norm_rows.inc"
#undef REAL
#undef FN

#define REAL double
#define FN(name) name##_f64
#include "kern/norm_rows.inc"

void tpp__kern_norm_forward(tpp_dtype dtype, int64_t rows, int64_t cols, double eps, const void *x,
                            const void *gamma, const void *beta, void *y, void *mean, void *rstd) {
    if (dtype == TPP_F32)
        forward_f32(rows, cols, eps, x, gamma, beta, y, mean, rstd);
    else
        forward_f64(rows, cols, eps, x, gamma, beta, y, mean, rstd);
}

void tpp__kern_norm_backward_input(tpp_dtype dtype, int64_t rows, int64_t cols, const void *x,
                                   const void *gamma, const void *mean, const void *rstd,
                                   const void *dy, void *dx) {
    if (dtype == TPP_F32)
        backward_input_f32(rows, cols, x, gamma, mean, rstd, dy, dx);
    else
        backward_input_f64(rows, cols, x, gamma, mean, rstd, dy, dx);
}

void tpp__kern_norm_backward_weight(tpp_dtype dtype, int64_t rows, int64_t cols, const void *x,
                                    const void *mean, const void *rstd, const void *dy,
                                    void *dgamma, void *dbeta) {
    if (dtype == TPP_F32)
        backward_weight_f32(rows, cols, x, mean, rstd, dy, dgamma);
    else
        backward_weight_f64(rows, cols, x, mean, rstd, dy, dgamma);
    if (dbeta)
        tpp__kern_bias_grad(dtype, rows, cols, dy, cols, dbeta);
}
