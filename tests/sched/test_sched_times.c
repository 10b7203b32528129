/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/sched_sim.h"
#include "support/sched_support.h"

/* Times come from an independent simulator; t_f = 1, t_b = 2 for all chunks of a rank. */

enum { GPIPE = TPP_SCHEDULE_GPIPE, F1B1 = TPP_SCHEDULE_1F1B, INTER = TPP_SCHEDULE_INTERLEAVED };

static sched_sim times_of(tpp_schedule_kind kind, int32_t p, int32_t v, int32_t m, int32_t g,
                          double f, double b) {
    tpp_schedule *s = sched_made(kind, p, v, m, g);
    if (!s)
        fail_msg("kind %d p %d v %d m %d g %d: %s", kind, p, v, m, g, tpp_message());
    sched_sim sim = sched_sim_run(s, f, b);
    if (!sim.finished)
        fail_msg("kind %d p %d v %d m %d g %d does not finish", kind, p, v, m, g);
    int32_t peaks[SCHED_SIM_RANKS];
    assert_ok(tpp_schedule_peaks(s, peaks));
    assert_memory_equal(peaks, sim.peak, (size_t)p * sizeof *peaks);
    tpp_schedule_destroy(s);
    return sim;
}

static void near(double got, double expected) {
    if (got - expected > 1e-9 || expected - got > 1e-9)
        fail_msg("%.9f is not %.9f", got, expected);
}

static void takes(tpp_schedule_kind kind, int32_t p, int32_t v, int32_t m, int32_t g,
                  double makespan, const int32_t *peaks) {
    sched_sim sim = times_of(kind, p, v, m, g, 1, 2);
    near(sim.makespan, makespan);
    for (int32_t r = 0; peaks && r < p; r++)
        assert_int_equal(sim.peak[r], peaks[r]);
}

static void test_figures(void **state) {
    (void)state;
    static const int32_t twelve[] = {12, 12, 12, 12}, falling[] = {4, 3, 2, 1},
                         v3[] = {15, 13, 11, 9};
    takes(GPIPE, 4, 1, 12, 0, 45, twelve);
    takes(F1B1, 4, 1, 12, 0, 45, falling);
    takes(INTER, 4, 3, 12, 0, 39, v3);
    takes(GPIPE, 6, 1, 18, 0, 69, NULL);
    takes(F1B1, 6, 1, 18, 0, 69, (const int32_t[]){6, 5, 4, 3, 2, 1});
    takes(INTER, 6, 2, 18, 0, 61.5, NULL);
    near(times_of(GPIPE, 3, 1, 4, 0, 1, 2).forward_end, 6);
}

/* Bubble as a fraction of the whole. */
static void test_bubbles(void **state) {
    (void)state;
    static const struct {
        tpp_schedule_kind kind;
        int32_t p, v, m;
        double bubble;
    } cases[] = {{GPIPE, 4, 1, 4, 3 / 7.},  {F1B1, 4, 1, 4, 3 / 7.},   {GPIPE, 8, 1, 24, 7 / 31.},
                 {F1B1, 8, 1, 24, 7 / 31.}, {F1B1, 4, 1, 12, 9 / 45.}, {INTER, 4, 3, 12, 3 / 39.},
                 {F1B1, 6, 1, 18, 5 / 23.}, {INTER, 6, 2, 18, 5 / 41.}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sched_sim sim = times_of(cases[i].kind, cases[i].p, cases[i].v, cases[i].m, 0, 1, 2);
        for (int32_t r = 0; r < cases[i].p; r++)
            near((sim.makespan - sim.work[r]) / sim.makespan, cases[i].bubble);
    }
}

/* Times and peaks from public bug reports. */
static void test_reported(void **state) {
    (void)state;
    takes(INTER, 2, 2, 4, 0, 13.5, (const int32_t[]){5, 3});
    takes(INTER, 2, 2, 2, 0, 7.5, (const int32_t[]){4, 3});
    takes(INTER, 4, 2, 10, 5, 34.5, (const int32_t[]){12, 10, 8, 6});
    takes(INTER, 4, 2, 10, 0, 34.5, (const int32_t[]){12, 10, 8, 6});
    takes(INTER, 4, 2, 6, 4, 27.5, NULL);
    takes(F1B1, 8, 1, 4, 0, 33, (const int32_t[]){4, 4, 4, 4, 4, 3, 2, 1});
    takes(F1B1, 8, 1, 1, 0, 24, (const int32_t[]){1, 1, 1, 1, 1, 1, 1, 1});
    /* what the orders that other systems refuse cost: the bubble beside the ideal 4.5 */
    takes(INTER, 4, 2, 9, 4, 27 + 10.0, NULL);
    takes(INTER, 4, 2, 10, 4, 30 + 9.5, NULL);
    takes(INTER, 4, 2, 11, 4, 33 + 5.5, NULL);
    takes(INTER, 4, 2, 3, 3, 9 + 6.0, NULL);
}

