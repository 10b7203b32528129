/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/ref_gpt.h"

#include <stdlib.h>

ref_real *ref_new(int64_t count) {
    ref_real *memory = calloc((size_t)(count > 0 ? count : 1), sizeof *memory);
    if (!memory)
        abort();
    return memory;
}

void ref_linear_forward(int64_t rows, int64_t in, int64_t out, const ref_real *x, const ref_real *w,
                        const ref_real *b, ref_real *y) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t o = 0; o < out; o++) {
            ref_real sum = b ? b[o] : 0;
            for (int64_t i = 0; i < in; i++)
                sum += x[r * in + i] * w[i * out + o];
            y[r * out + o] = sum;
        }
    }
}

/* dX = dY W^T */
static void input_gradient(int64_t rows, int64_t in, int64_t out, const ref_real *w,
                           const ref_real *dy, ref_real *dx) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < in; i++) {
            ref_real sum = 0;
            for (int64_t o = 0; o < out; o++)
                sum += dy[r * out + o] * w[i * out + o];
            dx[r * in + i] = sum;
        }
    }
}

/* dW = X^T dY */
static void weight_gradient(int64_t rows, int64_t in, int64_t out, const ref_real *x,
                            const ref_real *dy, ref_real *dw) {
    for (int64_t i = 0; i < in; i++) {
        for (int64_t o = 0; o < out; o++) {
            ref_real sum = 0;
            for (int64_t r = 0; r < rows; r++)
                sum += x[r * in + i] * dy[r * out + o];
            dw[i * out + o] = sum;
        }
    }
}

void ref_linear_backward(int64_t rows, int64_t in, int64_t out, const ref_real *x,
                         const ref_real *w, const ref_real *dy, ref_real *dx, ref_real *dw,
                         ref_real *db) {
    input_gradient(rows, in, out, w, dy, dx);
    weight_gradient(rows, in, out, x, dy, dw);
    for (int64_t o = 0; db && o < out; o++) {
        db[o] = 0;
        for (int64_t r = 0; r < rows; r++)
            db[o] += dy[r * out + o];
    }
}
