/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Dropout: the mask is the one that dropout.h defines, in every type and width; it is as likely and as
 * independent as it should be; seed 0 drops nothing. (Gradients and splits: the case tables.) */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/tp_run.h"

static tpp_layer *make(const char *name, int64_t cols, double rate, tpp_dtype dtype) {
    tpp_layer_env env = {.size = sizeof env, .dtype = dtype, .name = name};
    tpp_dropout_desc desc = {.size = sizeof desc, .cols = cols, .rate = rate};
    tpp_layer *layer = NULL;
    assert_int_equal(tpp_dropout_create(&layer, &env, &desc), TPP_OK);
    return layer;
}

/* x [rows, cols] through the layer. */
static void pass(const tpp_layer *layer, uint64_t seed, tpp_dtype dtype, int64_t rows, int64_t cols,
                 void *x, void *y) {
    tpp_mat in = {.data = x, .rows = rows, .cols = cols, .dtype = dtype}, out = in;
    out.data = y;
    tpp_call call = {
        .size = sizeof call, .batch = 1, .seq = rows, .in = in, .out = out, .dropout_seed = seed};
    assert_int_equal(tpp_layer_forward(layer, &call), TPP_OK);
}

/* Ones through dropout, as doubles. */
static double *mask(const char *name, uint64_t seed, double rate, int64_t rows, int64_t cols) {
    double *x = malloc((size_t)(rows * cols) * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < rows * cols; i++)
        x[i] = 1;
    tpp_layer *layer = make(name, cols, rate, TPP_F64);
    pass(layer, seed, TPP_F64, rows, cols, x, x);
    tpp_layer_destroy(layer);
    return x;
}

static void check_rule(const char *name, uint64_t seed, double rate, int64_t rows, int64_t cols) {
    int64_t count = rows * cols;
    double *got = mask(name, seed, rate, rows, cols);
    ref_real *want = ref_new(count);
    ref_dropout(seed, name, rate, rows, cols, want);
    for (int64_t i = 0; i < count; i++)
        if ((got[i] == 0) != (want[i] == 0))
            fail_msg("%s, rate %g: [%lld, %lld] of %lld columns is %g", name, rate,
                     (long long)(i / cols), (long long)(i % cols), (long long)cols, got[i]);
    assert_close("mask", TPP_F64, got, CLOSE_QUAD, want, count, 1e-15);
    free(got);
    free(want);
}

static void mask_is_the_one_defined(void **state) {
    (void)state;
    for (int64_t cols = 1; cols <= 150; cols++)
        check_rule("h.3.", 0xfedcba9876543210u, 0.5, 3, cols);
    check_rule("", 1, 0, 5, 9);
    check_rule("embed.", 1, 0.999999999, 50, 200);
    check_rule("embed.", UINT64_MAX, 1e-9, 50, 200);
}

/* In each type the same elements stay. What is dropped is 0, whatever it was. */
static void types_drop_the_same(void **state) {
    enum { ROWS = 5, COLS = 77, COUNT = ROWS * COLS };
    static const tpp_dtype types[] = {TPP_F32, TPP_BF16};
    double *want = mask("a", 7, 0.4, ROWS, COLS), x[COUNT], got[COUNT];
    char stored[COUNT * 4];
    (void)state;
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < COUNT; i++)
            x[i] = want[i] > 0 ? 1 : i % 2 ? (double)NAN : (double)INFINITY;
        tpp_layer *layer = make("a", COLS, 0.4, types[t]);
        assert_int_equal(tpp_convert(stored, types[t], x, TPP_F64, COUNT), TPP_OK);
        pass(layer, 7, types[t], ROWS, COLS, stored, stored);
        assert_int_equal(tpp_convert(got, TPP_F64, stored, types[t], COUNT), TPP_OK);
        assert_close("type", TPP_F64, got, TPP_F64, want, COUNT, types[t] == TPP_F32 ? 1e-7 : 4e-3);
        for (int i = 0; i < COUNT; i++)
            assert_true((got[i] == 0) == (want[i] == 0));
        tpp_layer_destroy(layer);
    }
    free(want);
}

