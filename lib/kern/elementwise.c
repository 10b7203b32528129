/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/by_type.h"
#include "kern/kern.h"
#include "kern/row.h"
#include "kern/vector.h"

#include "base/check.h"

/* Columns that are summed side by side. */
enum { PIECE = 256 };

#define TPP__TEMPLATE "kern/elementwise.inc"
#include "kern/each_type.inc"

void tpp__kern_add(tpp_dtype dtype, int64_t n, const void *x, void *y) {
    TPP__BY_TYPE(dtype, add, n, x, y);
}

void tpp__kern_add_to(tpp_dtype dtype, int64_t n, const void *x, const void *z, void *y) {
    TPP__BY_TYPE(dtype, add_to, n, x, z, y);
}

void tpp__kern_collect(tpp_dtype dtype, int64_t n, const void *x, void *sum) {
    TPP__BY_TYPE(dtype, collect, n, x, sum);
}

void tpp__kern_times(tpp_dtype dtype, int64_t n, double factor, const void *x, void *y) {
    TPP__BY_TYPE(dtype, times, n, factor, x, y);
}

void tpp__kern_add_times(tpp_dtype dtype, int64_t n, double factor, const void *x, void *y) {
    TPP__BY_TYPE(dtype, add_times, n, factor, x, y);
}

void tpp__kern_bias_add(tpp_dtype dtype, int64_t rows, int64_t cols, const void *bias, void *y,
                        int64_t ldy) {
    TPP__BY_TYPE(dtype, bias_add, rows, cols, bias, y, ldy);
}

void tpp__kern_bias_grad(tpp_dtype dtype, int64_t rows, int64_t cols, const void *dy, int64_t lddy,
                         void *dbias) {
    TPP__BY_TYPE(dtype, bias_grad, rows, cols, dy, lddy, dbias);
}

double tpp__kern_squares(tpp_dtype dtype, int64_t rows, int64_t cols, const void *x, int64_t ldx) {
    return TPP__OF_TYPE(dtype, squares, rows, cols, x, ldx);
}

void tpp__kern_copy(tpp_dtype dtype, int64_t rows, int64_t cols, const void *x, int64_t ldx,
                    void *y, int64_t ldy) {
    int64_t width = tpp__dtype_bytes(dtype);
    if (cols == 0)
        return;
    for (int64_t r = 0; r < rows; r++)
        memcpy((char *)y + r * ldy * width, (const char *)x + r * ldx * width,
               (size_t)(cols * width));
}
