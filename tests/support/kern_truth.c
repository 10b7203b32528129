/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/kern_truth.h"

#include "base/check.h"
#include "kern/kern.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* 0.ddd..., its digits in parts that doubles hold whole. */
static close_quad decimal(double first_15_decimals, double next_15, double next_5) {
    close_quad e15 = 1e15;
    return (first_15_decimals + (next_15 + next_5 / (close_quad)1e5) / e15) / e15;
}

static close_quad pi(void) {
    return 3 + decimal(141592653589793, 238462643383279, 50288);
}

/* Series of exp(r / 64), squared six times. */
close_quad truth_exp(close_quad x) {
    close_quad ln2 = decimal(693147180559945, 309417232121458, 17657);
    if (x < -12000)
        return 0;
    int n = (int)floor((double)(x / ln2) + 0.5);
    close_quad r = (x - n * ln2) / 64;
    close_quad sum = 1;
    for (int i = 15; i > 0; i--)
        sum = 1 + sum * r / i;
    for (int i = 0; i < 6; i++)
        sum *= sum;
    for (; n > 0; n--)
        sum *= 2;
    for (; n < 0; n++)
        sum /= 2;
    return sum;
}

close_quad truth_log(close_quad x) {
    close_quad y = log((double)x);
    for (int i = 0; i < 4; i++)
        y += x * truth_exp(-y) - 1;
    return y;
}

close_quad truth_sqrt(close_quad x) {
    if (x <= 0)
        return 0;
    close_quad y = sqrt((double)x);
    for (int i = 0; i < 4; i++)
        y = (y + x / y) / 2;
    return y;
}

close_quad truth_erfc(close_quad x) {
    if (x < 0)
        return 2 - truth_erfc(-x);
    close_quad root_pi = truth_sqrt(pi());
    if (x <
        (close_quad)2) { /* erf = 2 / sqrt pi exp(-x^2) sum of 2^n x^(2n+1) / (1 3 5 .. (2n+1)) */
        close_quad term = x;
        close_quad sum = x;
        for (int i = 1; i < 120; i++) {
            term *= 2 * x * x / (2 * i + 1);
            sum += term;
        }
        return 1 - 2 / root_pi * truth_exp(-x * x) * sum;
    }
    close_quad f = x; /* the continued fraction x + (1/2)/(x + 1/(x + (3/2)/(x + ... */
    for (int i = 400; i > 0; i--)
        f = x + (close_quad)i / 2 / f;
    return truth_exp(-x * x) / (root_pi * f);
}

/* 2 sqrt(2 / pi) (x + 0.044715 x^3) and its derivative. */
static close_quad twice_u(close_quad x) {
    close_quad c = (close_quad)44715 / 1000000;
    return 2 * truth_sqrt(2 / pi()) * (x + c * x * x * x);
}

static close_quad twice_u_slope(close_quad x) {
    close_quad c = (close_quad)44715 / 1000000;
    return 2 * truth_sqrt(2 / pi()) * (1 + 3 * c * x * x);
}

close_quad truth_act(int32_t act, close_quad x) {
    switch (act) {
    case TPP__ACT_GELU_ERF:
        return x * truth_erfc(-x / truth_sqrt(2)) / 2;
    case TPP__ACT_RELU:
        return x > 0 ? x : 0;
    case TPP__ACT_SQUARED_RELU:
        return x > 0 ? x * x : 0;
    case TPP__ACT_SILU:
        return x / (1 + truth_exp(-x));
    default:
        return x / (1 + truth_exp(-twice_u(x)));
    }
}

/* Of x / (1 + exp(-u)) by x. */
static close_quad gate_slope(close_quad x, close_quad u, close_quad u_slope) {
    close_quad e = truth_exp(-u);
    return (1 + x * u_slope * e / (1 + e)) / (1 + e);
}

close_quad truth_act_slope(int32_t act, close_quad x) {
    switch (act) {
    case TPP__ACT_GELU_ERF:
        return truth_erfc(-x / truth_sqrt(2)) / 2 +
               x * truth_exp(-x * x / 2) / truth_sqrt(2 * pi());
    case TPP__ACT_RELU:
        return x > 0 ? 1 : 0;
    case TPP__ACT_SQUARED_RELU:
        return x > 0 ? 2 * x : 0;
    case TPP__ACT_SILU:
        return gate_slope(x, x, 1);
    default:
        return gate_slope(x, twice_u(x), twice_u_slope(x));
    }
}

double kern_get(tpp_dtype dtype, const void *array, int64_t i) {
    return dtype == TPP_F32 ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

void kern_set(tpp_dtype dtype, void *array, int64_t i, double value) {
    if (dtype == TPP_F32)
        ((float *)array)[i] = (float)value;
    else
        ((double *)array)[i] = value;
}

void kern_fill(tpp_dtype dtype, void *array, int64_t n, uint64_t which, double scale) {
    for (int64_t i = 0; i < n; i++)
        kern_set(dtype, array, i, scale * tpp__kern_random_normal(1, which, (uint64_t)i));
}

void kern_fill_value(tpp_dtype dtype, void *array, int64_t n, double value) {
    for (int64_t i = 0; i < n; i++)
        kern_set(dtype, array, i, value);
}

void *kern_new(tpp_dtype dtype, int64_t n) {
    void *memory = calloc((size_t)n + 1, (size_t)tpp__dtype_bytes(dtype));
    assert_non_null(memory);
    return memory;
}

close_quad *kern_new_quad(int64_t n) {
    close_quad *memory = calloc((size_t)n + 1, sizeof *memory);
    assert_non_null(memory);
    return memory;
}
