/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/sched_atoms.h"
#include "support/sched_support.h"

#include <math.h>
#include <tpp/exec.h>

enum { TOGETHER = 0, APART = 1 };

static tpp_schedule *dual(tpp_schedule_kind kind, int32_t p, int32_t m, int apart) {
    tpp_schedule_desc d = sched_desc(kind, p, 0, m, 0);
    tpp_schedule *s = NULL;
    d.flags = apart ? TPP_SCHEDULE_UNFUSED : 0;
    if (tpp_schedule_create(&s, &d) < 0)
        fail_msg("kind %d p %d m %d: %s", kind, p, m, tpp_message());
    return s;
}

static sched_atoms run_atoms(tpp_schedule_kind kind, int32_t p, int32_t m, int apart,
                             sched_costs costs) {
    tpp_schedule *s = dual(kind, p, m, apart);
    sched_atoms out = sched_atoms_run(s, costs);
    assert_true(out.finished);
    tpp_schedule_destroy(s);
    return out;
}

static void near_to(double got, double expected, int32_t p, int32_t m) {
    if (!(fabs(got - expected) < 1e-9))
        fail_msg("p %d m %d: %.9g, not %.9g", p, m, got, expected);
}

/* Of DualPipe costs are of a stage, of DualPipeV of half a one. */
static sched_costs scaled(tpp_schedule_kind kind, double f, double i, double w, double fb) {
    double of = kind == TPP_SCHEDULE_DUALPIPE ? 1 : .5;
    return (sched_costs){f * of, i * of, w * of, fb * of};
}

static void test_apart(void **state) {
    (void)state;
    static const struct {
        tpp_schedule_kind kind;
        int32_t p, m;
        double equal, uneven;
        int32_t peak; /* actions */
    } cases[] = {{TPP_SCHEDULE_DUALPIPE, 4, 8, 1, 1.4, 5},
                 {TPP_SCHEDULE_DUALPIPE, 8, 16, 3, 4.2, 9},
                 {TPP_SCHEDULE_DUALPIPEV, 4, 8, 1.5, 2.1, 9},
                 {TPP_SCHEDULE_DUALPIPEV, 8, 16, 3.5, 5.1, 17}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int32_t p = cases[c].p, m = cases[c].m;
        sched_costs equal = scaled(cases[c].kind, 1, 1, 1, 0);
        sched_costs uneven = scaled(cases[c].kind, 1, 1.2, .8, 0);
        sched_atoms e = run_atoms(cases[c].kind, p, m, APART, equal);
        near_to(e.idle, cases[c].equal, p, m);
        near_to(run_atoms(cases[c].kind, p, m, APART, uneven).idle, cases[c].uneven, p, m);
        for (int32_t r = 0; r < p; r++)
            assert_int_equal(e.peak[r], cases[c].peak);
    }
}

/* (P/2 - 1) (FB + B - 3W) with equal F, I and W, where P is the number of stages a micro-batch passes;
 * P + 1 micro-batches of a stage in flight. */
static void test_atoms(void **state) {
    (void)state;
    static const sched_costs costs[] = {
        {1, 1, 1, 3}, {1, 1, 1, 2.5}, {1, 1, 1, 2}, {.7, .7, .7, 1.9}};
    for (size_t c = 0; c < sizeof costs / sizeof *costs; c++) {
        double step = costs[c].fb + costs[c].i - 2 * costs[c].w;
        for (int32_t p = 2; p <= 16; p += 2) {
            for (int32_t m = 2 * p; m <= 2 * p + 6; m += 2) {
                sched_atoms two = run_atoms(TPP_SCHEDULE_DUALPIPE, p, m, TOGETHER, costs[c]);
                near_to(two.idle, (p / 2 - 1) * step, p, m);
                assert_int_equal(two.most, p + 1);
            }
        }
        for (int32_t p = 1; p <= 8; p++) {
            for (int32_t m = 2 * p; m <= 2 * p + 3; m++) {
                sched_atoms v = run_atoms(TPP_SCHEDULE_DUALPIPEV, p, m, TOGETHER, costs[c]);
                near_to(v.idle, (p - 1) * step, p, m);
                assert_int_equal(v.most, 2 * p + 1);
            }
        }
    }
}

static void test_makespans(void **state) {
    (void)state;
    const sched_costs unit = {1, 1, 1, 3};
    near_to(run_atoms(TPP_SCHEDULE_DUALPIPE, 4, 8, TOGETHER, unit).makespan, 26, 4, 8);
    near_to(run_atoms(TPP_SCHEDULE_DUALPIPE, 8, 16, TOGETHER, unit).makespan, 54, 8, 16);
    near_to(run_atoms(TPP_SCHEDULE_DUALPIPEV, 4, 8, TOGETHER, unit).makespan, 54, 4, 8);
}

