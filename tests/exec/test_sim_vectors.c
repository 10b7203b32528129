/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/exec_sim.h"
#include "support/sched_support.h"

/* Both bubbles and the peaks of all orders, as published or as an event simulator that is not ours
 * says; costs are those of a whole stage: a rank's chunks share them, but for DualPipe, each of
 * whose two stages is a whole one. */

#define ANY -1.0

enum {
    GPIPE = TPP_SCHEDULE_GPIPE,
    ONE = TPP_SCHEDULE_1F1B,
    INTER = TPP_SCHEDULE_INTERLEAVED,
    BFS = TPP_SCHEDULE_BFS,
    H1 = TPP_SCHEDULE_ZB_H1,
    H2 = TPP_SCHEDULE_ZB_H2,
    ZBI = TPP_SCHEDULE_ZB_INTERLEAVED,
    ZBV = TPP_SCHEDULE_ZB_V,
    DUAL = TPP_SCHEDULE_DUALPIPE,
    DUALV = TPP_SCHEDULE_DUALPIPEV
};

static tpp_schedule *make(int32_t kind, int32_t p, int32_t v, int32_t m, uint32_t flags) {
    tpp_schedule_desc d = sched_desc(kind, p, v, m, 0);
    tpp_schedule *s;
    d.flags = flags;
    assert_ok(tpp_schedule_make(&s, &d));
    return s;
}

typedef struct vector {
    int32_t kind, p, v, m;
    double equal[2], other[2]; /* bubble global, span for costs 1, 1, 1 and 1, 1.2, 0.8 */
    double first, last;        /* peak to W of the first and the last rank, in stages */
} vector;

static void check(const vector *c, double share, double ti, double tw, const double *bubble) {
    uint32_t flags = c->kind == DUAL || c->kind == DUALV ? TPP_SCHEDULE_UNFUSED : 0;
    tpp_schedule *s = make(c->kind, c->p, c->v, c->m, flags);
    exec_sim sim;
    exec_sim_equal(&sim, s, 1 / share, ti / share, tw / share, 0);
    if (bubble[0] != ANY)
        assert_near(sim.report.bubble_global, bubble[0], 1e-9);
    if (bubble[1] != ANY)
        assert_near(sim.report.bubble_span, bubble[1], 1e-9);
    if (c->first != ANY)
        assert_near(sim.peak[0], c->first * share, 1e-9);
    if (c->last != ANY)
        assert_near(sim.peak[c->p - 1], c->last * share, 1e-9);
    exec_sim_free(&sim);
    tpp_schedule_destroy(s);
}

