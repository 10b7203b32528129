/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/ref_gpt.h"

/* 0 for RMSNorm. */
static ref_real mean(int rms, int64_t n, const ref_real *x) {
    ref_real sum = 0;
    for (int64_t i = 0; i < n && !rms; i++)
        sum += x[i];
    return sum / (ref_real)n;
}

/* 1 / sqrt(variance + epsilon) of one row. */
static ref_real inverse_deviation(int rms, int64_t n, const ref_real *x, ref_real epsilon) {
    ref_real m = mean(rms, n, x);
    ref_real sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (x[i] - m) * (x[i] - m);
    return 1 / sqrtf128(sum / (ref_real)n + epsilon);
}

void ref_norm_forward(int64_t rows, int64_t cols, ref_real epsilon, const ref_norm *p,
                      const ref_real *x, ref_real *y) {
    for (int64_t r = 0; r < rows; r++) {
        const ref_real *row = x + r * cols;
        ref_real m = mean(p->rms, cols, row);
        ref_real s = inverse_deviation(p->rms, cols, row, epsilon);
        for (int64_t c = 0; c < cols; c++)
            y[r * cols + c] = (row[c] - m) * s * p->weight[c] + (p->bias ? p->bias[c] : 0);
    }
}

/* With n = (x - mean) s and g = dy * weight: dx = s (g - mean(g) - n mean(g n)); mean(g) comes from
 * the mean of x. */
static void row_gradient(int64_t cols, ref_real epsilon, const ref_norm *p, const ref_real *x,
                         const ref_real *dy, ref_real *dx) {
    const ref_real *weight = p->weight;
    ref_real m = mean(p->rms, cols, x);
    ref_real s = inverse_deviation(p->rms, cols, x, epsilon);
    ref_real mean_g = 0;
    ref_real mean_gn = 0;
    for (int64_t c = 0; c < cols; c++) {
        mean_g += p->rms ? 0 : dy[c] * weight[c] / (ref_real)cols;
        mean_gn += dy[c] * weight[c] * (x[c] - m) * s / (ref_real)cols;
    }
    for (int64_t c = 0; c < cols; c++)
        dx[c] = s * (dy[c] * weight[c] - mean_g - (x[c] - m) * s * mean_gn);
}

void ref_norm_backward(int64_t rows, int64_t cols, ref_real epsilon, const ref_norm *p,
                       const ref_real *x, const ref_real *dy, ref_real *dx, const ref_norm *grad) {
    for (int64_t c = 0; c < cols; c++) {
        grad->weight[c] = 0;
        if (grad->bias)
            grad->bias[c] = 0;
    }
    for (int64_t r = 0; r < rows; r++) {
        const ref_real *row = x + r * cols;
        const ref_real *d = dy + r * cols;
        ref_real m = mean(p->rms, cols, row);
        ref_real s = inverse_deviation(p->rms, cols, row, epsilon);
        for (int64_t c = 0; c < cols; c++) {
            grad->weight[c] += d[c] * (row[c] - m) * s;
            if (grad->bias)
                grad->bias[c] += d[c];
        }
        row_gradient(cols, epsilon, p, row, d, dx + r * cols);
    }
}
