/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/ref_gpt.h"

#include <stddef.h>

/* log(sum of exp), and the probabilities unless NULL. */
static ref_real log_sum_exp(int64_t n, const ref_real *z, ref_real *probability) {
    ref_real most = z[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        most = z[i] > most ? z[i] : most;
    for (int64_t i = 0; i < n; i++)
        sum += expf128(z[i] - most);
    for (int64_t i = 0; probability && i < n; i++)
        probability[i] = expf128(z[i] - most) / sum;
    return most + logf128(sum);
}

static ref_real wanted(const ref_loss *p, int64_t class, int32_t target) {
    ref_real hit = class == target ? 1 : 0;
    if (p->smoothing == 0)
        return hit;
    if (p->others)
        return hit != 0 ? 1 - p->smoothing : p->smoothing / (ref_real)(p->vocab - 1);
    return hit * (1 - p->smoothing) + p->smoothing / (ref_real)p->vocab;
}

static ref_real weight_of(const ref_loss *p, int64_t row, int32_t target) {
    if (p->ignores && target == p->ignore)
        return 0;
    return p->weight ? (ref_real)p->weight[row] : 1;
}

/* What a token's loss counts in the result. */
static ref_real share_of(int64_t rows, const ref_loss *p, int64_t row, const int32_t *target) {
    ref_real sum = (ref_real)p->weight_sum;
    for (int64_t r = 0; p->weight_sum == 0 && r < rows; r++)
        sum += weight_of(p, r, target[r]);
    ref_real own = weight_of(p, row, target[row]);
    if (p->reduction != REF_MEAN)
        return own;
    return sum != 0 ? own / sum : 0;
}

static ref_real token_loss(const ref_loss *p, const ref_real *z, int32_t target) {
    ref_real all = log_sum_exp(p->vocab, z, NULL), loss = p->z_loss * all * all;
    for (int64_t c = 0; c < p->vocab; c++)
        if (wanted(p, c, target) != 0)
            loss += wanted(p, c, target) * (all - z[c]);
    return loss;
}

void ref_loss_forward(int64_t rows, const ref_loss *p, const ref_real *z, const int32_t *target,
                      ref_real *loss) {
    loss[0] = p->reduction != REF_TOKENS ? 0 : loss[0];
    for (int64_t r = 0; r < rows; r++) {
        ref_real share = share_of(rows, p, r, target);
        ref_real own = share != 0 ? share * token_loss(p, z + r * p->vocab, target[r]) : 0;
        if (p->reduction == REF_TOKENS)
            loss[r] = own;
        else
            loss[0] += own;
    }
}

void ref_loss_backward(int64_t rows, const ref_loss *p, const ref_real *z, const int32_t *target,
                       const ref_real *dloss, ref_real *dz) {
    for (int64_t r = 0; r < rows; r++) {
        ref_real *row = dz + r * p->vocab, share = share_of(rows, p, r, target);
        ref_real slope = share * dloss[p->reduction == REF_TOKENS ? r : 0];
        ref_real all = log_sum_exp(p->vocab, z + r * p->vocab, row);
        for (int64_t c = 0; c < p->vocab; c++)
            row[c] = share == 0
                         ? 0
                         : slope * ((1 + 2 * p->z_loss * all) * row[c] - wanted(p, c, target[r]));
    }
}
