/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/cross_entropy.h"

#include "kern/by_type.h"
#include "kern/row.h"
#include "kern/vector.h"

#include <stdbool.h>

enum { PIECE = 256 };

#define TPP__TEMPLATE "kern/cross_entropy.inc"
#include "kern/each_type.inc"

void tpp__kern_ce_start(tpp_dtype dtype, int64_t rows, void *m) {
    TPP__BY_TYPE(dtype, ce_start, rows, m);
}

void tpp__kern_ce_max(const tpp__ce_block *block, void *m) {
    if (block->cols == 0)
        return;
    TPP__BY_TYPE(block->dtype, ce_max, block, m);
}

void tpp__kern_ce_sum(const tpp__ce_block *block, const void *m, void *sum, void *shifted) {
    TPP__BY_TYPE(block->dtype, ce_sum, block, m, sum, shifted);
}

void tpp__kern_ce_pick(const tpp__ce_block *block, const void *m, const int32_t *ids,
                       void *target) {
    TPP__BY_TYPE(block->dtype, ce_pick, block, m, ids, target);
}

void tpp__kern_ce_move(tpp_dtype dtype, int64_t rows, int64_t cols, const void *own, const void *m,
                       void *sum, void *shifted) {
    TPP__BY_TYPE(dtype, ce_move, rows, cols, own, m, sum, shifted);
}

void tpp__kern_ce_below(tpp_dtype dtype, int64_t rows, const void *m, void *target) {
    TPP__BY_TYPE(dtype, ce_below, rows, m, target);
}

int64_t tpp__kern_ce_lost(tpp_dtype dtype, int64_t rows, const void *m, const double *weight) {
    return TPP__OF_TYPE(dtype, ce_lost, rows, m, weight);
}

void tpp__kern_ce_loss(tpp_dtype dtype, int64_t rows, const tpp__ce_rule *rule, const void *m,
                       const void *sum, const void *target, const void *shifted,
                       const double *weight, double *loss) {
    TPP__BY_TYPE(dtype, ce_loss, rows, rule, m, sum, target, shifted, weight, loss);
}

void tpp__kern_ce_grad(const tpp__ce_block *block, const tpp__ce_rule *rule, const void *m,
                       const void *sum, const void *w, const int32_t *ids, void *dz, int64_t lddz) {
    TPP__BY_TYPE(block->dtype, ce_grad, block, rule, m, sum, w, ids, dz, lddz);
}
