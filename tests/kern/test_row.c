/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/row.h"
#include "support/close.h"
#include "support/kern_truth.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { N = 2000 };

static void exp_of_float(void **state) {
    (void)state;
    float x[N], y[N];
    close_quad want[N];
    for (int64_t from = -87 * 1000; from <= 85 * 1000; from += N) {
        for (int64_t i = 0; i < N; i++) {
            x[i] = (float)(from + i) / 1000;
            want[i] = truth_exp(x[i] - 0.375f); /* the difference is a float */
        }
        tpp__kern_exp_f32(N, x, 0.375f, y);
        assert_close_each("exp", TPP_F32, y, CLOSE_QUAD, want, N, 1.5e-7, 1e-37);
    }
}

static void exp_far_out(void **state) {
    (void)state;
    float x[] = {-INFINITY, -1e30f, -200, -88, 0, -0.0f}, y[6];
    const float want[] = {0, 0, 0, 0, 1, 1};
    tpp__kern_exp_f32(6, x, 0, y);
    assert_close_f32("exp", y, want, 6, 0);
    double xd[] = {-INFINITY, -1e30, -800, 0, -0.0}, yd[5];
    const double wantd[] = {0, 0, 0, 1, 1};
    tpp__kern_exp_f64(5, xd, 0, yd);
    assert_close_f64("exp", yd, wantd, 5, 0);
    float nan[20];
    kern_fill_value(TPP_F32, nan, 20, NAN);
    tpp__kern_exp_f32(20, nan, 1, nan);
    for (int i = 0; i < 20; i++)
        assert_true(isnan(nan[i]));
}

static void exp_position_is_nothing(void **state) {
    (void)state;
    float x[200], y[200], z[200];
    kern_fill(TPP_F32, x, 200, 1, 10);
    tpp__kern_exp_f32(200, x, 1, y);
    for (int64_t from = 0; from < 200; from++) {
        int64_t n = from % 33 + 1 < 200 - from ? from % 33 + 1 : 200 - from;
        tpp__kern_exp_f32(n, x + from, 1, z + from % 7);
        assert_same_bits("exp", z + from % 7, y + from, (uint64_t)n * sizeof *z);
    }
}

/* The sums' order by its own rule: element i to partial sum i % 16, then halves onto halves. */
static double by_the_rule(const double *term, int64_t n) {
    double lane[16] = {0};
    for (int64_t i = 0; i < n; i++)
        lane[i % 16] += term[i];
    for (int width = 8; width > 0; width /= 2) {
        for (int l = 0; l < width; l++)
            lane[l] += lane[l + width];
    }
    return lane[0];
}

static void sums_have_one_order(void **state) {
    (void)state;
    float x[100], y[100];
    double xd[100], yd[100], term[100];
    kern_fill(TPP_F32, x, 100, 1, 1);
    kern_fill(TPP_F32, y, 100, 2, 1);
    kern_fill(TPP_F64, xd, 100, 1, 1);
    kern_fill(TPP_F64, yd, 100, 2, 1);
    for (int64_t n = 0; n <= 100; n++) {
        for (int64_t i = 0; i < n; i++)
            term[i] = (double)x[i];
        assert_true(tpp__kern_sum_f32(x, n) == by_the_rule(term, n));
        assert_true(tpp__kern_sum_f64(xd, n) == by_the_rule(xd, n));
        for (int64_t i = 0; i < n; i++)
            term[i] = ((double)x[i] - 0.1) * ((double)y[i] - 0.2);
        assert_true(tpp__kern_dot_f32(x, 0.1, y, 0.2, n) == by_the_rule(term, n));
        for (int64_t i = 0; i < n; i++)
            term[i] = (xd[i] - 0.1) * (yd[i] - 0.2);
        assert_true(tpp__kern_dot_f64(xd, 0.1, yd, 0.2, n) == by_the_rule(term, n));
    }
}

static void largest_anywhere(void **state) {
    (void)state;
    for (int64_t n = 1; n <= 70; n++) {
        for (int64_t at = 0; at < n; at++) {
            float x[70];
            double xd[70];
            kern_fill_value(TPP_F32, x, n, -INFINITY);
            kern_fill_value(TPP_F64, xd, n, -2);
            x[at] = -1e30f;
            xd[at] = -1;
            assert_true(tpp__kern_largest_f32(x, n) == -1e30f);
            assert_true(tpp__kern_largest_f64(xd, n) == -1);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_of_float),
        cmocka_unit_test(exp_far_out),
        cmocka_unit_test(exp_position_is_nothing),
        cmocka_unit_test(sums_have_one_order),
        cmocka_unit_test(largest_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
