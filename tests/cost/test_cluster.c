/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Times on a cluster: closed forms written out one by one, figures that papers and courses print. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/sched_support.h"

#include <tpp/cluster.h>

/* 4 nodes of 8: latency 1 us and 300 GB/s in a node, 5 us and 25 GB/s between. */
static tpp_cluster plain(void) {
    tpp_cluster c = {.size = sizeof c, .ranks = 32, .levels = 2};
    c.links[0] = (tpp_link){.ranks = 8, .latency = 1e-6, .bandwidth = 300e9};
    c.links[1] = (tpp_link){.ranks = 32, .latency = 5e-6, .bandwidth = 25e9};
    c.peak_bf16 = 312e12, c.memory_bandwidth = 2e12;
    return c;
}

static tpp_collective_time take(const tpp_cluster *c, tpp_collective what, tpp_algorithm how,
                                double bytes, int64_t ranks, int64_t stride) {
    tpp_collective_time t = {.size = sizeof t};
    assert_ok(tpp_cluster_collective(c, what, how, bytes, ranks, stride, &t));
    return t;
}

static void near(const char *what, double got, double want, double bound) {
    assert_close_f64(what, &got, &want, 1, bound);
}

enum {
    SUM = TPP_COLLECTIVE_ALL_REDUCE,
    GATHER = TPP_COLLECTIVE_ALL_GATHER,
    SCATTER = TPP_COLLECTIVE_REDUCE_SCATTER,
    BROADCAST = TPP_COLLECTIVE_BROADCAST,
    EXCHANGE = TPP_COLLECTIVE_ALL_TO_ALL,
};

static void closed_forms(void **state) {
    static const struct {
        int32_t ranks, rounds;
    } groups[] = {{2, 1}, {3, 2}, {4, 2}, {7, 3}, {8, 3}};
    const tpp_cluster c = plain();
    (void)state;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        double n = groups[i].ranks, k = groups[i].rounds, a = 1e-6, w = 300e9, s = 12345678;
        const struct {
            int what, how;
            double seconds;
        } rows[] = {
            {SUM, TPP_ALGORITHM_RING, 2 * (n - 1) * a + 2 * (n - 1) / n * s / w},
            {SUM, TPP_ALGORITHM_TREE, 2 * k * a + 2 * s / w},
            {SUM, TPP_ALGORITHM_RECURSIVE, k * (a + s / w)},
            {SUM, TPP_ALGORITHM_HALVING, 2 * k * a + 2 * (n - 1) / n * s / w},
            {GATHER, TPP_ALGORITHM_RING, (n - 1) * a + (n - 1) / n * s / w},
            {GATHER, TPP_ALGORITHM_RECURSIVE, k * a + (n - 1) / n * s / w},
            {SCATTER, TPP_ALGORITHM_RING, (n - 1) * a + (n - 1) / n * s / w},
            {SCATTER, TPP_ALGORITHM_RECURSIVE, k * a + (n - 1) / n * s / w},
            {BROADCAST, TPP_ALGORITHM_RING, (n - 1) * a + s / w},
            {BROADCAST, TPP_ALGORITHM_TREE, k * (a + s / w)},
            {EXCHANGE, TPP_ALGORITHM_RING, (n - 1) * a + (n - 1) / n * s / w},
            {EXCHANGE, TPP_ALGORITHM_RECURSIVE, k * (a + s / 2 / w)},
        };
        double best[EXCHANGE + 1] = {0};
        for (size_t j = 0; j < sizeof rows / sizeof *rows; j++) {
            double got = take(&c, rows[j].what, rows[j].how, s, groups[i].ranks, 1).seconds;
            near("seconds", got, rows[j].seconds, 1e-14);
            double *b = &best[rows[j].what];
            *b = *b == 0 ? rows[j].seconds : fmin(*b, rows[j].seconds);
        }
        for (int what = SUM; what <= EXCHANGE; what++)
            near("best", take(&c, what, 0, s, groups[i].ranks, 1).seconds, best[what], 1e-14);
    }
}

