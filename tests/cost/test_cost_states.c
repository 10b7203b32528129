/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Bytes of weights, gradients and optimizer states: ZeRO's table 1, and what a known fault got
 * wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/cost_table.h"
#include "support/sched_support.h"

#include <tpp/cost.h>

static int64_t total(int64_t params, const tpp_cost_bytes *bytes, int64_t dp, int32_t zero) {
    tpp_cost_states s = {.size = sizeof s};
    assert_ok(tpp_cost_states_of(params, bytes, dp, zero, &s));
    assert_int_equal(s.total, s.weights + s.grads + s.optimizer);
    assert_int_equal(s.params, params);
    return s.total;
}

static int32_t stage_of(const char *name) {
    return strcmp(name, "os") == 0 ? 1 : strcmp(name, "os+g") == 0 ? 2 : 3;
}

/* The number that is printed, in units of its last digit, and what that unit is in bytes. */
static int64_t printed_units(const char *cell, int64_t *unit) {
    int64_t units = 0;
    const char *point = strchr(cell, '.');
    *unit = 1000000000;
    for (const char *c = cell; *c; c++) {
        if (*c == '.')
            continue;
        units = 10 * units + *c - '0';
        *unit /= point && c > point ? 10 : 1;
    }
    return units;
}

/* Every cell to its last digit. The paper rounds the column of 7.5B, and cuts off those of 128B and
 * 1T (2,218.75 is printed 2218). */
static void zero_table1(void **state) {
    cost_table table;
    (void)state;
    cost_table_read(&table, "zero_table1.csv");
    assert_int_equal(table.rows, 54);
    for (int32_t i = 0; i < table.rows; i++) {
        int64_t params = (int64_t)cost_number(&table, i, "psi_params"), unit;
        int32_t stage = stage_of(cost_cell(&table, i, "stage"));
        int64_t printed = printed_units(cost_cell(&table, i, "memory_GB"), &unit);
        int64_t bytes = total(params, NULL, cost_integer(&table, i, "dp_degree"), stage);
        int64_t half = strcmp(cost_cell(&table, i, "model"), "7.5B") == 0 ? unit / 2 : 0;
        assert_int_equal((bytes + half) / unit, printed);
    }
}

/* Which cells are the first of their model and stage to fit into 32 GB. */
static void zero_table1_first_to_fit(void **state) {
    cost_table table;
    bool fits[3][4] = {{false}};
    (void)state;
    cost_table_read(&table, "zero_table1.csv");
    for (int32_t i = 0; i < table.rows; i++) {
        int64_t params = (int64_t)cost_number(&table, i, "psi_params");
        int32_t stage = stage_of(cost_cell(&table, i, "stage"));
        bool *before = &fits[i / 3 % 3][stage];
        bool now = total(params, NULL, cost_integer(&table, i, "dp_degree"), stage) <= 32000000000;
        const char *cell = cost_cell(&table, i, "first_to_fit_32GB");
        assert_string_equal(now && !*before ? "yes" : "", cell);
        *before |= now;
    }
}

/* O35: 16, 5.5, 3.75, 2 GB; gradients are shared out from stage 2 on, and so is a copy of them. */
static void gradients_are_shared_out(void **state) {
    static const int64_t right[] = {16000000000, 5500000000, 3750000000, 2000000000};
    const tpp_cost_bytes copy = {sizeof copy, 0, 2, 2, 4, 4, 4, 4};
    (void)state;
    for (int32_t zero = 0; zero <= 3; zero++)
        assert_int_equal(total(1000000000, NULL, 8, zero), right[zero]);
    assert_int_equal(total(1000000000, &copy, 8, 2), 4250000000);
}

/* A 70B model on 64 ranks: in all 1,120 GB; by layout 17.5, 17.5, 21.9, 32.8. */
static void of_70_billion(void **state) {
    const int64_t params = 70000000000;
    (void)state;
    assert_int_equal(total(params, NULL, 1, 0), 1120000000000);
    assert_int_equal(total(params / 64, NULL, 1, 0), 17500000000);
    assert_int_equal(total(params / 8, NULL, 8, 3), 17500000000);
    assert_int_equal(total(params / 32, NULL, 2, 1), 21875000000);
    assert_int_equal(total(params / 8, NULL, 8, 2), 32812500000);
}