/* Any number of micro-batches, odd ones and few ones, and of ranks. */
static void test_right_for_all(void **state) {
    (void)state;
    const sched_costs unit = {1, 1, 1, 0};
    for (int32_t p = 1; p <= 8; p++) {
        for (int32_t m = 1; m <= 20; m++) {
            for (int apart = 0; apart < 2; apart++) {
                tpp_schedule *s = dual(TPP_SCHEDULE_DUALPIPE, p, m, apart);
                const char *fault = sched_atoms_fault(s, 2, sched_atoms_two_way);
                if (fault)
                    fail_msg("p %d m %d: %s", p, m, fault);
                assert_true(sched_atoms_run(s, unit).finished);
                if (tpp_schedule_lower(s) < 0 || tpp_schedule_finish(s) < 0)
                    fail_msg("p %d m %d: %s", p, m, tpp_message());
                tpp_schedule_destroy(s);
                s = dual(TPP_SCHEDULE_DUALPIPEV, p, m, apart);
                fault = sched_atoms_fault(s, 1, sched_atoms_v);
                if (fault)
                    fail_msg("V p %d m %d: %s", p, m, fault);
                assert_true(sched_atoms_run(s, unit).finished);
                if (tpp_schedule_lower(s) < 0 || tpp_schedule_finish(s) < 0)
                    fail_msg("V p %d m %d: %s", p, m, tpp_message());
                tpp_schedule_destroy(s);
            }
        }
    }
}

static int pairs_of(const tpp_schedule *s, int32_t rank) {
    int64_t count;
    const tpp_action *a = tpp_schedule_actions(s, rank, &count);
    int pairs = 0;
    for (int64_t i = 0; i < count; i++)
        pairs += a[i].flags == TPP_ACTION_FUSED;
    return pairs;
}

/* Pairs of a rank: two for each turn of the steady state, one for each of its way out; one fewer
 * where the directions meet. UNFUSED leaves the order as it is. */
static void test_pairs(void **state) {
    (void)state;
    for (int32_t p = 2; p <= 8; p += 2) {
        tpp_schedule *s = dual(TPP_SCHEDULE_DUALPIPE, p, 3 * p, TOGETHER);
        tpp_schedule *t = dual(TPP_SCHEDULE_DUALPIPE, p, 3 * p, APART);
        for (int32_t r = 0; r < p; r++) {
            int32_t x = r < p / 2 ? r : p - 1 - r, y = p / 2 - 1 - x;
            assert_int_equal(pairs_of(s, r), 2 * (p / 2 + x + 1) + y - (y == 0));
            assert_int_equal(pairs_of(t, r), 0);
            int64_t n, also;
            const tpp_action *a = tpp_schedule_actions(s, r, &n);
            const tpp_action *b = tpp_schedule_actions(t, r, &also);
            assert_int_equal(n, also);
            for (int64_t i = 0; i < n; i++)
                assert_true(a[i].op == b[i].op && a[i].stage == b[i].stage &&
                            a[i].micro == b[i].micro);
        }
        tpp_schedule_destroy(s);
        tpp_schedule_destroy(t);
    }
}

/* The library's simulator says the same, messages, slots and all. */
static void test_simulator_agrees(void **state) {
    (void)state;
    enum { STAGES = 16 };
    static _Alignas(64) char memory[1 << 16];
    const sched_costs c = {1, 1.25, .75, 2.5};
    double f[STAGES], i[STAGES], w[STAGES], fb[STAGES];
    for (int k = 0; k < STAGES; k++)
        f[k] = c.f, i[k] = c.i, w[k] = c.w, fb[k] = c.fb;
    for (int32_t p = 1; p <= STAGES / 2; p++) {
        for (int kind = TPP_SCHEDULE_DUALPIPE; kind <= TPP_SCHEDULE_DUALPIPEV; kind++) {
            tpp_sim_desc costs = {.size = sizeof costs, .stages = 2 * p, .forward = f, .fused = fb};
            costs.backward_input = i;
            costs.backward_weight = w;
            tpp_schedule *s = sched_made(kind, p, 0, 2 * p + 3, 0);
            tpp_executor *sim = NULL;
            tpp_run run = {.size = sizeof run, .lanes = 1, .schedule = s};
            run.memory = memory;
            run.memory_bytes = sizeof memory;
            tpp_run_report report = {.size = sizeof report};
            assert_ok(tpp_executor_sim_create(&sim, &costs));
            assert_ok(tpp_executor_run(sim, &run, &report));
            sched_atoms own = run_atoms(kind, p, 2 * p + 3, TOGETHER, c);
            near_to(report.makespan, own.makespan, p, 2 * p + 3);
            near_to(report.bubble_global, own.idle, p, 2 * p + 3);
            near_to(report.bubble_span, own.span, p, 2 * p + 3);
            tpp_executor_destroy(sim);
            tpp_schedule_destroy(s);
        }
    }
}

static void test_refused(void **state) {
    (void)state;
    tpp_schedule_desc d = sched_desc(TPP_SCHEDULE_DUALPIPE, 4, 0, 8, 0);
    tpp_schedule *s = NULL;
    d.placement = TPP_PLACEMENT_LOOPED;
    assert_fails(tpp_schedule_create(&s, &d), TPP_ERR_INVALID, "stands on TWO_WAY");
    d.placement = TPP_PLACEMENT_V;
    assert_fails(tpp_schedule_create(&s, &d), TPP_ERR_INVALID, "stands on TWO_WAY");
    d = sched_desc(TPP_SCHEDULE_ZB_V, 4, 0, 8, 0);
    d.flags = TPP_SCHEDULE_UNFUSED;
    assert_fails(tpp_schedule_create(&s, &d), TPP_ERR_INVALID, "no overlapped pairs");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_apart),     cmocka_unit_test(test_atoms),
        cmocka_unit_test(test_makespans), cmocka_unit_test(test_right_for_all),
        cmocka_unit_test(test_pairs),     cmocka_unit_test(test_simulator_agrees),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