/* Small tensors are best doubled, large ones go round a ring or are halved. */
static void choice(void **state) {
    const tpp_cluster c = plain();
    (void)state;
    assert_int_equal(take(&c, SUM, 0, 8, 8, 1).algorithm, TPP_ALGORITHM_RECURSIVE);
    assert_int_equal(take(&c, SUM, 0, 1e9, 8, 1).algorithm, TPP_ALGORITHM_HALVING);
    tpp_collective_time ring = take(&c, SUM, TPP_ALGORITHM_RING, 8e6, 8, 1);
    near("bytes", ring.bytes, 14e6, 1e-15);
    near("messages", ring.messages, 14, 0);
    near("latency", ring.latency, 14e-6, 1e-15);
    assert_int_equal(ring.level, 0);
    tpp_collective_time one = take(&c, SUM, 0, 8e6, 1, 1);
    assert_true(one.seconds == 0 && one.bytes == 0 && one.algorithm == 0);
}

/* 32 ranks: 8 in a node share what goes between the 4 nodes. */
static void two_levels(void **state) {
    const tpp_cluster c = plain();
    double s = 1e9, inside = 3e-6 + 7 / 8.0 * s / 300e9;
    double between = 2 * 2 * 5e-6 + 2 * 3 / 4.0 * (s / 8) / 25e9;
    (void)state;
    tpp_collective_time t = take(&c, SUM, TPP_ALGORITHM_TWO_LEVEL, s, 32, 1);
    near("all-reduce", t.seconds, 2 * inside + between, 1e-14);
    near("bytes", t.bytes, 2 * 7 / 8.0 * s + 2 * 3 / 4.0 * s / 8, 1e-14);
    assert_int_equal(t.level, 1);
    assert_int_equal(take(&c, SUM, 0, s, 32, 1).algorithm, TPP_ALGORITHM_TWO_LEVEL);
    t = take(&c, GATHER, TPP_ALGORITHM_TWO_LEVEL, s, 32, 1);
    near("gather", t.seconds, inside + 2 * 5e-6 + 3 / 4.0 * (s / 8) / 25e9, 1e-14);
    /* every second rank: 4 in a node */
    t = take(&c, SCATTER, TPP_ALGORITHM_TWO_LEVEL, s, 16, 2);
    near("scatter", t.seconds, 2e-6 + 3 / 4.0 * s / 300e9 + 10e-6 + 3 / 4.0 * (s / 4) / 25e9,
         1e-14);
    /* every eighth: one in a node, no second level */
    t = take(&c, SUM, TPP_ALGORITHM_RING, s, 4, 8);
    near("across", t.seconds, 6 * 5e-6 + 6 / 4.0 * s / 25e9, 1e-14);
    tpp_collective_time none = {.size = sizeof none};
    assert_int_equal(tpp_cluster_collective(&c, SUM, TPP_ALGORITHM_TWO_LEVEL, s, 4, 8, &none),
                     TPP_ERR_INVALID);
    assert_int_equal(take(&c, SUM, 0, s, 4, 2).level, 0);
    assert_int_equal(take(&c, SUM, 0, s, 5, 2).level, 1);
}

/* Figures for NVLink 450 GB/s and InfiniBand 50 GB/s without latency: 70B on 64 H100. */
static void figures(void **state) {
    tpp_cluster c = {.size = sizeof c, .ranks = 64, .levels = 2};
    (void)state;
    c.links[0] = (tpp_link){.ranks = 8, .bandwidth = 450e9};
    c.links[1] = (tpp_link){.ranks = 64, .bandwidth = 50e9};
    near("a boundary's message", tpp_cluster_message(&c, 4096 * 8192 * 2 / 8.0, 8), 0.17e-3, 0.02);
    /* one layer of h 8192, T 4096: two all-reduces of 67 MB, forward; 235 MB sent */
    double layer = 2 * 4096 * 8192 * 2.0;
    tpp_collective_time t = take(&c, SUM, TPP_ALGORITHM_RING, layer, 8, 1);
    near("sent", t.bytes, 235e6, 0.002);
    near("NVLink", t.seconds, 0.52e-3, 0.01);
    near("InfiniBand", take(&c, SUM, TPP_ALGORITHM_RING, layer, 8, 8).seconds, 4.7e-3, 0.01);
    /* ZeRO-3 over 8 nodes: three times 17.5 GB of bfloat16, 7/8 of it sent */
    t = take(&c, GATHER, TPP_ALGORITHM_RING, 2 * 70e9 / 8, 8, 8);
    near("ZeRO-3 bytes", 3 * t.bytes, 45.9e9, 0.001);
    near("ZeRO-3 seconds", 3 * t.seconds, 0.92, 0.002);
}