/* Never more with more ranks or a higher stage; never less than an equal share. */
static void more_ranks_hold_less(void **state) {
    (void)state;
    for (int64_t params = 1; params < 2000000000; params = params * 3 + 1) {
        for (int64_t dp = 1; dp < 5000; dp = dp * 2 + 1) {
            for (int32_t zero = 0; zero <= 3; zero++) {
                int64_t here = total(params, NULL, dp, zero);
                assert_true(total(params, NULL, dp + 1, zero) <= here);
                assert_true(zero == 3 || total(params, NULL, dp, zero + 1) <= here);
                assert_true(here * dp >= 16 * params);
            }
        }
    }
    assert_int_equal(total(7, NULL, 4, 3), 2 * 16); /* the largest share of 7 is 2 */
}

/* The list is the caller's: SGD without anything; Megatron-LM's 18; all zero is the default. */
static void own_lists(void **state) {
    const tpp_cost_bytes sgd = {.size = sizeof sgd, .weight = 4, .grad = 4};
    const tpp_cost_bytes megatron = {sizeof megatron, 0, 2, 4, 0, 4, 4, 4};
    const tpp_cost_bytes zero = {.size = sizeof zero};
    (void)state;
    assert_int_equal(total(1000, &sgd, 5, 1), 8000);
    assert_int_equal(total(1000, &megatron, 5, 1), 6000 + 2400);
    assert_int_equal(total(1000, &zero, 1, 0), 16000);
}

static void of_a_part(void **state) {
    tpp_cost_model m = {.size = sizeof m};
    tpp_cost_part part = {.size = sizeof part, .tp = 8, .layers = 20, .flags = 1};
    tpp_cost_states s = {.size = sizeof s};
    int64_t params;
    (void)state;
    assert_ok(tpp_cost_model_preset(&m, "llama2-70b"));
    assert_ok(tpp_cost_part_params(&m, &part, &params));
    assert_ok(tpp_cost_states_query(&m, &part, NULL, 2, 1, &s));
    assert_int_equal(s.params, params);
    assert_int_equal(s.weights, 2 * params);
    assert_int_equal(s.grads, 2 * params);
    assert_int_equal(s.optimizer, 6 * params);
}

static void refused(void **state) {
    tpp_cost_states s = {.size = sizeof s};
    tpp_cost_bytes bytes = {.size = sizeof bytes, .weight = 2, .variance = -1};
    (void)state;
    assert_fails(tpp_cost_states_of(-1, NULL, 1, 0, &s), TPP_ERR_INVALID, "params = -1");
    assert_fails(tpp_cost_states_of(1, NULL, 0, 0, &s), TPP_ERR_INVALID, "dp = 0");
    assert_fails(tpp_cost_states_of(1, NULL, 1, 4, &s), TPP_ERR_INVALID, "zero = 4");
    assert_fails(tpp_cost_states_of(1, NULL, 1, -1, &s), TPP_ERR_INVALID, "0, 1, 2, 3");
    assert_fails(tpp_cost_states_of(1, &bytes, 1, 0, &s), TPP_ERR_INVALID, "bytes.variance = -1");
    assert_fails(tpp_cost_states_of(1, NULL, 1, 0, NULL), TPP_ERR_INVALID, "out is NULL");
    assert_fails(tpp_cost_states_of(INT64_MAX / 15, NULL, 1, 0, &s), TPP_ERR_OVERFLOW, "64 bits");
    assert_int_equal(total(INT64_MAX / 16, NULL, 1, 0), INT64_MAX / 16 * 16);
    bytes.variance = 0;
    bytes.flags = 1;
    assert_fails(tpp_cost_states_of(1, &bytes, 1, 0, &s), TPP_ERR_TOO_NEW, "bytes.flags");
    s.size = 0;
    assert_fails(tpp_cost_states_of(1, NULL, 1, 0, &s), TPP_ERR_INVALID, "out.size = 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_table1),
        cmocka_unit_test(zero_table1_first_to_fit),
        cmocka_unit_test(gradients_are_shared_out),
        cmocka_unit_test(of_70_billion),
        cmocka_unit_test(more_ranks_hold_less),
        cmocka_unit_test(own_lists),
        cmocka_unit_test(of_a_part),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
