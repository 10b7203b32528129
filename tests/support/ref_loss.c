/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/ref_gpt.h"

static ref_real largest(int64_t n, const ref_real *z) {
    ref_real most = z[0];
    for (int64_t i = 1; i < n; i++)
        most = z[i] > most ? z[i] : most;
    return most;
}

static ref_real sum_of_exp(int64_t n, const ref_real *z, ref_real most) {
    ref_real sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += expf128(z[i] - most);
    return sum;
}

void ref_loss_forward(int64_t rows, int64_t vocab, const ref_real *z, const int32_t *target,
                      ref_real *loss) {
    for (int64_t r = 0; r < rows; r++) {
        const ref_real *row = z + r * vocab;
        ref_real most = largest(vocab, row);
        loss[r] = logf128(sum_of_exp(vocab, row, most)) - (row[target[r]] - most);
    }
}

void ref_loss_backward(int64_t rows, int64_t vocab, const ref_real *z, const int32_t *target,
                       const ref_real *dloss, ref_real *dz) {
    for (int64_t r = 0; r < rows; r++) {
        const ref_real *row = z + r * vocab;
        ref_real most = largest(vocab, row);
        ref_real sum = sum_of_exp(vocab, row, most);
        for (int64_t c = 0; c < vocab; c++) {
            ref_real probability = expf128(row[c] - most) / sum;
            dz[r * vocab + c] = dloss[r] * (probability - (c == target[r] ? 1 : 0));
        }
    }
}
