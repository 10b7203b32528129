/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/exec_sim.h"

enum { G = TPP_SCHEDULE_GPIPE, O = TPP_SCHEDULE_1F1B, I = TPP_SCHEDULE_INTERLEAVED };
#define NONE -1.0

/* Costs are per whole stage of a rank (v chunks), so a chunk costs 1/v of them. */
typedef struct vector {
    int32_t kind, p, v, m, group;
    double latency;
    double makespan, global, span; /* NONE: not published */
    int32_t peaks[8];              /* per rank; 0: not published */
} vector;

static void run_vector(const vector *c, double tf, double ti, double tw) {
    tpp_schedule *s = exec_schedule(c->kind, c->p, c->v, c->m, c->group);
    exec_sim sim;
    exec_sim_equal(&sim, s, tf / c->v, ti / c->v, tw / c->v, c->latency);
    if (c->makespan != NONE)
        assert_near(sim.report.makespan, c->makespan, 1e-9);
    if (c->global != NONE)
        assert_near(sim.report.bubble_global, c->global, 1e-9);
    if (c->span != NONE)
        assert_near(sim.report.bubble_span, c->span, 1e-9);
    assert_near(sim.report.work, c->m * (tf + ti + tw), 1e-9);
    int32_t want[8];
    assert_int_equal(tpp_schedule_peaks(s, want), TPP_OK);
    for (int32_t r = 0; r < c->p; r++) {
        assert_int_equal(sim.peak[r], want[r]);
        if (c->peaks[r] > 0)
            assert_int_equal(sim.peak[r], c->peaks[r]);
        assert_near(sim.work[r], c->m * (tf + ti + tw), 1e-9);
    }
    exec_sim_free(&sim);
    tpp_schedule_destroy(s);
}