static void test_table(void **state) {
    static const vector cases[] = {
        {GPIPE, 4, 1, 8, {9, 9}, {9, 9}, 8, 8},
        {ONE, 4, 1, 8, {9, 9}, {9, 9}, 4, 1},
        {INTER, 4, 2, 8, {4.5, ANY}, {4.5, ANY}, 5.5, 2.5},
        {INTER, 4, 3, 8, {3, ANY}, {3, ANY}, 5, 3},
        {BFS, 4, 2, 8, {4.5, ANY}, {4.5, ANY}, 8, 8},
        {H1, 4, 1, 8, {3, 3}, {4.2, 4.2}, 4, 4},
        {ZBI, 4, 1, 8, {3, 3}, {4.2, 4.2}, 4, 4},
        {H2, 4, 1, 8, {3, 0}, {3, 1.8}, 7, 7},
        {ZBI, 4, 2, 8, {1.5, ANY}, {2.1, ANY}, 4, 4},
        {ZBV, 4, 2, 8, {1.5, 0}, {1.8, 1.2}, 4, 4},
        {DUALV, 4, 2, 8, {1.5, ANY}, {2.1, ANY}, 4.5, ANY},
        {DUAL, 4, 2, 8, {1, ANY}, {1.4, ANY}, 5, 5},
        {GPIPE, 8, 1, 16, {21, ANY}, {21, ANY}, 16, 16},
        {ONE, 8, 1, 16, {21, ANY}, {21, ANY}, 8, 1},
        {INTER, 8, 2, 16, {10.5, ANY}, {10.5, ANY}, 11.5, 4.5},
        {INTER, 8, 3, 16, {7, ANY}, {7, ANY}, 31 / 3., 17 / 3.},
        {H1, 8, 1, 16, {7, 7}, {9.8, 9.8}, 8, 8},
        {H2, 8, 1, 16, {7, 0}, {7, 4.2}, 15, 15},
        {ZBI, 8, 2, 16, {3.5, ANY}, {4.9, ANY}, 8, 8},
        {ZBV, 8, 2, 16, {3.5, 0}, {4.2, 2.8}, 8, 8},
        {DUALV, 8, 2, 16, {3.5, ANY}, {5.1, ANY}, 8.5, ANY},
        {DUAL, 8, 2, 16, {3, ANY}, {4.2, ANY}, 9, 9},
        {ZBI, 8, 2, 20, {3.5, ANY}, {4.9, ANY}, 9, ANY},
        {GPIPE, 4, 1, 2, {9, ANY}, {9, ANY}, 2, 2},
        {ONE, 4, 1, 2, {9, ANY}, {9, ANY}, 2, 1},
        {BFS, 4, 2, 2, {7.5, ANY}, {7.5, ANY}, 2, 2},
        {H1, 4, 1, 2, {5, ANY}, {5.8, ANY}, 2, 2},
        {H2, 4, 1, 2, {5, ANY}, {5.8, ANY}, 2, 2},
        {ZBI, 4, 2, 2, {3.5, ANY}, {4.3, ANY}, 2, 2},
        {ZBV, 4, 2, 2, {5, ANY}, {5.6, ANY}, 1.5, 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const vector *c = &cases[i];
        check(c, c->kind == DUAL ? 1 : c->v, 1, 1, c->equal);
        check(c, c->kind == DUAL ? 1 : c->v, 1.2, 0.8, c->other);
    }
}

/* Overlapped pairs as atoms: (p / 2 - 1)(t_FB + t_B - 3 t_W), of DualPipeV with 2 p stages, in times
 * of a chunk. */
static void test_pairs(void **state) {
    static const struct {
        int32_t kind, p, m;
        double pair, bubble, makespan; /* bubble of the rank that works least, or ANY */
    } cases[] = {
        {DUAL, 4, 8, 3, 2, 26},      {DUAL, 8, 16, 3, 6, 54},      {DUAL, 16, 32, 3, 14, ANY},
        {DUAL, 4, 8, 2.5, 1.5, ANY}, {DUAL, 8, 16, 2.5, 4.5, ANY}, {DUAL, 16, 32, 2.5, 10.5, ANY},
        {DUALV, 4, 8, 3, 6, 54},     {DUALV, 8, 16, 3, 14, ANY},   {DUALV, 16, 32, 3, 30, ANY},
    };
    double one[64], pair[64], work[16];
    tpp_run_report report;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tpp_schedule *s = make(cases[i].kind, cases[i].p, 2, cases[i].m, 0);
        for (int k = 0; k < 64; k++) {
            one[k] = 1;
            pair[k] = cases[i].pair;
        }
        tpp_sim_desc d = {.size = sizeof d,
                          .stages = 2 * cases[i].p,
                          .forward = one,
                          .backward_input = one,
                          .backward_weight = one,
                          .fused = pair};
        report = (tpp_run_report){.size = sizeof report, .row_work = work};
        exec_sim_report(s, &d, &report);
        double least = work[0];
        for (int r = 1; r < cases[i].p; r++)
            least = work[r] < least ? work[r] : least;
        assert_near(report.makespan - least, cases[i].bubble, 1e-9);
        if (cases[i].makespan != ANY)
            assert_near(report.makespan, cases[i].makespan, 1e-9);
        tpp_schedule_destroy(s);
    }
}

/* Messages: GPipe pays two ways through the pipeline, interleaved 1F1B the ways through all its
 * chunks, 1F1B for every few micro-batches again (test_sim.c). */
static void test_messages(void **state) {
    static const double late[] = {0.001, 0.01, 0.02};
    (void)state;
    for (int32_t p = 2; p <= 8; p++) {
        for (int k = 0; k < 3; k++) {
            exec_sim sim;
            tpp_schedule *s = make(GPIPE, p, 1, 2 * p, 0);
            exec_sim_equal(&sim, s, 1, 1, 1, late[k]);
            assert_near(sim.report.makespan, 3 * (3 * p - 1) + 2 * (p - 1) * late[k], 1e-9);
            exec_sim_free(&sim);
            tpp_schedule_destroy(s);
            for (int32_t v = 2; v <= 3; v++) {
                s = make(INTER, p, v, 2 * p, 0);
                exec_sim_equal(&sim, s, 1. / v, 1. / v, 1. / v, late[k]);
                assert_near(sim.report.makespan,
                            6 * p + (p - 1) * 3. / v + 2 * (p * v - 1) * late[k], 1e-9);
                exec_sim_free(&sim);
                tpp_schedule_destroy(s);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
