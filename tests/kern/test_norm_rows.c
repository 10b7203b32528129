/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/kern.h"
#include "support/close.h"
#include "support/kern_truth.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double EPS = 1e-5;

/* A norm with everything it reads and writes. */
typedef struct norm {
    tpp_dtype dtype;
    int64_t rows, cols;
    void *x, *gamma, *beta, *dy;
    void *y, *mean, *rstd, *dx, *dgamma, *dbeta;
    bool rms; /* no mean is given */
} norm;

static norm norm_new(tpp_dtype dtype, int64_t rows, int64_t cols, double centre, double spread) {
    norm n = {.dtype = dtype, .rows = rows, .cols = cols};
    void **matrices[] = {&n.x, &n.dy, &n.y, &n.dx};
    void **vectors[] = {&n.gamma, &n.beta, &n.dgamma, &n.dbeta};
    for (int i = 0; i < 4; i++) {
        *matrices[i] = kern_new(dtype, rows * cols);
        *vectors[i] = kern_new(dtype, cols);
    }
    n.mean = kern_new(dtype, rows);
    n.rstd = kern_new(dtype, rows);
    kern_fill(dtype, n.x, rows * cols, 1, spread);
    for (int64_t i = 0; i < rows * cols; i++)
        kern_set(dtype, n.x, i, centre + kern_get(dtype, n.x, i));
    kern_fill(dtype, n.dy, rows * cols, 2, 1);
    kern_fill(dtype, n.gamma, cols, 3, 1);
    kern_fill(dtype, n.beta, cols, 4, 1);
    kern_fill(dtype, n.dgamma, cols, 5, 1);
    kern_fill(dtype, n.dbeta, cols, 6, 1);
    return n;
}

