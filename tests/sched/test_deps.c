/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sched/deps.h"

static int needs(int32_t op, int32_t stage, tpp__sched_need out[2]) {
    tpp_action a = {.op = (uint8_t)op, .stage = stage, .micro = 7};
    return tpp__sched_needs(3, 3, &a, out);
}

static void is(tpp__sched_need got, int32_t kind, int32_t stage) {
    assert_int_equal(got.kind, kind);
    assert_int_equal(got.stage, stage);
    assert_int_equal(got.micro, 7);
}

static void test_needs(void **state) {
    (void)state;
    tpp__sched_need n[2];
    assert_int_equal(needs(TPP_OP_F, 0, n), 0);
    assert_int_equal(needs(TPP_OP_F, 2, n), 1);
    is(n[0], TPP__SCHED_F, 1);
    for (int32_t op = TPP_OP_B; op <= TPP_OP_I; op++) {
        assert_int_equal(needs(op, 1, n), 2);
        is(n[0], TPP__SCHED_F, 1);
        is(n[1], TPP__SCHED_I, 2);
        assert_int_equal(needs(op, 2, n), 1);
        is(n[0], TPP__SCHED_F, 2);
    }
    assert_int_equal(needs(TPP_OP_W, 1, n), 1);
    is(n[0], TPP__SCHED_I, 1);
    for (int32_t op = TPP_OP_SEND_F; op <= TPP_OP_RECV_B; op++)
        assert_int_equal(needs(op, 1, n), 0);
}

static void test_makes(void **state) {
    (void)state;
    static const struct {
        int32_t op, count, kind[2];
    } cases[] = {{TPP_OP_F, 1, {TPP__SCHED_F}}, {TPP_OP_B, 2, {TPP__SCHED_I, TPP__SCHED_W}},
                 {TPP_OP_I, 1, {TPP__SCHED_I}}, {TPP_OP_W, 1, {TPP__SCHED_W}},
                 {TPP_OP_SEND_F, 0, {0}},       {TPP_OP_RECV_B, 0, {0}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tpp_action a = {.op = (uint8_t)cases[i].op, .stage = 1, .micro = 7};
        tpp__sched_need n[2];
        assert_int_equal(tpp__sched_makes(&a, n), cases[i].count);
        for (int32_t k = 0; k < cases[i].count; k++)
            is(n[k], cases[i].kind[k], 1);
    }
}

/* Each result has a place of its own, and there are no others. */
static void test_index(void **state) {
    (void)state;
    char taken[TPP__SCHED_RESULTS * 3 * 5] = {0};
    for (int32_t kind = 0; kind < TPP__SCHED_RESULTS; kind++) {
        for (int32_t stage = 0; stage < 3; stage++) {
            for (int32_t micro = 0; micro < 5; micro++) {
                int64_t i = tpp__sched_index(3, 5, (tpp__sched_need){kind, stage, micro});
                assert_in_range(i, 0, sizeof taken - 1);
                assert_int_equal(taken[i]++, 0);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_needs), cmocka_unit_test(test_makes),
                                       cmocka_unit_test(test_index)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
