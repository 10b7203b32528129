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

static ref_real sigmoid(ref_real x) {
    return 1 / (1 + expf128(-x));
}

ref_real ref_act(int act, ref_real x) {
    switch (act) {
    case REF_GELU_ERF:
        return x * distribution(x);
    case REF_RELU:
        return x > 0 ? x : 0;
    case REF_SQUARED_RELU:
        return x > 0 ? x * x : 0;
    case REF_SILU:
    case REF_SWIGLU:
        return x * sigmoid(x);
    default:
        return x / 2 * (1 + tanhf128(inner(x)));
    }
}

ref_real ref_act_slope(int act, ref_real x) {
    ref_real t = tanhf128(inner(x));
    ref_real s = sigmoid(x);
    switch (act) {
    case REF_GELU_ERF:
        return distribution(x) + x * density(x);
    case REF_RELU:
        return x > 0 ? 1 : 0;
    case REF_SQUARED_RELU:
        return x > 0 ? 2 * x : 0;
    case REF_SILU:
    case REF_SWIGLU:
        return s + x * s * (1 - s);
    default:
        return (1 + t) / 2 + x / 2 * (1 - t * t) * inner_slope(x);
    }
}

static int gated(const ref_size *size) {
    return size->act == REF_SWIGLU || size->act == REF_GEGLU;
}

/* Columns that the input is multiplied into. */
static int64_t wide(const ref_size *size) {
    return gated(size) ? 2 * size->ffn : size->ffn;
}

/* [rows, 2 * ffn] to and from two matrices [rows, ffn]. */
static void put_half(int64_t rows, int64_t ffn, int half, const ref_real *part, ref_real *both) {
    for (int64_t i = 0; i < rows * ffn; i++)
        both[(2 * (i / ffn) + half) * ffn + i % ffn] = part[i];
}

static void get_half(int64_t rows, int64_t ffn, int half, const ref_real *both, ref_real *part) {
    for (int64_t i = 0; i < rows * ffn; i++)
        part[i] = both[(2 * (i / ffn) + half) * ffn + i % ffn];
}

/* u [rows, wide]: x A + a, or gate and up side by side. */
static void first_forward(const ref_size *size, const ref_mlp *p, const ref_real *x, ref_real *u) {
    int64_t rows = size->batch * size->seq;
    if (!p->gate_weight) {
        ref_linear_forward(rows, size->hidden, wide(size), x, p->up_weight, p->up_bias, u);
        return;
    }
    ref_real *part = ref_new(rows * size->ffn);
    ref_linear_forward(rows, size->hidden, size->ffn, x, p->gate_weight, p->gate_bias, part);
    put_half(rows, size->ffn, 0, part, u);
    ref_linear_forward(rows, size->hidden, size->ffn, x, p->up_weight, p->up_bias, part);
    put_half(rows, size->ffn, 1, part, u);
    free(part);
}

static void first_backward(const ref_size *size, const ref_mlp *p, const ref_real *x,
                           const ref_real *du, ref_real *dx, const ref_mlp *grad) {
    int64_t rows = size->batch * size->seq;
    int64_t hidden = size->hidden;
    if (!p->gate_weight) {
        ref_linear_backward(rows, hidden, wide(size), x, p->up_weight, du, dx, grad->up_weight,
                            grad->up_bias);
        return;
    }
    ref_real *part = ref_new(rows * size->ffn);
    ref_real *more = ref_new(rows * hidden);
    get_half(rows, size->ffn, 0, du, part);
    ref_linear_backward(rows, hidden, size->ffn, x, p->gate_weight, part, dx, grad->gate_weight,
                        grad->gate_bias);
    get_half(rows, size->ffn, 1, du, part);
    ref_linear_backward(rows, hidden, size->ffn, x, p->up_weight, part, more, grad->up_weight,
                        grad->up_bias);
    for (int64_t i = 0; i < rows * hidden; i++)
        dx[i] += more[i];
    free(part);
    free(more);
}

/* a [rows, ffn] of u. */
static void activate(const ref_size *size, const ref_real *u, ref_real *a) {
    int64_t f = size->ffn;
    for (int64_t i = 0; i < size->batch * size->seq * f; i++) {
        const ref_real *gate = u + i / f * wide(size) + i % f;
        a[i] = ref_act(size->act, *gate) * (gated(size) ? gate[f] : 1);
    }
}

/* du of da. */
static void activate_back(const ref_size *size, const ref_real *u, const ref_real *da,
                          ref_real *du) {
    int64_t f = size->ffn;
    for (int64_t i = 0; i < size->batch * size->seq * f; i++) {
        int64_t at = i / f * wide(size) + i % f;
        du[at] = da[i] * ref_act_slope(size->act, u[at]) * (gated(size) ? u[at + f] : 1);
        if (gated(size))
            du[at + f] = da[i] * ref_act(size->act, u[at]);
    }
}

void ref_mlp_forward(const ref_size *size, const ref_mlp *p, const ref_real *x, ref_real *y) {
    int64_t rows = size->batch * size->seq;
    ref_real *u = ref_new(rows * wide(size));
    ref_real *a = ref_new(rows * size->ffn);
    first_forward(size, p, x, u);
    activate(size, u, a);
    ref_linear_forward(rows, size->ffn, size->hidden, a, p->down_weight, p->down_bias, y);
    free(u);
    free(a);
}

void ref_mlp_backward(const ref_size *size, const ref_mlp *p, const ref_real *x, const ref_real *dy,
                      ref_real *dx, const ref_mlp *grad) {
    int64_t rows = size->batch * size->seq;
    ref_real *u = ref_new(rows * wide(size));
    ref_real *du = ref_new(rows * wide(size));
    ref_real *a = ref_new(rows * size->ffn);
    ref_real *da = ref_new(rows * size->ffn);
    first_forward(size, p, x, u);
    activate(size, u, a);
    ref_linear_backward(rows, size->ffn, size->hidden, a, p->down_weight, dy, da, grad->down_weight,
                        grad->down_bias);
    activate_back(size, u, da, du);
    first_backward(size, p, x, du, dx, grad);
    free(u);
    free(du);
    free(a);
    free(da);
}