/* Mean and variance of the mask within five of their standard deviations; neighbours, other seeds and
 * other names have nothing to do with it. */
static void mask_is_as_likely_as_it_should_be(void **state) {
    enum { ROWS = 1000, COLS = 100, COUNT = ROWS * COLS };
    (void)state;
    for (int r = 0; r < 3; r++) {
        const double rate = r == 0 ? 0.1 : r == 1 ? 0.5 : 0.9, spread = rate / (1 - rate);
        double *a = mask("x", 3, rate, ROWS, COLS), *b = mask("x", 4, rate, ROWS, COLS);
        double *c = mask("y", 3, rate, ROWS, COLS);
        double sum = 0, square = 0, next = 0, below = 0, seed = 0, name = 0;
        for (int i = 0; i < COUNT; i++) {
            double x = a[i] - 1;
            sum += x;
            square += x * x;
            next += x * (a[(i + 1) % COUNT] - 1);
            below += x * (a[(i + COLS) % COUNT] - 1);
            seed += x * (b[i] - 1);
            name += x * (c[i] - 1);
        }
        const double of_sum = 5 * sqrt(COUNT * spread), of_products = 5 * spread * sqrt(COUNT);
        assert_true(fabs(sum) < of_sum);
        /* x is -1 or s, so x^2 = (s - 1) x + s: as far off as the sum, times |s - 1| */
        assert_true(fabs(square - COUNT * spread) <= of_sum * fabs(spread - 1) + 1e-6);
        assert_true(fabs(next) < of_products && fabs(below) < of_products);
        assert_true(fabs(seed) < of_products && fabs(name) < of_products);
        free(a);
        free(b);
        free(c);
    }
}

static void seed_zero_drops_nothing(void **state) {
    (void)state;
    tp_full *full = tp_full_inputs(tp_case_find("block, dropout"), 2, 5, 8);
    tp_setup setup = {.ranks = 2, .dtype = TPP_F64};
    tpp_block_desc same = *(const tpp_block_desc *)tp_case_find("block, dropout")->desc;
    same.dropout = 0;
    tp_case plain = {"block", &tp_kind_block, &same};
    full->dropout_seed = 0;
    tp_result *want = tp_run(&plain, full, &setup);
    tp_result *got = tp_run(tp_case_find("block, dropout"), full, &setup);
    tp_same("seed 0", want, got);
    full->dropout_seed = 9;
    tp_result *dropped = tp_run(tp_case_find("block, dropout"), full, &setup);
    assert_memory_not_equal(dropped->out, want->out, 2 * 5 * 24 * sizeof(double));
    tp_result_free(want);
    tp_result_free(got);
    tp_result_free(dropped);
    tp_full_free(full);
}

static void refused(double rate, const char *part) {
    tpp_layer_env env = {.size = sizeof env};
    tpp_dropout_desc desc = {.size = sizeof desc, .cols = 3, .rate = rate};
    tpp_block_desc block = {.size = sizeof block, .hidden = 8, .heads = 2, .dropout = rate};
    tpp_layer *layer = NULL;
    assert_int_equal(tpp_dropout_create(&layer, &env, &desc), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), part));
    assert_int_equal(tpp_block_create(&layer, &env, &block), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "desc.dropout"));
}

static void rates_out_of_range_are_refused(void **state) {
    (void)state;
    refused(1, "desc.rate = 1 ");
    refused(-0.5, "desc.rate = -0.5 ");
    refused((double)NAN, "desc.rate = ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mask_is_the_one_defined),
        cmocka_unit_test(types_drop_the_same),
        cmocka_unit_test(mask_is_as_likely_as_it_should_be),
        cmocka_unit_test(seed_zero_drops_nothing),
        cmocka_unit_test(rates_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
