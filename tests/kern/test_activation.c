/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/kern.h"
#include "support/close.h"
#include "support/kern_truth.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* In the order of their numbers, which begin at 1. */
static const int32_t forms[] = {TPP__ACT_GELU_TANH, TPP__ACT_GELU_ERF, TPP__ACT_RELU,
                                TPP__ACT_SQUARED_RELU, TPP__ACT_SILU};
static const char *const names[] = {"tanh form", "erf form", "ReLU", "squared ReLU", "SiLU"};
enum { FORMS = sizeof forms / sizeof *forms };
static const tpp_dtype types[] = {TPP_F32, TPP_F64};

/* Four numbers of a public list; they hold the truth of the tests below, too. */
static void at_minus_3_7(void **state) {
    (void)state;
    double x = -3.7, dy = 1, y, dx;
    tpp__kern_act_forward(TPP_F64, TPP__ACT_GELU_ERF, 1, &x, &y);
    tpp__kern_act_backward(TPP_F64, TPP__ACT_GELU_ERF, 1, &x, &dy, &dx);
    assert_close_f64("erf form", &y, (double[]){-0.00039885901386633685}, 1, 1e-13);
    assert_close_f64("erf form's slope", &dx, (double[]){-0.0014638872675603929}, 1, 1e-13);
    tpp__kern_act_forward(TPP_F64, TPP__ACT_GELU_TANH, 1, &x, &y);
    tpp__kern_act_backward(TPP_F64, TPP__ACT_GELU_TANH, 1, &x, &dy, &dx);
    assert_close_f64("tanh form", &y, (double[]){-0.00027180602139205386}, 1, 1e-13);
    assert_close_f64("tanh form's slope", &dx, (double[]){-0.0011567272357879136}, 1, 1e-13);
}

/* Value and slope at first, first + step, ... against the truth, each relative to itself. */
static void against_truth(tpp_dtype dtype, int32_t form, double first, double step, int64_t n,
                          double bound, double tiny, double slope_bound, double slope_tiny) {
    void *x = kern_new(dtype, n), *y = kern_new(dtype, n);
    close_quad *want = kern_new_quad(n), *want_slope = kern_new_quad(n);
    for (int64_t i = 0; i < n; i++) {
        kern_set(dtype, x, i, first + step * (double)i);
        want[i] = truth_act(form, kern_get(dtype, x, i));
        want_slope[i] = truth_act_slope(form, kern_get(dtype, x, i));
    }
    const char *name = names[form - 1];
    tpp__kern_act_forward(dtype, form, n, x, y);
    assert_close_each(name, dtype, y, CLOSE_QUAD, want, n, bound, tiny);
    kern_fill_value(dtype, y, n, 1);
    tpp__kern_act_backward(dtype, form, n, x, y, y);
    assert_close_each(name, dtype, y, CLOSE_QUAD, want_slope, n, slope_bound, slope_tiny);
    free(x);
    free(y);
    free(want);
    free(want_slope);
}

static void float64_on_a_grid(void **state) {
    (void)state;
    for (int f = 0; f < FORMS; f++)
        against_truth(TPP_F64, forms[f], -12, 1.0 / 64, 24 * 64 + 1, 1e-13, 1e-300, 1e-13, 1e-300);
}

/* The slope crosses 0 near -0.75, SiLU's near -1.28, where float can only be near in absolute
 * terms: from there on the value's own size is no measure, left of -1 (-2) it is. */
static void float32_on_a_grid(void **state) {
    (void)state;
    for (int f = 0; f < FORMS; f++) {
        int left = forms[f] == TPP__ACT_SILU ? 2 : 1;
        against_truth(TPP_F32, forms[f], -16, 1.0 / 256, (16 - left) * 256, 6e-7, 1e-29, 6e-7,
                      1e-29);
        against_truth(TPP_F32, forms[f], -left, 1.0 / 1024, 17 * 1024, 6e-7, 1e-29, 2e-7, 1);
        against_truth(TPP_F32, forms[f], -40, 1.0 / 64, 80 * 64, 1e-7, 1, 2e-7, 1);
    }
}

