/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Outputs and gradients of every kind of layer, on 1 .. 8 ranks, with and without fixed blocks, in
 * both types, against the unsplit reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/tp_run.h"

/* Degree and fixed blocks of a run; 0 blocks: free. */
static const struct {
    int32_t ranks, blocks;
} splits[] = {{1, 0}, {1, 1}, {1, 2}, {1, 4}, {1, 8}, {2, 0}, {2, 2},
              {2, 4}, {2, 8}, {4, 0}, {4, 4}, {4, 8}, {8, 0}, {8, 8}};

static void check_split(const tp_case *c, const tp_full *full, int32_t ranks, int32_t blocks) {
    static const struct {
        tpp_dtype dtype;
        double bound;
    } types[] = {{TPP_F64, 1e-13}, {TPP_F32, 1e-5}};
    for (int i = 0; i < 2; i++) {
        tp_setup setup = {0};
        setup.ranks = ranks;
        setup.blocks = blocks;
        setup.dtype = types[i].dtype;
        tp_result *result = tp_run(c, full, &setup);
        tp_check(result, full, types[i].bound);
        tp_result_free(result);
    }
}

static void check_shape(const tp_case *c, int64_t batch, int64_t seq) {
    tp_full *full = tp_full_new(c, batch, seq, (uint64_t)(100 * batch + seq));
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++)
        check_split(c, full, splits[i].ranks, splits[i].blocks);
    tp_full_free(full);
}

static void test_kind(void **state) {
    const tp_case *c = *state;
    check_shape(c, 1, 1);
    check_shape(c, 2, 1);
    check_shape(c, 1, 2);
    check_shape(c, 3, 5);
    check_shape(c, 1, 67);
    check_shape(c, 2, 67);
}

/* Degrees that are no power of two are for free mode alone. */
static void test_odd_degrees(void **state) {
    static const tpp_linear_desc column = {sizeof column, 0, TPP_LINEAR_COLUMN, 0, 5, 30, 0};
    static const tpp_linear_desc row = {sizeof row, 0, TPP_LINEAR_ROW, 0, 30, 4, 0};
    static const tpp_attention_desc attention = {
        .size = sizeof attention, .hidden = 30, .heads = 30, .head_cols = 2};
    static const tpp_block_desc block = {
        .size = sizeof block, .hidden = 30, .ffn = 60, .heads = 15};
    static const tp_gpt_desc gpt = {17, 30, 5, 15, 1, 0, 0, 0};
    static const tp_case cases[] = {
        {"column", &tp_kind_linear, &column},
        {"row", &tp_kind_linear, &row},
        {"attention", &tp_kind_attention, &attention},
        {"block", &tp_kind_block, &block},
        {"gpt", &tp_kind_gpt, &gpt},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tp_full *full = tp_full_new(&cases[i], 2, 5, 7);
        check_split(&cases[i], full, 3, 0);
        check_split(&cases[i], full, 5, 0);
        if (i < 3)
            check_split(&cases[i], full, 6, 0);
        tp_full_free(full);
    }
}

/* No tokens at all: nothing to compute, gradients stay zero, no memory is looked at. */
static void test_empty(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        for (int i = 0; i < 2; i++) {
            tp_full *full = tp_full_new(c, i, i ? 0 : 3, 1);
            check_split(c, full, 1, 0);
            check_split(c, full, 2, 4);
            tp_full_free(full);
        }
    }
}

int main(void) {
    struct CMUnitTest tests[256] = {{0}};
    size_t count = 0;
    for (const tp_case *c = tp_cases; c->name; c++)
        tests[count++] = (struct CMUnitTest){c->name, test_kind, NULL, NULL, (void *)(size_t)c};
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_odd_degrees);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_empty);
    return _cmocka_run_group_tests("test_tp_reference", tests, count, NULL, NULL);
}
