/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Bytes of K/V cache of known models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/sched_support.h"

#include <tpp/cost.h>

static int64_t of(const char *name, int32_t layers, int32_t tp, int64_t batch, int64_t seq) {
    tpp_cost_model m = {.size = sizeof m};
    int64_t bytes;
    assert_ok(tpp_cost_model_preset(&m, name));
    assert_ok(tpp_cost_kv_cache(&m, layers, tp, batch, seq, 0, &bytes));
    return bytes;
}

/* Llama 2 7B: 0.5 MiB a token, 2 GiB for 4,096; Llama 3 70B's 8 K/V heads of 128 columns: 320 KiB a
 * token, 1/8 of it on each of 8 ranks, and on 16, where pairs of ranks hold the same head. */
static void known_models(void **state) {
    (void)state;
    assert_int_equal(of("llama2-7b", 32, 0, 1, 1), 524288);
    assert_int_equal(of("llama2-7b", 32, 1, 1, 4096), 2147483648);
    assert_int_equal(of("llama3-70b", 80, 1, 1, 1), 327680);
    assert_int_equal(of("llama3-70b", 80, 8, 1, 1), 40960);
    assert_int_equal(of("llama3-70b", 80, 16, 1, 1), 40960);
    assert_int_equal(of("llama3-70b", 20, 8, 16, 8192), (int64_t)10240 * 16 * 8192);
    assert_int_equal(of("llama3-70b", 0, 8, 16, 8192), 0);
}

static void refused(void **state) {
    tpp_cost_model m = {.size = sizeof m, .vocab = 10, .hidden = 16, .layers = 3, .heads = 4};
    int64_t n;
    (void)state;
    assert_fails(tpp_cost_kv_cache(&m, -1, 1, 1, 1, 2, &n), TPP_ERR_INVALID, "layers = -1");
    assert_fails(tpp_cost_kv_cache(&m, 4, 1, 1, 1, 2, &n), TPP_ERR_INVALID, "layers = 4 is more");
    assert_fails(tpp_cost_kv_cache(&m, 1, -1, 1, 1, 2, &n), TPP_ERR_INVALID, "tp = -1");
    assert_fails(tpp_cost_kv_cache(&m, 1, 3, 1, 1, 2, &n), TPP_ERR_INVALID,
                 "tp = 3 does not divide model.heads = 4; accepted: 1, 2, 4");
    assert_fails(tpp_cost_kv_cache(&m, 1, 1, -1, 1, 2, &n), TPP_ERR_INVALID, "batch = -1");
    assert_fails(tpp_cost_kv_cache(&m, 1, 1, 1, -1, 2, &n), TPP_ERR_INVALID, "seq = -1");
    assert_fails(tpp_cost_kv_cache(&m, 1, 1, 1, 1, -2, &n), TPP_ERR_INVALID, "element_bytes = -2");
    assert_fails(tpp_cost_kv_cache(&m, 1, 1, 1, 1, 2, NULL), TPP_ERR_INVALID, "out is NULL");
    assert_fails(tpp_cost_kv_cache(&m, 1, 1, INT64_MAX, 2, 2, &n), TPP_ERR_OVERFLOW, "K/V cache");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_models), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