static void far_out(void **state) {
    (void)state;
    const double x[] = {INFINITY, -INFINITY, NAN, 0, -0.0, 1e30, -1e30, 1e-40, 3e38, -3e38};
    const double want[] = {INFINITY, 0, NAN, 0, 0, 1e30, 0, 0.5e-40, 3e38, 0};
    const double slope[] = {1, 0, NAN, 0.5, 0.5, 1, 0, 0.5, 1, 0};
    enum { N = sizeof x / sizeof *x };
    for (int t = 0; t < 2; t++) {
        for (int f = 0; f < FORMS; f++) {
            if (forms[f] == TPP__ACT_RELU || forms[f] == TPP__ACT_SQUARED_RELU)
                continue;
            double in[N], y[N], dx[N], one[N];
            for (int i = 0; i < N; i++)
                kern_set(types[t], in, i, x[i]);
            kern_fill_value(types[t], one, N, 1);
            tpp__kern_act_forward(types[t], forms[f], N, in, y);
            tpp__kern_act_backward(types[t], forms[f], N, in, one, dx);
            for (int i = 0; i < N; i++) {
                double w = want[i], got = kern_get(types[t], y, i), s = kern_get(types[t], dx, i);
                assert_true(isnan(w) ? isnan(got) : got == w || fabs(got / w - 1) < 1e-4);
                assert_true(isnan(w) ? isnan(s) : s == slope[i]);
            }
        }
    }
}

/* The corner at 0, and both ends. */
static void relu_far_out(void **state) {
    (void)state;
    const double x[] = {INFINITY, -INFINITY, NAN, 0, -0.0, 1e30, -1e30, 1e-40, -1e-40};
    const double want[] = {INFINITY, 0, NAN, 0, 0, 1e30, 0, 1e-40, 0};
    const double slope[] = {1, 0, NAN, 0, 0, 1, 0, 1, 0};
    enum { N = sizeof x / sizeof *x };
    for (int t = 0; t < 2; t++) {
        for (int f = 0; f < 2; f++) {
            int32_t form = f ? TPP__ACT_SQUARED_RELU : TPP__ACT_RELU;
            double in[N], y[N], dx[N], one[N];
            for (int i = 0; i < N; i++)
                kern_set(types[t], in, i, x[i]);
            kern_fill_value(types[t], one, N, 1);
            tpp__kern_act_forward(types[t], form, N, in, y);
            tpp__kern_act_backward(types[t], form, N, in, one, dx);
            for (int i = 0; i < N; i++) {
                double w = want[i], got = kern_get(types[t], y, i), s = kern_get(types[t], dx, i);
                if (types[t] == TPP_F32)
                    w = (double)(float)w;
                double ws = f ? 2 * w : slope[i];
                w = f ? w * w : w;
                if (types[t] == TPP_F32)
                    w = (double)(float)w;
                assert_true(isnan(w) ? isnan(got) : got == w);
                assert_true(isnan(w) ? isnan(s) : s == ws);
            }
        }
    }
}

/* Each element alone gives the bits that it gives in the middle of a long row, and in place. */
static void position_is_nothing(void **state) {
    (void)state;
    enum { N = 301 };
    double x[N + 1], dy[N + 1], y[N + 1], dx[N + 1], out[N + 1];
    for (int t = 0; t < 2; t++) {
        size_t w = types[t] == TPP_F32 ? 4 : 8;
        kern_fill(types[t], x, N, 1, 4);
        kern_fill(types[t], dy, N, 2, 1);
        for (int f = 0; f < FORMS; f++) {
            tpp__kern_act_forward(types[t], forms[f], N, x, y);
            tpp__kern_act_backward(types[t], forms[f], N, x, dy, dx);
            for (size_t from = 0; from < N; from++) {
                int64_t n = (int64_t)from % 37 + 1;
                n = n < (int64_t)(N - from) ? n : (int64_t)(N - from);
                char *part = (char *)out + from % 5 * w;
                tpp__kern_act_forward(types[t], forms[f], n, (char *)x + from * w, part);
                assert_same_bits("value", part, (char *)y + from * w, (uint64_t)n * w);
                memcpy(part, (char *)dy + from * w, (size_t)n * w);
                tpp__kern_act_backward(types[t], forms[f], n, (char *)x + from * w, part, part);
                assert_same_bits("slope", part, (char *)dx + from * w, (uint64_t)n * w);
                memcpy(part, (char *)x + from * w, (size_t)n * w);
                tpp__kern_act_forward(types[t], forms[f], n, part, part);
                assert_same_bits("in place", part, (char *)y + from * w, (uint64_t)n * w);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_minus_3_7),      cmocka_unit_test(float64_on_a_grid),
        cmocka_unit_test(float32_on_a_grid), cmocka_unit_test(far_out),
        cmocka_unit_test(relu_far_out),      cmocka_unit_test(position_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
