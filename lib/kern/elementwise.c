/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/kern.h"
#include "kern/row.h"
#include "kern/vector.h"

#include "base/check.h"

/* Columns that are summed side by side. */
enum { PIECE = 256 };

#define REAL float
#define FN(name) name##_f32
#include "kern/elementwise.inc"
#undef REAL
#undef FN

#define REAL double
#define FN(name) name##_f64
#include "kern/elementwise.inc"

void tpp__kern_add(tpp_dtype dtype, int64_t n, const void *x, void *y) {
    if (dtype == TPP_F32)
        add_f32(n, x, y);
    else
        add_f64(n, x, y);
}

void tpp__kern_add_to(tpp_dtype dtype, int64_t n, const void *x, const void *z, void *y) {
    if (dtype == TPP_F32)
        add_to_f32(n, x, z, y);
    else
        add_to_f64(n, x, z, y);
}

void tpp__kern_bias_add(tpp_dtype dtype, int64_t rows, int64_t cols, const void *bias, void *y,
                        int64_t ldy) {
    if (dtype == TPP_F32)
        bias_add_f32(rows, cols, bias, y, ldy);
    else
        bias_add_f64(rows, cols, bias, y, ldy);
}

void tpp__kern_bias_grad(tpp_dtype dtype, int64_t rows, int64_t cols, const void *dy, int64_t lddy,
                         void *dbias) {
    if (dtype == TPP_F32)
        bias_grad_f32(rows, cols, dy, lddy, dbias);
    else
        bias_grad_f64(rows, cols, dy, lddy, dbias);
}

double tpp__kern_squares(tpp_dtype dtype, int64_t rows, int64_t cols, const void *x, int64_t ldx) {
    return dtype == TPP_F32 ? squares_f32(rows, cols, x, ldx) : squares_f64(rows, cols, x, ldx);
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