/* The usual test vectors: work and bubble, peaks in chunk forwards. */
static void test_vectors(void **state) {
    (void)state;
    takes(GPIPE, 4, 1, 8, 0, 24 + 9, (const int32_t[]){8, 8, 8, 8});
    takes(F1B1, 4, 1, 8, 0, 24 + 9, (const int32_t[]){4, 3, 2, 1});
    takes(INTER, 4, 2, 8, 0, 24 + 4.5, (const int32_t[]){11, 9, 7, 5});
    takes(INTER, 4, 3, 8, 0, 24 + 3, (const int32_t[]){15, 13, 11, 9});
    takes(GPIPE, 8, 1, 16, 0, 48 + 21, (const int32_t[]){16, 16, 16, 16, 16, 16, 16, 16});
    takes(F1B1, 8, 1, 16, 0, 48 + 21, (const int32_t[]){8, 7, 6, 5, 4, 3, 2, 1});
    takes(INTER, 8, 2, 16, 0, 48 + 10.5, (const int32_t[]){23, 21, 19, 17, 15, 13, 11, 9});
    takes(INTER, 8, 3, 16, 0, 48 + 7, (const int32_t[]){31, 29, 27, 25, 23, 21, 19, 17});
    takes(GPIPE, 4, 1, 2, 0, 6 + 9, (const int32_t[]){2, 2, 2, 2});
    takes(F1B1, 4, 1, 2, 0, 6 + 9, (const int32_t[]){2, 2, 2, 1});
}

/* GPipe and 1F1B take (m + p - 1)(t_f + t_b), whichever is longer and also for m < p. */
static void test_closed_forms(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 8; p++) {
        for (int32_t m = 1; m <= 12; m++) {
            near(times_of(GPIPE, p, 1, m, 0, 1, 2).makespan, 3 * (m + p - 1));
            sched_sim slow_f = times_of(F1B1, p, 1, m, 0, 5, 2);
            near(slow_f.makespan, 7 * (m + p - 1));
            for (int32_t r = 0; r < p; r++)
                assert_int_equal(slow_f.peak[r], p - r < m ? p - r : m);
        }
    }
}

/* With its own choice of groups interleaved keeps the bubble (p - 1)(t_f + t_b) / v for any m >= p;
 * below p, one group of m waits (v - 1)(p - m)(t_f + t_b) / v longer. */
static void test_interleaved_default(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 8; p++) {
        for (int32_t v = 2; v <= 4; v++) {
            for (int32_t m = 1; m <= 50; m++) {
                double bubble = 3. * (p - 1) / v + (m < p ? 3. * (v - 1) * (p - m) / v : 0);
                near(times_of(INTER, p, v, m, 0, 1, 2).makespan, 3 * m + bubble);
            }
        }
    }
}

/* What the messages and the slots add to the order of compute actions: no time with t_f = 1, t_b
 * = 2. */
static void test_messages_cost_no_time(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 6; p++) {
        for (int32_t m = 1; m <= 12; m++) {
            for (int32_t v = 1; v <= 3; v++) {
                tpp_schedule *s = sched_created(INTER, p, v, m, 0);
                near(sched_sim_run(s, 1, 2).makespan, times_of(INTER, p, v, m, 0, 1, 2).makespan);
                tpp_schedule_destroy(s);
            }
        }
    }
}

/* Every group finishes in the independent simulator too, with the executors' rule for slots. */
static void test_all_groups_finish(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 6; p++) {
        for (int32_t m = 1; m <= 12; m++) {
            for (int32_t v = 1; v <= 3; v++) {
                for (int32_t g = 1; g <= m; g++)
                    times_of(INTER, p, v, m, g, 1, 2);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_bubbles),
        cmocka_unit_test(test_reported),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_closed_forms),
        cmocka_unit_test(test_interleaved_default),
        cmocka_unit_test(test_messages_cost_no_time),
        cmocka_unit_test(test_all_groups_finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