static void norm_free(norm *n) {
    void *all[] = {n->x,    n->gamma, n->beta, n->dy,     n->y,
                   n->mean, n->rstd,  n->dx,   n->dgamma, n->dbeta};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void run(norm *n, bool beta) {
    void *mean = n->rms ? NULL : n->mean;
    tpp__kern_norm_forward(n->dtype, n->rows, n->cols, EPS, n->x, n->gamma, beta ? n->beta : NULL,
                           n->y, mean, n->rstd);
    tpp__kern_norm_backward_input(n->dtype, n->rows, n->cols, n->x, n->gamma, mean, n->rstd, n->dy,
                                  n->dx);
    tpp__kern_norm_backward_weight(n->dtype, n->rows, n->cols, n->x, mean, n->rstd, n->dy,
                                   n->dgamma, beta ? n->dbeta : NULL);
}

/* --- Against the formulas in 33 digits -------------------------------------------------------- */

typedef struct truth {
    close_quad *y, *mean, *rstd, *dx, *dgamma, *dbeta;
} truth;

static close_quad q(const norm *n, const void *array, int64_t i) {
    return kern_get(n->dtype, array, i);
}

static void truth_row(const norm *n, truth *t, int64_t r) {
    const int64_t cols = n->cols, at = r * cols;
    close_quad mean = 0, variance = 0, c0 = 0, c1 = 0;
    for (int64_t c = 0; c < cols && !n->rms; c++)
        mean += q(n, n->x, at + c) / cols;
    for (int64_t c = 0; c < cols; c++)
        variance += (q(n, n->x, at + c) - mean) * (q(n, n->x, at + c) - mean) / cols;
    close_quad rstd = 1 / truth_sqrt(variance + (close_quad)EPS);
    t->mean[r] = mean;
    t->rstd[r] = rstd;
    for (int64_t c = 0; c < cols; c++) {
        close_quad hat = (q(n, n->x, at + c) - mean) * rstd, dy = q(n, n->dy, at + c);
        close_quad g = dy * q(n, n->gamma, c);
        t->y[at + c] = hat * q(n, n->gamma, c) + q(n, n->beta, c);
        t->dgamma[c] += dy * hat;
        t->dbeta[c] += dy;
        c0 += n->rms ? 0 : g / cols;
        c1 += g * hat / cols;
    }
    for (int64_t c = 0; c < cols; c++) {
        close_quad hat = (q(n, n->x, at + c) - mean) * rstd;
        t->dx[at + c] = rstd * (q(n, n->dy, at + c) * q(n, n->gamma, c) - c0 - hat * c1);
    }
}

static truth truth_new(const norm *n) {
    truth t = {kern_new_quad(n->rows * n->cols), kern_new_quad(n->rows), kern_new_quad(n->rows),
               kern_new_quad(n->rows * n->cols), kern_new_quad(n->cols), kern_new_quad(n->cols)};
    for (int64_t c = 0; c < n->cols; c++) {
        t.dgamma[c] = q(n, n->dgamma, c);
        t.dbeta[c] = q(n, n->dbeta, c);
    }
    for (int64_t r = 0; r < n->rows; r++)
        truth_row(n, &t, r);
    return t;
}

static void truth_free(truth *t) {
    close_quad *all[] = {t->y, t->mean, t->rstd, t->dx, t->dgamma, t->dbeta};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void one_kind(bool rms, tpp_dtype dtype, int64_t rows, int64_t cols, double centre,
                     double spread, double bound) {
    norm n = norm_new(dtype, rows, cols, centre, spread);
    n.rms = rms;
    truth t = truth_new(&n);
    run(&n, true);
    if (!rms)
        assert_close("mean", dtype, n.mean, CLOSE_QUAD, t.mean, rows, bound);
    assert_close("rstd", dtype, n.rstd, CLOSE_QUAD, t.rstd, rows, bound);
    assert_close("y", dtype, n.y, CLOSE_QUAD, t.y, rows * cols, bound);
    assert_close("dx", dtype, n.dx, CLOSE_QUAD, t.dx, rows * cols, cols > 1 || rms ? bound : 0);
    assert_close("dgamma", dtype, n.dgamma, CLOSE_QUAD, t.dgamma, cols, bound);
    assert_close("dbeta", dtype, n.dbeta, CLOSE_QUAD, t.dbeta, cols, bound);
    truth_free(&t);
    norm_free(&n);
}

static void one_case(tpp_dtype dtype, int64_t rows, int64_t cols, double centre, double spread,
                     double bound) {
    one_kind(false, dtype, rows, cols, centre, spread, bound);
}

static void against_truth(void **state) {
    (void)state;
    static const int64_t cols[] = {1, 3, 5, 16, 33, 256, 257, 1000};
    for (size_t i = 0; i < sizeof cols / sizeof *cols; i++) {
        one_case(TPP_F64, 5, cols[i], 0, 1, 1e-14);
        one_case(TPP_F32, 5, cols[i], 0, 1, 1e-6);
    }
    one_case(TPP_F64, 0, 8, 0, 1, 0);
}

/* A mean far from 0: what x - mean loses is the rounding of x and of the mean, no more. */
static void far_from_zero(void **state) {
    (void)state;
    one_case(TPP_F64, 3, 300, 1000, 1, 1e-12);
    one_case(TPP_F32, 3, 300, 1000, 1, 1e-4);
    one_case(TPP_F32, 3, 300, 0, 1e-3, 1e-5);
    one_case(TPP_F32, 3, 300, 0, 1e10, 1e-6);
}

/* RMSNorm: no mean is taken off, so that one far from 0 costs nothing. */
static void rms_against_truth(void **state) {
    (void)state;
    static const int64_t cols[] = {1, 3, 5, 16, 33, 256, 257, 1000};
    for (size_t i = 0; i < sizeof cols / sizeof *cols; i++) {
        /* with one column dx is what is left of numbers that cancel: eps / x^2 of them */
        one_kind(true, TPP_F64, 5, cols[i], 0, 1, cols[i] > 1 ? 1e-14 : 1e-9);
        one_kind(true, TPP_F32, 5, cols[i], 0, 1, cols[i] > 1 ? 1e-6 : 0.1);
    }
    one_kind(true, TPP_F64, 0, 8, 0, 1, 0);
    one_kind(true, TPP_F64, 3, 300, 1000, 1, 1e-14);
    one_kind(true, TPP_F32, 3, 300, 1000, 1, 2e-6);
    one_kind(true, TPP_F32, 3, 300, 0, 1e-3, 1e-6);
    one_kind(true, TPP_F32, 3, 300, 0, 1e10, 1e-6);
}

/* Zeros have no length: y = 0 and 1 / sqrt(eps), all finite; NaN stays in its row. */
static void rms_of_zeros(void **state) {
    (void)state;
    norm n = norm_new(TPP_F32, 2, 40, 0, 0);
    float zeros[40] = {0};
    n.rms = true;
    kern_set(TPP_F32, n.x, 45, NAN);
    run(&n, false);
    assert_close_f32("y", n.y, zeros, 40, 0);
    assert_true(fabs(kern_get(TPP_F32, n.rstd, 0) - 316.2278) < 1e-3);
    assert_true(isfinite(kern_get(TPP_F32, n.dx, 39)));
    assert_true(isnan(kern_get(TPP_F32, n.y, 79)));
    norm_free(&n);
}

/* A row of equal numbers: variance 0, y = beta, all finite. */
static void equal_numbers(void **state) {
    (void)state;
    norm n = norm_new(TPP_F32, 1, 40, 0.1, 0);
    run(&n, true);
    assert_close_f32("y", n.y, n.beta, 40, 1e-5);
    assert_true(fabs(kern_get(TPP_F32, n.rstd, 0) - 316.2278) < 1e-3);
    norm_free(&n);
}

/* --- Against differences ---------------------------------------------------------------------- */

static double loss(norm *n) {
    double sum = 0;
    tpp__kern_norm_forward(n->dtype, n->rows, n->cols, EPS, n->x, n->gamma, n->beta, n->y, n->mean,
                           n->rstd);
    for (int64_t i = 0; i < n->rows * n->cols; i++)
        sum += kern_get(n->dtype, n->y, i) * kern_get(n->dtype, n->dy, i);
    return sum;
}

static double difference(norm *n, double *number) {
    const double step = 1e-4, at = *number;
    double f[4];
    for (int i = 0; i < 4; i++) {
        *number = at + step * (double[]){-2, -1, 1, 2}[i];
        f[i] = loss(n);
    }
    *number = at;
    return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step);
}

static void against_differences(void **state) {
    (void)state;
    enum { ROWS = 3, COLS = 21 };
    norm n = norm_new(TPP_F64, ROWS, COLS, 0.3, 1);
    memset(n.dgamma, 0, COLS * sizeof(double));
    memset(n.dbeta, 0, COLS * sizeof(double));
    run(&n, true);
    double dx[ROWS * COLS], dgamma[COLS], dbeta[COLS];
    for (int i = 0; i < ROWS * COLS; i++)
        dx[i] = difference(&n, (double *)n.x + i);
    for (int i = 0; i < COLS; i++) {
        dgamma[i] = difference(&n, (double *)n.gamma + i);
        dbeta[i] = difference(&n, (double *)n.beta + i);
    }
    assert_close_f64("dx", n.dx, dx, ROWS * COLS, 1e-9);
    assert_close_f64("dgamma", n.dgamma, dgamma, COLS, 1e-9);
    assert_close_f64("dbeta", n.dbeta, dbeta, COLS, 1e-9);
    norm_free(&n);
}

/* --- Bits ------------------------------------------------------------------------------------- */

static void without_beta(void **state) {
    (void)state;
    norm with = norm_new(TPP_F32, 4, 50, 0, 1), without = norm_new(TPP_F32, 4, 50, 0, 1);
    memset(with.beta, 0, 50 * sizeof(float));
    run(&with, true);
    run(&without, false);
    assert_close_f32("y", without.y, with.y, 200, 0);
    assert_same_bits("dx", without.dx, with.dx, 200 * sizeof(float));
    assert_same_bits("dgamma", without.dgamma, with.dgamma, 50 * sizeof(float));
    norm_free(&with);
    norm_free(&without);
}

/* Outputs full of NaN, and each row computed alone, change no bit. */
static void rows_alone_and_nan(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        bool type = kind % 2;
        tpp_dtype dtype = type ? TPP_F64 : TPP_F32;
        enum { ROWS = 5, COLS = 45 };
        size_t w = type ? 8 : 4;
        norm all = norm_new(dtype, ROWS, COLS, 0, 1), one = norm_new(dtype, ROWS, COLS, 0, 1);
        void *sums[] = {all.dgamma, all.dbeta, one.dgamma, one.dbeta};
        all.rms = one.rms = kind > 1;
        for (int i = 0; i < 4; i++)
            kern_fill_value(dtype, sums[i], COLS, 0);
        run(&all, true);
        void *outputs[] = {one.y, one.dx};
        for (int i = 0; i < 2; i++)
            kern_fill_value(dtype, outputs[i], ROWS * COLS, NAN);
        kern_fill_value(dtype, one.mean, ROWS, NAN);
        kern_fill_value(dtype, one.rstd, ROWS, NAN);
        for (size_t r = 0; r < ROWS; r++) {
            norm row = one;
            row.rows = 1;
            row.x = (char *)one.x + r * COLS * w;
            row.dy = (char *)one.dy + r * COLS * w;
            row.y = (char *)one.y + r * COLS * w;
            row.dx = (char *)one.dx + r * COLS * w;
            row.mean = (char *)one.mean + r * w;
            row.rstd = (char *)one.rstd + r * w;
            run(&row, true);
        }
        assert_same_bits("y", one.y, all.y, ROWS * COLS * w);
        if (!one.rms)
            assert_same_bits("mean", one.mean, all.mean, ROWS * w);
        assert_same_bits("rstd", one.rstd, all.rstd, ROWS * w);
        assert_same_bits("dx", one.dx, all.dx, ROWS * COLS * w);
        assert_same_bits("dgamma", one.dgamma, all.dgamma, COLS * w);
        assert_same_bits("dbeta", one.dbeta, all.dbeta, COLS * w);
        norm_free(&all);
        norm_free(&one);
    }
}

/* A call adds its whole sum: two calls give twice the bits of one. */
static void weights_add_up(void **state) {
    (void)state;
    enum { COLS = 300 };
    norm once = norm_new(TPP_F32, 7, COLS, 0, 1), twice = norm_new(TPP_F32, 7, COLS, 0, 1);
    float *sums[] = {once.dgamma, once.dbeta, twice.dgamma, twice.dbeta};
    for (int i = 0; i < 4; i++)
        kern_fill_value(TPP_F32, sums[i], COLS, 0);
    run(&once, true);
    run(&twice, true);
    run(&twice, true);
    for (int c = 0; c < COLS; c++) {
        assert_true(sums[2][c] == 2 * sums[0][c]);
        assert_true(sums[3][c] == 2 * sums[1][c]);
    }
    norm_free(&once);
    norm_free(&twice);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_truth),     cmocka_unit_test(far_from_zero),
        cmocka_unit_test(rms_against_truth), cmocka_unit_test(rms_of_zeros),
        cmocka_unit_test(equal_numbers),     cmocka_unit_test(against_differences),
        cmocka_unit_test(without_beta),      cmocka_unit_test(rows_alone_and_nan),
        cmocka_unit_test(weights_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
