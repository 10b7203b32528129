/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/by_type.h"
#include "kern/kern.h"
#include "kern/row.h"
#include "kern/vector.h"

enum { PIECE = 256 };

#define TPP__TEMPLATE "kern/norm_rows.inc"
#include "kern/each_type.inc"

void tpp__kern_norm_forward(tpp_dtype dtype, int64_t rows, int64_t cols, double eps, const void *x,
                            const void *gamma, const void *beta, void *y, void *mean, void *rstd) {
    TPP__BY_TYPE(dtype, forward, rows, cols, eps, x, gamma, beta, y, mean, rstd);
}

void tpp__kern_norm_backward_input(tpp_dtype dtype, int64_t rows, int64_t cols, const void *x,
                                   const void *gamma, const void *mean, const void *rstd,
                                   const void *dy, void *dx) {
    TPP__BY_TYPE(dtype, backward_input, rows, cols, x, gamma, mean, rstd, dy, dx);
}

void tpp__kern_norm_backward_weight(tpp_dtype dtype, int64_t rows, int64_t cols, const void *x,
                                    const void *mean, const void *rstd, const void *dy,
                                    void *dgamma, void *dbeta) {
    TPP__BY_TYPE(dtype, backward_weight, rows, cols, x, mean, rstd, dy, dgamma);
    if (dbeta)
        tpp__kern_bias_grad(dtype, rows, cols, dy, cols, dbeta);
}
