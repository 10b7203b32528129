/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/sched_atoms.h"
#include "support/sched_support.h"

#include <math.h>
#include <stdio.h>

static const sched_costs equal = {.5, .5, .5, 0}, uneven = {.5, .6, .4, 0};

static void near_to(double got, double expected, const char *what, int32_t p, int32_t m) {
    if (!(fabs(got - expected) < 1e-9))
        fail_msg("p %d m %d: %s is %.9g, not %.9g", p, m, what, got, expected);
}

static sched_atoms run(tpp_schedule_kind kind, int32_t p, int32_t m, sched_costs costs) {
    tpp_schedule *s = sched_created(kind, p, 0, m, 0);
    if (!s)
        fail_msg("kind %d p %d m %d: %s", kind, p, m, tpp_message());
    sched_atoms out = sched_atoms_run(s, costs);
    assert_true(out.finished);
    tpp_schedule_destroy(s);
    return out;
}

/* Bubble of the whole step and of the longest span, with equal costs and with (1, 1.2, 0.8) for a
 * rank's two chunks; the peaks in chunk forwards. */
static void test_zb_v(void **state) {
    (void)state;
    static const struct {
        int32_t p, m;
        double idle, span, idle_uneven, span_uneven;
        int32_t peak_first, peak_last;
    } cases[] = {{4, 8, 1.5, 0, 1.8, 1.2, 8, 8},
                 {8, 16, 3.5, 0, 4.2, 2.8, 16, 16},
                 {4, 2, 5, 5, 5.6, 5.6, 3, 4}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int32_t p = cases[c].p, m = cases[c].m;
        sched_atoms e = run(TPP_SCHEDULE_ZB_V, p, m, equal);
        sched_atoms u = run(TPP_SCHEDULE_ZB_V, p, m, uneven);
        near_to(e.idle, cases[c].idle, "the bubble", p, m);
        near_to(e.span, cases[c].span, "the bubble of the span", p, m);
        near_to(u.idle, cases[c].idle_uneven, "the uneven bubble", p, m);
        near_to(u.span, cases[c].span_uneven, "the uneven bubble of the span", p, m);
        assert_int_equal(e.peak[0], cases[c].peak_first);
        assert_int_equal(e.peak[p - 1], cases[c].peak_last);
    }
}

/* With equal costs and enough micro-batches: no bubble in the span, p stages held on every rank. */
static void test_zb_v_at_any_size(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 12; p++) {
        for (int32_t m = 2 * p - 1; m <= 2 * p + 9; m++) {
            sched_atoms e = run(TPP_SCHEDULE_ZB_V, p, m, equal);
            near_to(e.span, 0, "the bubble of the span", p, m);
            near_to(e.idle, (p - 1) / 2., "the bubble", p, m);
            for (int32_t r = 0; r < p; r++)
                assert_int_equal(e.peak[r], 2 * p);
        }
    }
}

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* The memory that the two orders are known for, exact once there are enough micro-batches. */
static void test_peaks(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 16; p++) {
        for (int32_t m = 1; m <= 3 * p; m++) {
            int32_t half = 2 * ((p + 2) / 2), third = 2 * ((p + 4) / 3);
            int32_t most_half = run(TPP_SCHEDULE_V_HALF, p, m, equal).most;
            int32_t most_min = run(TPP_SCHEDULE_V_MIN, p, m, equal).most;
            int32_t most_1f1b = run(TPP_SCHEDULE_V_1F1B, p, m, equal).most;
            assert_int_equal(most_half, least(half, 2 * m));
            assert_int_equal(most_min, least(third, 2 * m));
            assert_int_equal(most_1f1b, least(2 * ((2 * p + 3) / 3), 2 * m));
        }
    }
}

/* Not slower than the pattern alone, and than a full 1F1B. */
static void test_bubbles(void **state) {
    (void)state;
    static const struct {
        int32_t p;
        double half, least;
    } cases[] = {{4, 6, 5.5}, {8, 13, 13.5}, {16, 27, 29.5}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int32_t p = cases[c].p;
        for (int32_t m = p; m <= 4 * p; m += p / 2) {
            assert_true(run(TPP_SCHEDULE_V_HALF, p, m, equal).span < cases[c].half + 1e-9);
            assert_true(run(TPP_SCHEDULE_V_MIN, p, m, equal).span < cases[c].least + 1e-9);
            assert_true(run(TPP_SCHEDULE_V_1F1B, p, m, equal).span < 3 * (p - 1) + 1e-9);
        }
    }
}

/* V-Half keeps its steady state free of idle time wherever tw + 2 ti >= 2 tf and tw + 2 tf >= 2 ti:
 * more micro-batches do not add to the bubble. */
static void test_v_half_steady(void **state) {
    (void)state;
    static const sched_costs costs[] = {{.5, .5, .5, 0}, {.5, .6, .4, 0}, {.5, .4, .4, 0},
                                        {.5, .3, .5, 0}, {.4, .6, .4, 0}, {.4, .6, .5, 0},
                                        {.5, .5, 0, 0},  {.5, .5, 1, 0}};
    for (size_t c = 0; c < sizeof costs / sizeof *costs; c++) {
        for (int32_t p = 2; p <= 12; p++) {
            double few = run(TPP_SCHEDULE_V_HALF, p, 3 * p, costs[c]).idle;
            double many = run(TPP_SCHEDULE_V_HALF, p, 9 * p, costs[c]).idle;
            near_to(many, few, "the bubble with more micro-batches", p, 9 * p);
        }
    }
}

