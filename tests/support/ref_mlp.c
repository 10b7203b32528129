/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/ref_gpt.h"

#include <stdlib.h>

static ref_real pi(void) {
    return 4 * atanf128(1);
}

/* Density of the standard normal distribution. */
static ref_real density(ref_real x) {
    return expf128(-x * x / 2) / sqrtf128(2 * pi());
}

/* Its integral up to x. */
static ref_real distribution(ref_real x) {
    return (1 + erff128(x / sqrtf128(2))) / 2;
}

/* u of 0.5 x (1 + tanh(u)); 0.044715 = 44715 / 10^6. */
static ref_real inner(ref_real x) {
    return sqrtf128(2 / pi()) * (x + (ref_real)44715 / 1000000 * x * x * x);
}

static ref_real inner_slope(ref_real x) {
    return sqrtf128(2 / pi()) * (1 + 3 * (ref_real)44715 / 1000000 * x * x);
}

ref_real ref_gelu(int act, ref_real x) {
    if (act == REF_GELU_ERF)
        return x * distribution(x);
    return x / 2 * (1 + tanhf128(inner(x)));
}

ref_real ref_gelu_slope(int act, ref_real x) {
    if (act == REF_GELU_ERF)
        return distribution(x) + x * density(x);
    ref_real t = tanhf128(inner(x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * inner_slope(x);
}

void ref_mlp_forward(const ref_size *size, const ref_mlp *p, const ref_real *x, ref_real *y) {
    int64_t rows = size->batch * size->seq;
    ref_real *u = ref_new(rows * size->ffn);
    ref_linear_forward(rows, size->hidden, size->ffn, x, p->up_weight, p->up_bias, u);
    for (int64_t i = 0; i < rows * size->ffn; i++)
        u[i] = ref_gelu(size->act, u[i]);
    ref_linear_forward(rows, size->ffn, size->hidden, u, p->down_weight, p->down_bias, y);
    free(u);
}

void ref_mlp_backward(const ref_size *size, const ref_mlp *p, const ref_real *x, const ref_real *dy,
                      ref_real *dx, const ref_mlp *grad) {
    int64_t rows = size->batch * size->seq;
    int64_t n = rows * size->ffn;
    ref_real *u = ref_new(n);
    ref_real *a = ref_new(n);
    ref_real *d = ref_new(n);
    ref_linear_forward(rows, size->hidden, size->ffn, x, p->up_weight, p->up_bias, u);
    for (int64_t i = 0; i < n; i++)
        a[i] = ref_gelu(size->act, u[i]);
    ref_linear_backward(rows, size->ffn, size->hidden, a, p->down_weight, dy, d, grad->down_weight,
                        grad->down_bias);
    for (int64_t i = 0; i < n; i++)
        d[i] *= ref_gelu_slope(size->act, u[i]);
    ref_linear_backward(rows, size->hidden, size->ffn, x, p->up_weight, d, dx, grad->up_weight,
                        grad->up_bias);
    free(u);
    free(a);
    free(d);
}
