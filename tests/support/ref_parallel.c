/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/ref_gpt.h"

#include <stdlib.h>

/* to += factor * x; without a factor x. */
static void add(int64_t count, const ref_real *factor, const ref_real *x, ref_real *to) {
    for (int64_t i = 0; i < count; i++)
        to[i] += factor ? factor[i] * x[i] : x[i];
}

void ref_parallel_forward(const ref_size *size, const ref_block *p, const ref_real *x,
                          ref_real *y) {
    int64_t rows = size->batch * size->seq, count = rows * size->hidden;
    const ref_norm *second = p->norm_2.weight ? &p->norm_2 : &p->norm_1;
    ref_real *n = ref_new(count), *branch = ref_new(count);
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i];
    ref_norm_forward(rows, size->hidden, size->epsilon, &p->norm_1, x, n);
    ref_attention_forward(size, &p->attention, n, branch);
    add(count, p->drop[0], branch, y);
    ref_norm_forward(rows, size->hidden, size->epsilon, second, x, n);
    ref_mlp_forward(size, &p->mlp, n, branch);
    add(count, p->drop[1], branch, y);
    free(n);
    free(branch);
}

void ref_parallel_backward(const ref_size *size, const ref_block *p, const ref_real *x,
                           const ref_real *dy, ref_real *dx, const ref_block *grad) {
    int64_t rows = size->batch * size->seq, count = rows * size->hidden;
    int two = p->norm_2.weight != NULL;
    const ref_norm *second = two ? &p->norm_2 : &p->norm_1;
    ref_real *n = ref_new(count), *branch = ref_new(count), *dn = ref_new(2 * count);
    for (int64_t i = 0; i < count; i++)
        dx[i] = dy[i];

    add(count, p->drop[0], dy, branch);
    ref_norm_forward(rows, size->hidden, size->epsilon, &p->norm_1, x, n);
    ref_attention_backward(size, &p->attention, n, branch, dn, &grad->attention);
    for (int64_t i = 0; i < count; i++)
        branch[i] = 0;
    add(count, p->drop[1], dy, branch);
    ref_norm_forward(rows, size->hidden, size->epsilon, second, x, n);
    ref_mlp_backward(size, &p->mlp, n, branch, dn + count, &grad->mlp);

    if (!two)
        add(count, NULL, dn + count, dn);
    ref_norm_backward(rows, size->hidden, size->epsilon, &p->norm_1, x, dn, n, &grad->norm_1);
    add(count, NULL, n, dx);
    if (two) {
        ref_norm_backward(rows, size->hidden, size->epsilon, &p->norm_2, x, dn + count, n,
                          &grad->norm_2);
        add(count, NULL, n, dx);
    }
    free(n);
    free(branch);
    free(dn);
}
