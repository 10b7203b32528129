/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Ratios of communication to computing, on H100s of 989 TFLOP/s, NVLink of 450 GB/s and InfiniBand
 * of 50 GB/s per GPU and direction; utilisation of runs that were published. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/cost_table.h"
#include "support/sched_support.h"

#include <tpp/cost_comm.h>

static const double peak = 989e12, nvlink = 450e9, infiniband = 50e9;

#define assert_near(got, want, bound)                                                              \
    do {                                                                                           \
        double got_ = (got), want_ = (want);                                                       \
        if (!(fabs(got_ - want_) <= (bound)))                                                      \
            fail_msg("%s is %.9g, not %.9g", #got, got_, want_);                                   \
    } while (0)

static tpp_cost_model plain(int64_t hidden, int32_t layers) {
    return (tpp_cost_model){.size = sizeof(tpp_cost_model),
                            .vocab = 1,
                            .hidden = hidden,
                            .layers = layers,
                            .heads = 64};
}

static void tensor_parallel(void **state) {
    tpp_cost_model wide = plain(8192, 80), narrow = plain(4096, 32);
    (void)state;
    assert_near(tpp_cost_ratio_tp(&wide, 0, 8, peak, nvlink), 0.63, 0.005);
    assert_near(tpp_cost_ratio_tp(&wide, 0, 8, peak, infiniband), 5.63, 0.005);
    assert_near(tpp_cost_ratio_tp(&narrow, 0, 8, peak, nvlink), 1.25, 0.005);
    assert_near(tpp_cost_ratio_tp(&narrow, 0, 8, peak, infiniband), 11.27, 0.005);
    assert_near(tpp_cost_ratio_tp(&narrow, 0, 4, peak, nvlink), 0.54, 0.005);
    assert_near(tpp_cost_ratio_tp(&narrow, 0, 4, peak, infiniband), 4.8, 0.05);
    assert_near(tpp_cost_ratio_tp(&wide, 0, 8, 400e12, nvlink), 0.25, 0.005);
    assert_near(tpp_cost_ratio_tp(&wide, 0, 8, 400e12, infiniband), 2.3, 0.05);
    assert_near(tpp_cost_ratio_tp(&wide, 0, 8, peak, nvlink), 7 * peak / (3 * 8192 * nvlink),
                1e-12);
    assert_true(tpp_cost_ratio_tp(&wide, 0, 1, peak, nvlink) == 0);
}

/* From traffic and operations of a micro-batch: rings send 2 (t - 1) / t of what is reduced. */
static void tensor_parallel_in_general(void **state) {
    static const char *const names[] = {"llama2-70b", "gpt-530b", "mixtral-8x7b"};
    (void)state;
    for (int32_t i = 0; i < 6; i++) {
        tpp_cost_model m = {.size = sizeof m};
        tpp_cost_shape shape = {.size = sizeof shape, .batch = 1, .seq = 2048, .tp = 8};
        tpp_cost_traffic t = {.size = sizeof t};
        tpp_cost_flops f = {.size = sizeof f};
        assert_ok(tpp_cost_model_preset(&m, names[i / 2]));
        m.flags |= i % 2 ? TPP_COST_PARALLEL_BLOCK : 0;
        assert_ok(tpp_cost_traffic_query(&m, &shape, TPP_COST_LAYER_FORWARD, &t));
        assert_ok(tpp_cost_flops_query(&m, 1, 2048, TPP_COST_MASK_HALF, &f));
        double sent = 2 * 7 / 8.0 * 2 * (double)t.reduce / nvlink;
        double work = (double)f.layers / m.layers / 8 / peak;
        assert_near(tpp_cost_ratio_tp(&m, 2048, 8, peak, nvlink), sent / work, 1e-9);
    }
}

static void pipeline_parallel(void **state) {
    tpp_cost_model m = plain(8192, 80);
    (void)state;
    assert_near(tpp_cost_ratio_pp(&m, 0, 1, 8, peak, infiniband), 0.02, 0.0005);
    assert_near(tpp_cost_ratio_pp(&m, 0, 1, 8, peak, infiniband),
                8 * peak / (12.0 * 8192 * 80 * infiniband), 1e-12);
    assert_near(tpp_cost_ratio_pp(&m, 0, 8, 8, peak, infiniband), 0.16, 0.005);
}

/* 4,096 tokens are less than F / W = 8,000; 128 micro-batches of them are enough: 0.0076. */
static void data_parallel(void **state) {
    (void)state;
    assert_near(tpp_cost_ratio_dp(128 * 4096, 2, 400e12, infiniband), 0.0076, 0.00005);
    assert_near(tpp_cost_ratio_dp(4096, 8, 400e12, infiniband), 0.92 / 0.54, 0.01);
    assert_true(tpp_cost_ratio_dp(8000, 1 << 30, 400e12, infiniband) < 1);
    assert_true(tpp_cost_ratio_dp(7999, 1 << 30, 400e12, infiniband) > 1);
}

/* Hidden where s / c >= (g / a) F / W. */
static void context_parallel(void **state) {
    tpp_cost_model m = {.size = sizeof m};
    (void)state;
    assert_ok(tpp_cost_model_preset(&m, "llama3-70b"));
    assert_near(tpp_cost_ratio_cp(&m, 10000, 4, TPP_COST_MASK_FULL, 1000e12, infiniband), 1, 1e-12);
    assert_near(tpp_cost_ratio_cp(&m, 10000, 4, TPP_COST_MASK_HALF, 1000e12, infiniband), 2, 1e-12);
    /* one hop: 2 k elements of two bytes over 4 b (s / c)^2 a d operations, of a rank among 8 */
    tpp_cost_shape shape = {.size = sizeof shape, .batch = 3, .seq = 10000, .tp = 8, .cp = 4};
    tpp_cost_traffic t = {.size = sizeof t};
    assert_ok(tpp_cost_traffic_query(&m, &shape, TPP_COST_LAYER_FORWARD, &t));
    double hop = 2 * (double)t.context / (double)t.context_calls / infiniband;
    double block = 4.0 * 3 * 2500 * 2500 * 8192 / 8 / 1000e12;
    assert_near(hop / block, 1, 1e-12);
}

/* Llama 3: 16,384 H100s at 400 TFLOP/s are 41 % (of 989: 40.4); Megatron's 1T: 502 PFLOP/s of 3,072
 * A100s, 52 %. */
static void utilisation(void **state) {
    cost_table table;
    (void)state;
    cost_table_read(&table, "narayanan_table1.csv");
    for (int32_t i = 0; i < table.rows; i++) {
        double all = 1e15 * cost_number(&table, i, "aggregate_pflops");
        double percent =
            100 * tpp_cost_utilisation(all, 1, 312e12, cost_integer(&table, i, "gpus"));
        assert_near(percent, cost_number(&table, i, "pct_of_312_peak"), 0.6);
    }
    assert_near(tpp_cost_utilisation(16384 * 400e12, 1, peak, 16384), 0.404, 0.0005);
    assert_near(tpp_cost_utilisation(30, 2, 3, 5), 1, 1e-15);
}

static void refused(void **state) {
    tpp_cost_model m = plain(64, 1);
    (void)state;
#define REFUSED(call, words)                                                                       \
    assert_true(isnan(call));                                                                      \
    if (!strstr(tpp_message(), words))                                                             \
    fail_msg("'%s' does not say '%s'", tpp_message(), words)
    REFUSED(tpp_cost_ratio_tp(NULL, 0, 1, 1, 1), "model is NULL");
    REFUSED(tpp_cost_ratio_tp(&m, -1, 1, 1, 1), "seq = -1");
    REFUSED(tpp_cost_ratio_tp(&m, 0, 0, 1, 1), "tp = 0");
    REFUSED(tpp_cost_ratio_tp(&m, 0, 1, 0, 1), "flops = 0 is not accepted");
    REFUSED(tpp_cost_ratio_tp(&m, 0, 1, 1, -3), "bandwidth = -3 is not accepted");
    REFUSED(tpp_cost_ratio_tp(&m, 0, 1, INFINITY, 1), "flops = inf");
    REFUSED(tpp_cost_ratio_pp(&m, 0, 0, 1, 1, 1), "copies = 0");
    REFUSED(tpp_cost_ratio_pp(&m, 0, 1, 0, 1, 1), "pp = 0");
    REFUSED(tpp_cost_ratio_cp(&m, 0, 1, 0, 1, 1), "seq = 0");
    REFUSED(tpp_cost_ratio_cp(&m, 1, 0, 0, 1, 1), "cp = 0");
    REFUSED(tpp_cost_ratio_cp(&m, 1, 1, TPP_COST_MASK_EXACT, 1, 1), "mask = 2");
    REFUSED(tpp_cost_ratio_dp(0, 1, 1, 1), "tokens = 0");
    REFUSED(tpp_cost_ratio_dp(1, 0, 1, 1), "dp = 0");
    REFUSED(tpp_cost_ratio_dp(1, 1, NAN, 1), "flops = ");
    REFUSED(tpp_cost_utilisation(-1, 1, 1, 1), "flops = -1");
    REFUSED(tpp_cost_utilisation(1, 0, 1, 1), "seconds = 0");
    REFUSED(tpp_cost_utilisation(1, 1, 0, 1), "peak = 0");
    REFUSED(tpp_cost_utilisation(1, 1, 1, 0), "ranks = 0");
    m.layers = INT32_MAX, m.hidden = INT64_MAX / 8 / 64 * 64, m.head_cols = 1;
    REFUSED(tpp_cost_ratio_tp(&m, 0, 1, 1, 1), "do not fit into 64 bits");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_parallel),   cmocka_unit_test(tensor_parallel_in_general),
        cmocka_unit_test(pipeline_parallel), cmocka_unit_test(data_parallel),
        cmocka_unit_test(context_parallel),  cmocka_unit_test(utilisation),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
