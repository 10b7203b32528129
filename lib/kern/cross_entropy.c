/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/cross_entropy.h"

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

void tpp__kern_ce_start(tpp_dtype dtype, int64_t rows, void *m) {
    if (dtype == TPP_F32)
        ce_start_f32(rows, m);
    else
        ce_start_f64(rows, m);
}

void tpp__kern_ce_max(const tpp__ce_block *block, void *m) {
    if (block->cols == 0)
        return;
    if (block->dtype == TPP_F32)
        ce_max_f32(block, m);
    else
        ce_max_f64(block, m);
}

void tpp__kern_ce_sum(const tpp__ce_block *block, const void *m, void *sum, void *shifted) {
    if (block->dtype == TPP_F32)
        ce_sum_f32(block, m, sum, shifted);
    else
        ce_sum_f64(block, m, sum, shifted);
}

void tpp__kern_ce_pick(const tpp__ce_block *block, const void *m, const int32_t *ids,
                       void *target) {
    if (block->dtype == TPP_F32)
        ce_pick_f32(block, m, ids, target);
    else
        ce_pick_f64(block, m, ids, target);
}

int64_t tpp__kern_ce_lost(tpp_dtype dtype, int64_t rows, const void *m, const double *weight) {
    return dtype == TPP_F32 ? ce_lost_f32(rows, m, weight) : ce_lost_f64(rows, m, weight);
}

void tpp__kern_ce_loss(tpp_dtype dtype, int64_t rows, const tpp__ce_rule *rule, const void *m,
                       const void *sum, const void *target, const void *shifted,
                       const double *weight, double *loss) {
    if (dtype == TPP_F32)
        ce_loss_f32(rows, rule, m, sum, target, shifted, weight, loss);
    else
        ce_loss_f64(rows, rule, m, sum, target, shifted, weight, loss);
}

void tpp__kern_ce_grad(const tpp__ce_block *block, const tpp__ce_rule *rule, const void *m,
                       const void *sum, const void *w, const int32_t *ids, void *dz, int64_t lddz) {
    if (block->dtype == TPP_F32)
        ce_grad_f32(block, rule, m, sum, w, ids, dz, lddz);
    else
        ce_grad_f64(block, rule, m, sum, w, ids, dz, lddz);
}
