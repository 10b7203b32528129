/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_KERN_CROSS_ENTROPY_H
#define TPP_KERN_CROSS_ENTROPY_H

#include <tpp/base.h>

/* Cross-entropy over a vocabulary that is cut into blocks of columns. Passes over a block's logits
 * give numbers per token, which are added up over blocks; the ends make loss and gradient of them.
 * z - m is computed first, so that -inf and 1e8 are right; all of a block may be -inf.
 *
 * With the largest logit m, s = sum of exp(z - m), l = m + log(s) and a target t, a token's loss is
 *   log(s) - hit * (z[t] - m) - each * sum of (z - m) + square * l^2
 * and its gradient by z[c] is
 *   (1 + 2 * square * l) * exp(z[c] - m) / s - each - (c == t ? hit : 0).
 * Label smoothing is in hit and each, z-loss in square. */
typedef struct tpp__ce_rule {
    double hit, each, square;
} tpp__ce_rule;

typedef struct tpp__ce_block {
    tpp_dtype dtype;
    int64_t rows, cols; /* tokens; columns that are no padding */
    const void *z;
    int64_t ldz;
    int64_t first; /* class of column 0 */
} tpp__ce_block;

/* m[r] = max(m[r], largest of the row), NaN of a row of NaN; a start is -infinity. */
void tpp__kern_ce_start(tpp_dtype dtype, int64_t rows, void *m);
void tpp__kern_ce_max(const tpp__ce_block *block, void *m);

/* sum[r] = sum of exp(z - m[r]); shifted[r] = sum of z - m[r], or NULL. Where m[r] is -infinity the
 * block holds nothing else: sum is 0, and shifted is -infinity unless there is no column. */
void tpp__kern_ce_sum(const tpp__ce_block *block, const void *m, void *sum, void *shifted);

/* Where the target lies in the block: target[r] = z[ids[r]] - m[r]; m NULL: z[ids[r]]. */
void tpp__kern_ce_pick(const tpp__ce_block *block, const void *m, const int32_t *ids, void *target);

/* When a block was summed from its own largest logit: as if it had been from m, which is not below it.
 * cols of the block; shifted or NULL. And target -= m. */
void tpp__kern_ce_move(tpp_dtype dtype, int64_t rows, int64_t cols, const void *own, const void *m,
                       void *sum, void *shifted);
void tpp__kern_ce_below(tpp_dtype dtype, int64_t rows, const void *m, void *target);

/* The first row of a weight other than 0 whose m is infinite; -1: none. */
int64_t tpp__kern_ce_lost(tpp_dtype dtype, int64_t rows, const void *m, const double *weight);

/* loss[r] = weight[r] * the token's loss; 0 where the weight is 0, whatever the logits are. loss may
 * be weight. shifted is not read when rule.each is 0. */
void tpp__kern_ce_loss(tpp_dtype dtype, int64_t rows, const tpp__ce_rule *rule, const void *m,
                       const void *sum, const void *target, const void *shifted,
                       const double *weight, double *loss);

/* dz[r, c] = w[r] * the token's gradient; 0 where w is 0, whatever the logits are. dz may be z. */
void tpp__kern_ce_grad(const tpp__ce_block *block, const tpp__ce_rule *rule, const void *m,
                       const void *sum, const void *w, const int32_t *ids, void *dz, int64_t lddz);

#endif