/* The published comparisons of the three orders. */
static void test_lessons(void **state) {
    static const vector cases[] = {
        {G, 4, 1, 4, 0, 0, 21, 9, NONE, {4, 4, 4, 4}}, /* 3/7 of the total */
        {O, 4, 1, 4, 0, 0, 21, 9, NONE, {4, 3, 2, 1}},
        {G, 4, 1, 12, 0, 0, 45, 9, NONE, {12, 12, 12, 12}},
        {O, 4, 1, 12, 0, 0, 45, 9, NONE, {4, 3, 2, 1}},
        {I, 4, 3, 12, 0, 0, 39, 3, NONE, {15}},
        {G, 6, 1, 18, 0, 0, 69, 15, NONE, {18}},
        {O, 6, 1, 18, 0, 0, 69, 15, NONE, {6, 5, 4, 3, 2, 1}},
        {I, 6, 2, 18, 0, 0, 61.5, 7.5, NONE, {0}},
        {G, 8, 1, 24, 0, 0, 93, 21, NONE, {24}}, /* 7/31 of the total */
        {O, 8, 1, 24, 0, 0, 93, 21, NONE, {8}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_vector(&cases[i], 1, 1, 1);
}

/* Orders that other systems refuse, or hang on: O01 to O04, and groups that are not full. */
static void test_behaviours(void **state) {
    static const vector cases[] = {
        {I, 2, 2, 4, 0, 0, 13.5, NONE, NONE, {5, 3}},
        {I, 2, 2, 2, 0, 0, 7.5, NONE, NONE, {4, 3}},
        {I, 4, 2, 10, 5, 0, 34.5, NONE, NONE, {12, 10, 8, 6}},
        {I, 4, 2, 6, 4, 0, 27.5, NONE, NONE, {0}},
        {O, 8, 1, 4, 0, 0, 33, NONE, NONE, {4, 4, 4, 4, 4, 3, 2, 1}},
        {O, 8, 1, 1, 0, 0, 24, NONE, NONE, {1, 1, 1, 1, 1, 1, 1, 1}},
        {I, 4, 2, 10, 4, 0, NONE, 9.5, NONE, {0}},
        {I, 4, 2, 11, 4, 0, NONE, 5.5, NONE, {0}},
        {I, 4, 2, 3, 3, 0, NONE, 6, NONE, {0}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_vector(&cases[i], 1, 1, 1);
}

/* Both bubbles do not depend on how the backward is cut, as long as B is one action. */
static void test_both_bubbles(void **state) {
    static const vector cases[] = {
        {G, 4, 1, 8, 0, 0, 33, 9, 9, {8, 0, 0, 8}},
        {O, 4, 1, 8, 0, 0, 33, 9, 9, {4, 0, 0, 1}},
        {I, 4, 2, 8, 0, 0, 28.5, 4.5, 4.5, {11, 0, 0, 5}},
        {I, 4, 3, 8, 0, 0, 27, 3, 3, {15, 0, 0, 9}},
        {G, 8, 1, 16, 0, 0, 69, 21, 21, {16, 0, 0, 0, 0, 0, 0, 16}},
        {O, 8, 1, 16, 0, 0, 69, 21, 21, {8, 0, 0, 0, 0, 0, 0, 1}},
        {I, 8, 2, 16, 0, 0, 58.5, 10.5, 10.5, {23, 0, 0, 0, 0, 0, 0, 9}},
        {I, 8, 3, 16, 0, 0, 55, 7, 7, {31, 0, 0, 0, 0, 0, 0, 17}},
        {G, 4, 1, 2, 0, 0, 15, 9, 9, {2, 0, 0, 2}},
        {O, 4, 1, 2, 0, 0, 15, 9, 9, {2, 0, 0, 1}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_vector(&cases[i], 1, 1, 1);
        run_vector(&cases[i], 1, 1.2, 0.8);
    }
}

static void test_latency(void **state) {
    static const vector cases[] = {
        {G, 4, 1, 8, 0, 1, 33 + 6, NONE, NONE, {0}},
        {G, 8, 1, 16, 0, 0.5, 69 + 7, NONE, NONE, {0}},
        {O, 4, 1, 8, 0, 1, 33 + 16, NONE, NONE, {0}},
        {O, 4, 1, 16, 0, 1, 57 + 28, NONE, NONE, {0}},
        {O, 8, 1, 32, 0, 1, 117 + 68, NONE, NONE, {0}},
        {O, 1, 1, 5, 0, 7, 15, NONE, NONE, {1}}, /* one rank: nothing travels */
        {I, 1, 3, 5, 0, 7, 15, NONE, NONE, {0}}, /* nor between the chunks of one rank */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_vector(&cases[i], 1, 1, 1);
}

/* (m + p - 1)(tf + tb), and for interleaved orders of full groups the bubble divided by v. */
static void test_closed_forms(void **state) {
    static const double costs[][2] = {{1, 2}, {2, 1}, {1, 1}, {5, 1}};
    (void)state;
    for (int32_t p = 1; p <= 8; p++) {
        for (int32_t m = 1; m <= 16; m++) {
            for (int k = 0; k < 4; k++) {
                double f = costs[k][0], b = costs[k][1], total = (m + p - 1) * (f + b);
                vector c = {G, p, 1, m, 0, 0, total, (p - 1) * (f + b), NONE, {0}};
                run_vector(&c, f, b, 0);
                c.kind = O;
                run_vector(&c, f, b, 0);
                for (int32_t v = 1; v <= 3 && m % p == 0; v++) {
                    double bubble = (p - 1) * (f + b) / v;
                    vector i = {I, p, v, m, 0, 0, m * (f + b) + bubble, bubble, NONE, {0}};
                    run_vector(&i, f, b, 0);
                }
            }
        }
    }
}

/* The end of every B of 1F1B, also for m < p and tf > tb. */
static void test_ends_of_1f1b(void **state) {
    static const double costs[][2] = {{1, 2}, {2, 1}, {3, 1}};
    (void)state;
    for (int32_t p = 1; p <= 8; p++) {
        for (int32_t m = 1; m <= 12; m++) {
            for (int k = 0; k < 3; k++) {
                double f = costs[k][0], b = costs[k][1];
                tpp_schedule *s = exec_schedule(O, p, 1, m, 0);
                exec_sim sim;
                exec_sim_equal(&sim, s, f, b, 0, 0);
                for (int32_t r = 0; r < p; r++) {
                    for (int32_t i = 0; i < m; i++) {
                        double end = (p - 1) * f + (i + 1) * (f + b) + (p - 1 - r) * b;
                        assert_near(exec_sim_end(&sim, TPP_OP_B, r, i), end, 1e-9);
                    }
                }
                exec_sim_free(&sim);
                tpp_schedule_destroy(s);
            }
        }
    }
}

/* The walk through a step that the design tells: stage 1, micro-batch 3. */
static void test_walk_through(void **state) {
    exec_sim sim;
    tpp_schedule *s = exec_schedule(O, 4, 1, 8, 0);
    (void)state;
    exec_sim_equal(&sim, s, 1, 1, 1, 0);
    assert_near(exec_sim_end(&sim, TPP_OP_F, 1, 3), 11, 0);
    assert_near(exec_sim_end(&sim, TPP_OP_B, 1, 3), 19, 0);
    assert_near(sim.report.makespan, 33, 0);
    exec_sim_free(&sim);
    tpp_schedule_destroy(s);
    s = exec_schedule(G, 3, 1, 4, 0); /* the forward phase alone takes 6 slots */
    exec_sim_equal(&sim, s, 1, 1, 1, 0);
    assert_near(exec_sim_end(&sim, TPP_OP_F, 2, 3), 6, 0);
    exec_sim_free(&sim);
    tpp_schedule_destroy(s);
}

/* ZB-H1 for p = 2, m = 3, worked out by hand. */
static void test_halves(void **state) {
    tpp_schedule *s = exec_schedule_text("0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2\n"
                                         "1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2\n");
    exec_sim sim;
    (void)state;
    exec_sim_equal(&sim, s, 1, 1, 1, 0);
    static const double ends_i[2][3] = {{4, 7, 9}, {3, 5, 8}},
                        ends_w[2][3] = {{5, 8, 10}, {6, 9, 10}};
    for (int32_t r = 0; r < 2; r++) {
        for (int32_t i = 0; i < 3; i++) {
            assert_near(exec_sim_end(&sim, TPP_OP_I, r, i), ends_i[r][i], 0);
            assert_near(exec_sim_end(&sim, TPP_OP_W, r, i), ends_w[r][i], 0);
        }
        assert_int_equal(sim.peak[r], 2);
    }
    assert_near(sim.report.makespan, 10, 0);
    assert_near(sim.report.bubble_global, 1, 0);
    assert_near(sim.report.bubble_span, 1, 0);
    exec_sim_free(&sim);
    exec_sim_equal(&sim, s, 1, 1.2, 0.8, 0);
    assert_near(sim.report.bubble_global, 1.4, 1e-12); /* (p - 1)(tf + ti - tw) */
    exec_sim_free(&sim);
    tpp_schedule_destroy(s);
}

static void test_unequal_stages(void **state) {
    static const double forward[] = {1, 2}, backward[] = {2, 3};
    tpp_sim_desc d = {.size = sizeof d, .stages = 2, .forward = forward, .backward = backward};
    tpp_schedule *s = exec_schedule(O, 2, 1, 2, 0);
    exec_sim sim;
    (void)state;
    exec_sim_run(&sim, s, &d);
    assert_near(exec_sim_end(&sim, TPP_OP_F, 1, 0), 3, 0);
    assert_near(exec_sim_end(&sim, TPP_OP_B, 1, 0), 6, 0);
    assert_near(exec_sim_end(&sim, TPP_OP_B, 0, 0), 8, 0);
    assert_near(exec_sim_end(&sim, TPP_OP_B, 1, 1), 11, 0);
    assert_near(sim.report.makespan, 13, 0);
    assert_near(sim.report.work, 10, 0);
    assert_near(sim.report.bubble_global, 7, 0);
    assert_near(sim.report.bubble_span, 7, 0);
    assert_near(sim.work[0], 6, 0);
    assert_near(sim.work[1], 10, 0);
    exec_sim_free(&sim);
    tpp_schedule_destroy(s);
}

/* Halves not given are half of the whole; a whole not given is their sum. */
static void test_missing_costs(void **state) {
    static const double one[] = {1}, four[] = {4}, three[] = {3};
    tpp_schedule *whole = exec_schedule(G, 1, 1, 1, 0),
                 *halves = exec_schedule_text("0F0 0I0 0W0\n");
    tpp_sim_desc d = {.size = sizeof d, .stages = 1, .forward = one, .backward = four};
    exec_sim sim;
    (void)state;
    exec_sim_run(&sim, halves, &d);
    assert_near(exec_sim_end(&sim, TPP_OP_I, 0, 0), 3, 0);
    assert_near(exec_sim_end(&sim, TPP_OP_W, 0, 0), 5, 0);
    exec_sim_free(&sim);
    d.backward = NULL;
    d.backward_input = three;
    d.backward_weight = four;
    exec_sim_run(&sim, whole, &d);
    assert_near(sim.report.makespan, 8, 0);
    exec_sim_free(&sim);
    tpp_schedule_destroy(whole);
    tpp_schedule_destroy(halves);
}

static void expect_refused(const tpp_sim_desc *d, tpp_status status, const char *part) {
    tpp_executor *e = (tpp_executor *)d;
    assert_int_equal(tpp_executor_sim_create(&e, d), status);
    assert_null(e);
    if (!strstr(tpp_message(), part))
        fail_msg("\"%s\" does not say \"%s\"", tpp_message(), part);
}

static void test_door(void **state) {
    double good[2] = {1, 1}, bad[2] = {1, -2};
    const tpp_sim_desc d = {.size = sizeof d, .stages = 2, .forward = good, .backward = good};
    (void)state;
    assert_int_equal(tpp_executor_sim_create(NULL, &d), TPP_ERR_INVALID);
    expect_refused(NULL, TPP_ERR_INVALID, "desc is NULL");
    tpp_sim_desc x = d;
    x.stages = 0;
    expect_refused(&x, TPP_ERR_INVALID, "desc.stages = 0");
    x = d;
    x.forward = NULL;
    expect_refused(&x, TPP_ERR_INVALID, "desc.forward is NULL");
    x = d;
    x.forward = bad;
    expect_refused(&x, TPP_ERR_INVALID, "desc.forward[1] = -2");
    x = d;
    x.backward_weight = bad;
    expect_refused(&x, TPP_ERR_INVALID, "desc.backward_weight[1] = -2");
    x = d;
    x.backward = bad;
    bad[1] = NAN;
    expect_refused(&x, TPP_ERR_INVALID, "desc.backward[1] = ");
    x = d;
    x.backward_input = bad;
    bad[1] = HUGE_VAL;
    expect_refused(&x, TPP_ERR_INVALID, "desc.backward_input[1] = inf");
    x = d;
    x.backward = NULL;
    expect_refused(&x, TPP_ERR_INVALID, "backward_input");
    x.backward_input = good;
    expect_refused(&x, TPP_ERR_INVALID, "backward_weight");
    x = d;
    x.latency = -1;
    expect_refused(&x, TPP_ERR_INVALID, "desc.latency = -1");
    x = d;
    x.memory = bad;
    bad[1] = -3;
    expect_refused(&x, TPP_ERR_INVALID, "desc.memory[1] = -3");
    x = d;
    x.send_backward = bad;
    expect_refused(&x, TPP_ERR_INVALID, "desc.send_backward[1] = -3");
    x = d;
    x.edge_latency = bad;
    expect_refused(&x, TPP_ERR_INVALID, "desc.edge_latency[1] = -3");
    x = d;
    x.flags = 8;
    expect_refused(&x, TPP_ERR_TOO_NEW, "desc.flags");
}

static void test_refused_runs(void **state) {
    double costs[4] = {1, 1, 1, 1};
    tpp_sim_desc d = {.size = sizeof d, .stages = 4, .forward = costs, .backward = costs};
    tpp_schedule *s = exec_schedule(O, 2, 1, 3, 0);
    tpp_executor *e;
    _Alignas(64) char memory[64];
    tpp_run run = {.size = sizeof run, .schedule = s, .memory = memory, .memory_bytes = 64};
    (void)state;
    assert_int_equal(tpp_executor_sim_create(&e, &d), TPP_OK);
    assert_int_equal(tpp_executor_run(e, &run, NULL), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "2 stages"));
    tpp_executor_destroy(e);
    d.stages = 2;
    assert_int_equal(tpp_executor_sim_create(&e, &d), TPP_OK);
    assert_int_equal(tpp_executor_run(e, &run, NULL), TPP_ERR_TOO_SMALL);
    int64_t need;
    char text[32];
    assert_int_equal(tpp_run_query(&run, &need), TPP_OK);
    snprintf(text, sizeof text, "needs %lld", (long long)need);
    assert_non_null(strstr(tpp_message(), text));
    tpp_executor_destroy(e);
    tpp_schedule_destroy(s);
}

/* Costs are finite, their sum is not: no time is told. */
static void test_overflow(void **state) {
    static const double huge[] = {1e308, 1e308};
    tpp_sim_desc d = {.size = sizeof d, .stages = 2, .forward = huge, .backward = huge};
    tpp_schedule *s = exec_schedule(O, 2, 1, 3, 0);
    tpp_executor *e;
    tpp_event path[32];
    tpp_run run = {.size = sizeof run, .schedule = s};
    tpp_run_report report = {.size = sizeof report, .path = path, .path_room = 32};
    (void)state;
    assert_int_equal(tpp_executor_sim_create(&e, &d), TPP_OK);
    assert_int_equal(tpp_run_query(&run, &run.memory_bytes), TPP_OK);
    run.memory = aligned_alloc(64, (size_t)run.memory_bytes);
    assert_int_equal(tpp_executor_run(e, &run, &report), TPP_ERR_OVERFLOW);
    assert_non_null(strstr(tpp_message(), "more than a double holds"));
    report.path_room = -1;
    assert_int_equal(tpp_executor_run(e, &run, &report), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "report.path_room = -1"));
    tpp_executor_destroy(e);
    free(run.memory);
    tpp_schedule_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lessons),        cmocka_unit_test(test_behaviours),
        cmocka_unit_test(test_both_bubbles),   cmocka_unit_test(test_latency),
        cmocka_unit_test(test_closed_forms),   cmocka_unit_test(test_ends_of_1f1b),
        cmocka_unit_test(test_walk_through),   cmocka_unit_test(test_halves),
        cmocka_unit_test(test_unequal_stages), cmocka_unit_test(test_missing_costs),
        cmocka_unit_test(test_door),           cmocka_unit_test(test_refused_runs),
        cmocka_unit_test(test_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
