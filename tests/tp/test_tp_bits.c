/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* With fixed blocks every number of ranks gives the same bits. Memory's earlier contents, and a
 * comm of one rank instead of none, change nothing in any mode. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/tp_run.h"

static tp_setup setup_of(int32_t ranks, int32_t blocks, tpp_dtype dtype) {
    tp_setup setup = {0};
    setup.ranks = ranks;
    setup.blocks = blocks;
    setup.dtype = dtype;
    return setup;
}

static void check_degrees(const tp_case *c, const tp_full *full, int32_t blocks, tpp_dtype dtype) {
    char what[96];
    tp_setup one = setup_of(1, blocks, dtype);
    tp_result *want = tp_run(c, full, &one);
    for (int32_t ranks = 2; ranks <= blocks; ranks *= 2) {
        tp_setup setup = setup_of(ranks, blocks, dtype);
        tp_result *got = tp_run(c, full, &setup);
        snprintf(what, sizeof what, "%s, %d blocks, %d ranks", c->name, blocks, ranks);
        tp_same(what, want, got);
        tp_result_free(got);
    }
    tp_result_free(want);
}

static void check_case(const tp_case *c, int64_t batch, int64_t seq) {
    tp_full *full = tp_full_inputs(c, batch, seq, 5);
    for (int32_t blocks = 2; blocks <= 8; blocks *= 2) {
        check_degrees(c, full, blocks, TPP_F32);
        check_degrees(c, full, blocks, TPP_F64);
        check_degrees(c, full, blocks, TPP_BF16);
    }
    tp_full_free(full);
}

static void test_degrees(void **state) {
    const tp_case *c = *state;
    check_case(c, 1, 1);
    check_case(c, 3, 5);
    check_case(c, 1, 67);
}

/* Without a reference (too slow here): products above the size at which BLAS starts its threads,
 * rows of several attention tiles. */
static void test_large(void **state) {
    static const tpp_block_desc block = {.size = sizeof block, .hidden = 128, .heads = 16};
    static const tp_gpt_desc gpt = {301, 64, 300, 8, 2, 0, 0, 0};
    static const tp_case cases[] = {{"large block", &tp_kind_block, &block},
                                    {"large gpt", &tp_kind_gpt, &gpt}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        tp_full *full = tp_full_inputs(&cases[i], 2, 259, 9);
        check_degrees(&cases[i], full, 8, TPP_F32);
        check_degrees(&cases[i], full, 8, TPP_F64);
        check_degrees(&cases[i], full, 4, TPP_F32);
        check_degrees(&cases[i], full, 8, TPP_BF16);
        tp_full_free(full);
    }
}

/* NaN everywhere beforehand, or 0, or large numbers: the same bits. */
static void test_contents(void **state) {
    static const int fills[] = {TP_ZERO, TP_HUGE, 0x80};
    static const tpp_dtype types[] = {TPP_F32, TPP_F64, TPP_BF16};
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        tp_full *full = tp_full_inputs(c, 2, 5, 3);
        for (int i = 0; i < 9; i++) {
            tp_setup setup = setup_of(i % 3 ? 2 : 1, i % 3 == 2 ? 8 : 0, types[i / 3]);
            tp_result *want = tp_run(c, full, &setup);
            for (size_t k = 0; k < sizeof fills / sizeof *fills; k++) {
                setup.fill = fills[k];
                tp_result *got = tp_run(c, full, &setup);
                tp_same(c->name, want, got);
                tp_result_free(got);
            }
            tp_result_free(want);
        }
        tp_full_free(full);
    }
}

static void test_comm_of_one(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        tp_full *full = tp_full_inputs(c, 2, 5, 4);
        for (int32_t blocks = 0; blocks <= 4; blocks += 4) {
            tp_setup setup = setup_of(1, blocks, TPP_F32);
            tp_result *want = tp_run(c, full, &setup);
            setup.own_comm = 1;
            tp_result *got = tp_run(c, full, &setup);
            tp_same(c->name, want, got);
            tp_result_free(want);
            tp_result_free(got);
        }
        tp_full_free(full);
    }
}

/* The plain reference product instead of BLAS: close to the reference, same bits under
 * every split. */
static void test_reference_gemm(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        tp_full *full = tp_full_new(c, 3, 5, 6);
        tp_setup setup = setup_of(1, 4, TPP_F64);
        setup.gemm = tpp_gemm_builtin(TPP_GEMM_REFERENCE);
        tp_result *want = tp_run(c, full, &setup);
        tp_check(want, full, 1e-13);
        setup.ranks = 4;
        tp_result *got = tp_run(c, full, &setup);
        tp_same(c->name, want, got);
        tp_result_free(want);
        tp_result_free(got);
        tp_full_free(full);
    }
}

int main(void) {
    struct CMUnitTest tests[256] = {{0}};
    size_t count = 0;
    for (const tp_case *c = tp_cases; c->name; c++)
        tests[count++] = (struct CMUnitTest){c->name, test_degrees, NULL, NULL, (void *)(size_t)c};
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_large);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_contents);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_comm_of_one);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_reference_gemm);
    return _cmocka_run_group_tests("test_tp_bits", tests, count, NULL, NULL);
}
