/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/ref_gpt.h"

#include <stdlib.h>

static void multiply(const ref_real *factor, int64_t count, ref_real *x) {
    for (int64_t i = 0; factor && i < count; i++)
        x[i] *= factor[i];
}

/* n = norm_1(x), then middle = x + attention(n). */
static void first_half(const ref_size *size, const ref_block *p, const ref_real *x, ref_real *n,
                       ref_real *middle) {
    int64_t rows = size->batch * size->seq;
    ref_norm_forward(rows, size->hidden, size->epsilon, &p->norm_1, x, n);
    ref_attention_forward(size, &p->attention, n, middle);
    multiply(p->drop[0], rows * size->hidden, middle);
    for (int64_t i = 0; i < rows * size->hidden; i++)
        middle[i] += x[i];
}

void ref_block_forward(const ref_size *size, const ref_block *p, const ref_real *x, ref_real *y) {
    int64_t rows = size->batch * size->seq;
    ref_real *n = ref_new(rows * size->hidden);
    ref_real *middle = ref_new(rows * size->hidden);
    first_half(size, p, x, n, middle);
    ref_norm_forward(rows, size->hidden, size->epsilon, &p->norm_2, middle, n);
    ref_mlp_forward(size, &p->mlp, n, y);
    multiply(p->drop[1], rows * size->hidden, y);
    for (int64_t i = 0; i < rows * size->hidden; i++)
        y[i] += middle[i];
    free(n);
    free(middle);
}

void ref_block_backward(const ref_size *size, const ref_block *p, const ref_real *x,
                        const ref_real *dy, ref_real *dx, const ref_block *grad) {
    int64_t rows = size->batch * size->seq;
    int64_t count = rows * size->hidden;
    ref_real *n1 = ref_new(count);
    ref_real *n2 = ref_new(count);
    ref_real *middle = ref_new(count);
    ref_real *dn = ref_new(count);
    ref_real *dmiddle = ref_new(count);
    ref_real *dbranch = ref_new(count);
    first_half(size, p, x, n1, middle);
    ref_norm_forward(rows, size->hidden, size->epsilon, &p->norm_2, middle, n2);

    for (int64_t i = 0; i < count; i++)
        dbranch[i] = dy[i];
    multiply(p->drop[1], count, dbranch);
    ref_mlp_backward(size, &p->mlp, n2, dbranch, dn, &grad->mlp);
    ref_norm_backward(rows, size->hidden, size->epsilon, &p->norm_2, middle, dn, dmiddle,
                      &grad->norm_2);
    for (int64_t i = 0; i < count; i++)
        dbranch[i] = dmiddle[i] += dy[i];

    multiply(p->drop[0], count, dbranch);
    ref_attention_backward(size, &p->attention, n1, dbranch, dn, &grad->attention);
    ref_norm_backward(rows, size->hidden, size->epsilon, &p->norm_1, x, dn, dx, &grad->norm_1);
    for (int64_t i = 0; i < count; i++)
        dx[i] += dmiddle[i];
    free(n1);
    free(n2);
    free(middle);
    free(dn);
    free(dmiddle);
    free(dbranch);
}
