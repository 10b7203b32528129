/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/ref_gpt.h"

void ref_transpose(int64_t rows, int64_t cols, const ref_real *x, ref_real *y) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            y[c * rows + r] = x[r * cols + c];
}

void ref_head_forward(int64_t rows, int64_t hidden, int64_t vocab, const ref_real *x,
                      const ref_real *table, ref_real *z) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t v = 0; v < vocab; v++) {
            ref_real sum = 0;
            for (int64_t i = 0; i < hidden; i++)
                sum += x[r * hidden + i] * table[v * hidden + i];
            z[r * vocab + v] = sum;
        }
}

void ref_head_backward(int64_t rows, int64_t hidden, int64_t vocab, const ref_real *x,
                       const ref_real *table, const ref_real *dz, ref_real *dx, ref_real *dtable) {
    for (int64_t i = 0; i < rows * hidden; i++)
        dx[i] = 0;
    for (int64_t i = 0; i < vocab * hidden; i++)
        dtable[i] = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t v = 0; v < vocab; v++)
            for (int64_t i = 0; i < hidden; i++) {
                dx[r * hidden + i] += dz[r * vocab + v] * table[v * hidden + i];
                dtable[v * hidden + i] += dz[r * vocab + v] * x[r * hidden + i];
            }
}