static void curves(void **state) {
    tpp_curve k = {.points = 3, .at = {1e2, 1e4, 1e5}, .value = {0.2, 0.6, 0.8}};
    (void)state;
    near("below", tpp_curve_at(&k, 1), 0.2, 0);
    near("first", tpp_curve_at(&k, 1e2), 0.2, 0);
    near("middle", tpp_curve_at(&k, 1e3), 0.4, 1e-15);
    near("point", tpp_curve_at(&k, 1e4), 0.6, 1e-15);
    near("upper", tpp_curve_at(&k, sqrt(1e9)), 0.7, 1e-15);
    near("above", tpp_curve_at(&k, 1e9), 0.8, 0);
    near("none", tpp_curve_at(NULL, 5), 1, 0);
    tpp_cluster c = plain();
    c.link = k;
    near("message", tpp_cluster_message(&c, 1e3, 1), 1e-6 + 1e3 / (300e9 * 0.4), 1e-14);
    /* a ring's message is a share of the tensor */
    near("ring", take(&c, GATHER, TPP_ALGORITHM_RING, 8e3, 8, 1).seconds,
         7e-6 + 7e3 / (300e9 * 0.4), 1e-14);
}

static void alone(void **state) {
    tpp_cluster c = plain();
    (void)state;
    near("pass at full bandwidth", tpp_cluster_pass(&c, 1e9), 0.5e-3, 1e-15);
    c.launch = 2e-6, c.memory_share = 0.5;
    c.gemm = (tpp_curve){.points = 1, .at = {1}, .value = {0.8}};
    c.attention = (tpp_curve){.points = 1, .at = {1}, .value = {0.4}};
    near("product", tpp_cluster_product(&c, TPP_BF16, 312e9), 2e-6 + 1.25e-3, 1e-15);
    near("attention", tpp_cluster_attention(&c, TPP_BF16, 312e9), 2e-6 + 2.5e-3, 1e-15);
    near("pass", tpp_cluster_pass(&c, 1e9), 2e-6 + 1e-3, 1e-15);
}

static void presets(void **state) {
    tpp_cluster c = {.size = sizeof c};
    const char *name;
    int32_t count = 0;
    (void)state;
    for (; (name = tpp_cluster_preset_name(count)); count++) {
        assert_ok(tpp_cluster_preset(&c, name, 3));
        assert_ok(tpp_cluster_check(&c));
        assert_string_equal(c.name, name);
        assert_int_equal(c.ranks, 3 * c.links[0].ranks);
        assert_non_null(strstr(tpp_cluster_preset_sources(name), "data sheet"));
        assert_ok(tpp_cluster_preset(&c, name, 1));
        assert_ok(tpp_cluster_check(&c));
        assert_int_equal(c.levels, 1);
    }
    assert_int_equal(count, 6);
    assert_null(tpp_cluster_preset_name(-1));
    assert_null(tpp_cluster_preset_sources("abacus"));
    assert_ok(tpp_cluster_preset(&c, "h100", 8));
    assert_true(c.ranks == 64 && c.peak_bf16 == 989e12 && c.links[1].bandwidth == 50e9);
}

static void refused_cluster(tpp_cluster c, const char *words) {
    assert_int_equal(tpp_cluster_check(&c), TPP_ERR_INVALID);
    if (!strstr(tpp_message(), words))
        fail_msg("'%s' does not say '%s'", tpp_message(), words);
}

#define REFUSED(field, wrong, words)                                                               \
    do {                                                                                           \
        tpp_cluster c = plain();                                                                   \
        c.field = (wrong);                                                                         \
        refused_cluster(c, words);                                                                 \
    } while (0)

