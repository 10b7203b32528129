/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* The bias of a row-parallel layer is added once, whatever the number of ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/tp_run.h"

/* A matrix of the full tensors from a list of numbers. */
static void set(ref_real *to, const double *from, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        to[i] = (ref_real)from[i];
}

/* x = [1 2], W = [[10 20 30], [10 25 40]], bias = [100 200 300]: x W = [30 70 110]. */
static void test_bias_once(void **state) {
    static const tpp_linear_desc d = {sizeof d, 0, TPP_LINEAR_ROW, 0, 2, 3, 0};
    static const double x[] = {1, 2};
    static const double w[] = {10, 20, 30, 10, 25, 40};
    static const double b[] = {100, 200, 300};
    static const double want[] = {130, 270, 410};
    const tp_case c = {"row", &tp_kind_linear, &d};
    tp_full *full = tp_full_inputs(&c, 1, 1, 1);
    (void)state;
    set(full->in, x, 2);
    set(tp_value(full, "", "weight"), w, 6);
    set(tp_value(full, "", "bias"), b, 3);
    for (int32_t ranks = 1; ranks <= 2; ranks++) {
        tp_setup setup = {0};
        setup.ranks = ranks;
        setup.dtype = TPP_F64;
        tp_result *r = tp_run(&c, full, &setup);
        assert_same_bits("first row", r->out, want, sizeof want);
        tp_result_free(r);
    }
    tp_full_free(full);
}

/* Output less output without bias is the bias, for 1 .. 8 ranks. Numbers are small
 * integers: exact. */
static void check_difference(const tp_kind *kind, const void *with, const void *without,
                             const char *bias, int64_t cols, int32_t ranks) {
    const tp_case c = {"with bias", kind, with};
    const tp_case bare = {"without", kind, without};
    tp_full *full = tp_full_inputs(&c, 2, 3, 8);
    tp_full *full_bare = tp_full_inputs(&bare, 2, 3, 8);
    tp_setup setup = {0};
    setup.ranks = ranks;
    setup.dtype = TPP_F64;
    for (int32_t n = 0; n < full_bare->params; n++)
        for (int64_t i = 0; i < full_bare->param[n].rows * full_bare->param[n].cols; i++)
            tp_value(full, "", full_bare->param[n].name)[i] = full_bare->param[n].value[i] =
                (ref_real)((i * 7 + n) % 5 - 2);
    for (int64_t i = 0; i < full->tokens * full->in_cols; i++)
        full->in[i] = full_bare->in[i] = (ref_real)(i % 7 - 3);
    for (int64_t i = 0; i < cols; i++)
        tp_value(full, "", bias)[i] = (ref_real)(100 * (i + 1));
    tp_result *r = tp_run(&c, full, &setup);
    tp_result *r_bare = tp_run(&bare, full_bare, &setup);
    for (int64_t i = 0; i < full->tokens * cols; i++) {
        double off = ((double *)r->out)[i] - ((double *)r_bare->out)[i];
        assert_near(off, 100.0 * (double)(i % cols + 1), 0);
    }
    tp_result_free(r);
    tp_result_free(r_bare);
    tp_full_free(full);
    tp_full_free(full_bare);
}

static void test_difference(void **state) {
    (void)state;
    for (int32_t ranks = 1; ranks <= 8; ranks++) {
        const tpp_linear_desc row = {sizeof row, 0, TPP_LINEAR_ROW, 0, 3 * ranks, 5, 0};
        tpp_linear_desc row_bare = row;
        row_bare.flags = TPP_LINEAR_NO_BIAS;
        check_difference(&tp_kind_linear, &row, &row_bare, "bias", 5, ranks);
        const tpp_linear_desc column = {sizeof column, 0, TPP_LINEAR_COLUMN, 0, 4, 3 * ranks, 0};
        tpp_linear_desc column_bare = column;
        column_bare.flags = TPP_LINEAR_NO_BIAS;
        check_difference(&tp_kind_linear, &column, &column_bare, "bias", 3 * ranks, ranks);
    }
}

/* down.bias and out.bias come behind a sum over ranks as well: with all weights 0 they are the
 * output. */
static void check_end_bias(const char *name, const char *bias, int32_t ranks) {
    const tp_case *c = tp_case_find(name);
    tp_full *full = tp_full_inputs(c, 2, 3, 8);
    tp_setup setup = {0};
    setup.ranks = ranks;
    setup.dtype = TPP_F64;
    for (int32_t n = 0; n < full->params; n++)
        for (int64_t i = 0; i < full->param[n].rows * full->param[n].cols; i++)
            full->param[n].value[i] = 0;
    for (int64_t i = 0; i < full->out_cols; i++)
        tp_value(full, "", bias)[i] = (ref_real)(100 * (i + 1));
    tp_result *r = tp_run(c, full, &setup);
    for (int64_t i = 0; i < full->tokens * full->out_cols; i++)
        assert_near(((double *)r->out)[i], 100.0 * (double)(i % full->out_cols + 1), 0);
    tp_result_free(r);
    tp_full_free(full);
}

static void test_end_bias(void **state) {
    (void)state;
    for (int32_t ranks = 1; ranks <= 8; ranks *= 2) {
        check_end_bias("mlp", "down.bias", ranks);
        check_end_bias("attention", "out.bias", ranks);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bias_once),
        cmocka_unit_test(test_difference),
        cmocka_unit_test(test_end_bias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