/* The paper's bubbles, beside 3 (p - 1) of 1F1B: half of it for V-Half, two thirds for V-Min. */
static void test_rates(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 32; p++) {
        double full = 3. * (p - 1);
        double half = run(TPP_SCHEDULE_V_HALF, p, 3 * p, equal).span;
        double least = run(TPP_SCHEDULE_V_MIN, p, 3 * p, equal).span;
        assert_true(half <= full / 2 + 1e-9);
        assert_true(least <= full * 2 / 3 + 1e-9);
    }
}

/* The paper's building block of V-Half, for p even and odd: units from rank to rank of F on the way
 * down and up and of I on the way down and up, from F to F on the last rank, from F to I on rank 0,
 * from I to I on the last rank. A rank's order in the steady state is that of these times mod 6. */
static void test_published_block(void **state) {
    (void)state;
    static const int32_t steps[2][7] = {{2, 1, 2, 1, 2, 4, 1}, {2, 1, 2, 1, 2, 1, 1}};
    for (int32_t p = 2; p <= 9; p++) {
        const int32_t *d = steps[p % 2], m = 8 * p, last = p - 1;
        tpp_schedule *s = sched_created(TPP_SCHEDULE_V_HALF, p, 0, m, 0);
        for (int32_t r = 0; r < p; r++) {
            int32_t f1_up = last * d[0] + d[4], i1_down = f1_up + last * d[1] + d[5];
            int32_t i0_up = i1_down + last * d[2] + d[6];
            int32_t at[4] = {r * d[0], f1_up + (last - r) * d[1], i1_down + r * d[2],
                             i0_up + (last - r) * d[3]};
            int64_t n;
            const tpp_action *a = tpp_schedule_actions(s, r, &n);
            int32_t before = -1, seen = 0;
            for (int64_t k = n / 2; seen < 8; k++) {
                if (a[k].op == TPP_OP_W)
                    continue;
                int kind = (a[k].op == TPP_OP_F ? 0 : 2) + (a[k].stage < p ? 0 : 1);
                static const int place[4] = {0, 1, 3, 2};
                int32_t time = at[place[kind]] + 6 * a[k].micro;
                assert_true(time > before);
                before = time;
                seen++;
            }
        }
        tpp_schedule_destroy(s);
    }
}

/* Twice the messages of 1F1B, but for the turn: it needs none. */
static void test_messages(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 8; p++) {
        tpp_schedule_info v = {.size = sizeof v}, flat = {.size = sizeof flat};
        tpp_schedule *s = sched_made(TPP_SCHEDULE_V_HALF, p, 0, 11, 0);
        tpp_schedule *t = sched_made(TPP_SCHEDULE_1F1B, p, 0, 11, 0);
        assert_ok(tpp_schedule_query(s, &v));
        assert_ok(tpp_schedule_query(t, &flat));
        assert_int_equal(v.messages, 2 * flat.messages);
        tpp_schedule_destroy(s);
        tpp_schedule_destroy(t);
    }
}

static void test_right_for_all(void **state) {
    (void)state;
    static const tpp_schedule_kind kinds[] = {TPP_SCHEDULE_ZB_V, TPP_SCHEDULE_V_HALF,
                                              TPP_SCHEDULE_V_MIN, TPP_SCHEDULE_V_1F1B,
                                              TPP_SCHEDULE_DUALPIPEV};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (int32_t p = 1; p <= 8; p++) {
            for (int32_t m = 1; m <= 20; m++) {
                tpp_schedule *s = sched_made(kinds[k], p, 0, m, 0);
                if (!s)
                    fail_msg("kind %d p %d m %d: %s", kinds[k], p, m, tpp_message());
                tpp_schedule_destroy(s);
                s = sched_created(kinds[k], p, 0, m, 0);
                const char *fault = sched_atoms_fault(s, 1, sched_atoms_v);
                if (fault)
                    fail_msg("kind %d p %d m %d: %s", kinds[k], p, m, fault);
                assert_true(sched_atoms_run(s, equal).finished);
                tpp_schedule_destroy(s);
            }
        }
    }
}

/* O05: these orders are for the V placement and for no other. */
static void test_looped_is_refused(void **state) {
    (void)state;
    static const tpp_schedule_kind kinds[] = {TPP_SCHEDULE_ZB_V, TPP_SCHEDULE_V_HALF,
                                              TPP_SCHEDULE_V_MIN, TPP_SCHEDULE_V_1F1B,
                                              TPP_SCHEDULE_DUALPIPEV};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        tpp_schedule_desc d = sched_desc(kinds[k], 4, 0, 8, 0);
        tpp_schedule *s = NULL;
        d.placement = TPP_PLACEMENT_LOOPED;
        assert_fails(tpp_schedule_create(&s, &d), TPP_ERR_INVALID, "stands on V");
        assert_null(s);
        d.placement = TPP_PLACEMENT_V;
        d.chunks = 3;
        assert_fails(tpp_schedule_create(&s, &d), TPP_ERR_INVALID, "has 2");
        d.chunks = 2;
        assert_ok(tpp_schedule_create(&s, &d));
        for (int32_t stage = 0; stage < 8; stage++)
            assert_int_equal(tpp_schedule_rank_of(s, stage), stage < 4 ? stage : 7 - stage);
        tpp_schedule_destroy(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zb_v),
        cmocka_unit_test(test_zb_v_at_any_size),
        cmocka_unit_test(test_peaks),
        cmocka_unit_test(test_bubbles),
        cmocka_unit_test(test_v_half_steady),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_published_block),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_right_for_all),
        cmocka_unit_test(test_looped_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