static void refused(void **state) {
    (void)state;
    REFUSED(ranks, 0, "cluster.ranks = 0");
    REFUSED(ranks, 64, "cluster.links[1].ranks = 32, of the last level, is not cluster.ranks = 64");
    REFUSED(levels, 0, "cluster.levels = 0 is not accepted; accepted: 1 .. 4 for 32 ranks");
    REFUSED(levels, 5, "cluster.levels = 5");
    REFUSED(links[0].ranks, 1, "cluster.links[0].ranks = 1");
    REFUSED(links[0].ranks, 5, "cluster.links[1].ranks = 32");
    REFUSED(links[1].latency, -1, "cluster.links[1].latency = -1");
    REFUSED(links[1].bandwidth, 0, "cluster.links[1].bandwidth = 0");
    REFUSED(memory, NAN, "cluster.memory = ");
    REFUSED(launch, -1, "cluster.launch = -1");
    REFUSED(memory_share, 2, "cluster.memory_share = 2");
    REFUSED(gemm.points, 17, "cluster.gemm.points = 17");
    REFUSED(link.points, 1,
            "cluster.link.at[0] = 0 is not accepted; accepted: finite numbers above 0");
    tpp_cluster c = plain();
    c.attention = (tpp_curve){.points = 2, .at = {2, 2}, .value = {1, 1}};
    refused_cluster(
        c, "cluster.attention.at[1] = 2 is not accepted; accepted: finite numbers above 2");
    c.attention = (tpp_curve){.points = 1, .at = {2}, .value = {1.5}};
    refused_cluster(c, "cluster.attention.value[0] = 1.5");
    c = plain();
    memset(c.name, 'x', sizeof c.name);
    refused_cluster(c, "cluster.name has no zero byte");
}

static void says(tpp_status status, const char *words) {
    assert_int_equal(status, TPP_ERR_INVALID);
    if (!strstr(tpp_message(), words))
        fail_msg("'%s' does not say '%s'", tpp_message(), words);
}

static void no_time(double seconds, const char *words) {
    assert_true(isnan(seconds));
    says(TPP_ERR_INVALID, words);
}

static void refused_calls(void **state) {
    tpp_cluster c = plain();
    tpp_collective_time t = {.size = sizeof t};
    (void)state;
    says(tpp_cluster_collective(&c, 0, 0, 1, 2, 1, &t), "collective = 0");
    says(tpp_cluster_collective(&c, SUM, 6, 1, 2, 1, &t), "algorithm = 6");
    says(tpp_cluster_collective(&c, GATHER, TPP_ALGORITHM_TREE, 1, 2, 1, &t), "algorithm = 2");
    says(tpp_cluster_collective(&c, SUM, 0, -1, 2, 1, &t), "bytes = -1");
    says(tpp_cluster_collective(&c, SUM, 0, 1, 0, 1, &t), "ranks = 0");
    says(tpp_cluster_collective(&c, SUM, 0, 1, 2, 0, &t), "stride = 0");
    says(tpp_cluster_collective(&c, SUM, 0, 1, 5, 8, &t), "ranks = 5 with stride = 8");
    says(tpp_cluster_collective(&c, SUM, 0, 1, INT64_MAX, 2, &t), "more than cluster.ranks = 32");
    says(tpp_cluster_collective(NULL, SUM, 0, 1, 2, 1, &t), "cluster is NULL");
    no_time(tpp_cluster_message(&c, 1, 32), "stride = 32 is not below cluster.ranks = 32");
    no_time(tpp_cluster_message(&c, NAN, 1), "bytes = ");
    no_time(tpp_cluster_product(&c, TPP_F32, 1), "peak of float32 is not known");
    no_time(tpp_cluster_product(&c, TPP_I32, 1), "dtype = 16");
    no_time(tpp_cluster_attention(&c, TPP_BF16, -1), "flops = -1");
    c.memory_bandwidth = 0;
    no_time(tpp_cluster_pass(&c, 1), "cluster.memory_bandwidth is not known");
    says(tpp_cluster_preset(&c, "abacus", 1), "accepted: a100, h100, h200, b200, gh200, mi300x");
    says(tpp_cluster_preset(&c, NULL, 1), "name is NULL");
    says(tpp_cluster_preset(&c, "h100", 0), "nodes = 0");
    assert_int_equal(tpp_cluster_preset(&c, "h100", INT64_MAX), TPP_ERR_OVERFLOW);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_forms), cmocka_unit_test(choice),  cmocka_unit_test(two_levels),
        cmocka_unit_test(figures),      cmocka_unit_test(curves),  cmocka_unit_test(alone),
        cmocka_unit_test(presets),      cmocka_unit_test(refused), cmocka_unit_test(refused_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
