/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/sched_sim.h"
#include "support/sched_support.h"

#include <stdbool.h>

/* Times and memory of the orders that run in one direction on looped chunks, from an independent
 * simulator. Two bubbles: global, makespan less the work of the rank; span, from a rank's first to
 * its last action less its work. Of each the largest of any rank. */

enum {
    GPIPE = TPP_SCHEDULE_GPIPE,
    F1B1 = TPP_SCHEDULE_1F1B,
    INTER = TPP_SCHEDULE_INTERLEAVED,
    BFS = TPP_SCHEDULE_BFS,
    EAGER = TPP_SCHEDULE_EAGER_1F1B,
    FORWARD = TPP_SCHEDULE_FORWARD_ONLY,
    H1 = TPP_SCHEDULE_ZB_H1,
    H2 = TPP_SCHEDULE_ZB_H2,
    IZB = TPP_SCHEDULE_ZB_INTERLEAVED
};

static const sched_sim_costs equal = {1, 1, 1, 0}, uneven = {1, 1.2, 0.8, 0};

static tpp_schedule *made(tpp_schedule_kind kind, int32_t p, int32_t v, int32_t m, int32_t g) {
    tpp_schedule *s = sched_made(kind, p, v, m, g);
    if (!s)
        fail_msg("kind %d p %d v %d m %d g %d: %s", kind, p, v, m, g, tpp_message());
    return s;
}

/* With messages, which take `latency`. */
static sched_sim lowered_times_of(tpp_schedule_kind kind, int32_t p, int32_t v, int32_t m,
                                  int32_t g, sched_sim_costs costs) {
    tpp_schedule *s = made(kind, p, v, m, g);
    sched_sim sim = sched_sim_costs_run(s, costs);
    if (!sim.finished)
        fail_msg("kind %d p %d v %d m %d g %d does not finish", kind, p, v, m, g);
    tpp_schedule_destroy(s);
    return sim;
}

/* Of the order alone. */
static sched_sim times_of(tpp_schedule_kind kind, int32_t p, int32_t v, int32_t m, int32_t g,
                          sched_sim_costs costs) {
    tpp_schedule *order = sched_created(kind, p, v, m, g), *s = made(kind, p, v, m, g);
    sched_sim sim = sched_sim_costs_run(order, costs);
    assert_true(sim.finished);
    int32_t peaks[SCHED_SIM_RANKS];
    assert_ok(tpp_schedule_peaks(s, peaks));
    if (kind != FORWARD)
        assert_memory_equal(peaks, sim.peak, (size_t)p * sizeof *peaks);
    tpp_schedule_destroy(order);
    tpp_schedule_destroy(s);
    return sim;
}

static double global_bubble(const sched_sim *sim, int32_t p) {
    double most = 0;
    for (int32_t r = 0; r < p; r++)
        most = sim->makespan - sim->work[r] > most ? sim->makespan - sim->work[r] : most;
    return most;
}

static double span_bubble(const sched_sim *sim, int32_t p) {
    double most = 0;
    for (int32_t r = 0; r < p; r++) {
        double idle = sim->end[r] - sim->start[r] - sim->work[r];
        most = idle > most ? idle : most;
    }
    return most;
}

static bool near(double got, double expected) {
    return got - expected < 1e-9 && expected - got < 1e-9;
}

/* Peaks in chunk forwards, to W: of the first and the last rank. */
static const struct vector {
    int32_t p, m;
    tpp_schedule_kind kind;
    int32_t v;
    double global[2], span[2]; /* with equal and uneven costs */
    int32_t peak_first, peak_last;
} vectors[] = {
    {4, 8, GPIPE, 1, {9, 9}, {9, 9}, 8, 8},
    {4, 8, F1B1, 1, {9, 9}, {9, 9}, 4, 1},
    {4, 8, EAGER, 1, {9, 9}, {9, 9}, 7, 1},
    {4, 8, INTER, 2, {4.5, 4.5}, {4.5, 4.5}, 11, 5},
    {4, 8, INTER, 3, {3, 3}, {3, 3}, 15, 9},
    {4, 8, BFS, 2, {4.5, 4.5}, {4.5, 4.5}, 16, 16},
    {4, 8, H1, 1, {3, 4.2}, {3, 4.2}, 4, 4},
    {4, 8, IZB, 1, {3, 4.2}, {3, 4.2}, 4, 4},
    {4, 8, H2, 1, {3, 3}, {0, 1.8}, 7, 7},
    {4, 8, IZB, 2, {1.5, 2.1}, {1.5, 2.1}, 8, 8},
    {8, 16, GPIPE, 1, {21, 21}, {21, 21}, 16, 16},
    {8, 16, F1B1, 1, {21, 21}, {21, 21}, 8, 1},
    {8, 16, INTER, 2, {10.5, 10.5}, {10.5, 10.5}, 23, 9},
    {8, 16, INTER, 3, {7, 7}, {7, 7}, 31, 17},
    {8, 16, H1, 1, {7, 9.8}, {7, 9.8}, 8, 8},
    {8, 16, H2, 1, {7, 7}, {0, 4.2}, 15, 15},
    {8, 16, IZB, 2, {3.5, 4.9}, {3.5, 4.9}, 16, 16},
    {8, 20, IZB, 2, {3.5, 4.9}, {3.5, 4.9}, 18, 18}, /* two groups of 10 */
    {4, 2, GPIPE, 1, {9, 9}, {9, 9}, 2, 2},
    {4, 2, F1B1, 1, {9, 9}, {9, 9}, 2, 1},
    {4, 2, BFS, 2, {7.5, 7.5}, {7.5, 7.5}, 4, 4},
    {4, 2, H1, 1, {5, 5.8}, {5, 5.8}, 2, 2},
    {4, 2, H2, 1, {5, 5.8}, {5, 5.8}, 2, 2},
    {4, 2, IZB, 2, {3.5, 4.3}, {3.5, 4.3}, 4, 4},
};

static void test_vectors(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const struct vector *x = &vectors[i];
        for (int costs = 0; costs < 2; costs++) {
            sched_sim sim = times_of(x->kind, x->p, x->v, x->m, 0, costs ? uneven : equal);
            double global = global_bubble(&sim, x->p), span = span_bubble(&sim, x->p);
            if (!near(global, x->global[costs]) || !near(span, x->span[costs]))
                fail_msg("%s p %d m %d v %d: bubbles %.9f, %.9f", tpp_schedule_kind_name(x->kind),
                         x->p, x->m, x->v, global, span);
            assert_int_equal(sim.peak[0], x->peak_first);
            assert_int_equal(sim.peak[x->p - 1], x->peak_last);
        }
    }
}

/* Held up to I, ZB-H1 is as 1F1B; up to W, every rank has what the first one has. */
static void test_peaks(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 8; p++) {
        for (int32_t m = 2 * p; m <= 2 * p + 3; m++) {
            sched_sim h1 = times_of(H1, p, 1, m, 0, equal), h2 = times_of(H2, p, 1, m, 0, equal);
            for (int32_t r = 0; r < p; r++) {
                assert_int_equal(h1.peak_input[r], p - r);
                assert_int_equal(h1.peak[r], p);
                assert_int_equal(h2.peak_input[r], 2 * (p - r) - 1);
                assert_int_equal(h2.peak[r], 2 * p - 1);
            }
            for (int32_t v = 1; v <= 3; v++) {
                sched_sim izb = times_of(IZB, p, v, m, 0, equal);
                int32_t rounds = m / p, group = (m + rounds - 1) / rounds;
                for (int32_t r = 0; r < p; r++)
                    assert_int_equal(izb.peak[r], (v - 1) * group + p);
            }
        }
    }
}

static void expect(const char *what, int32_t p, int32_t v, int32_t m, double got, double expected) {
    if (!near(got, expected))
        fail_msg("%s p %d v %d m %d: %.9f, not %.9f", what, p, v, m, got, expected);
}

/* What W fills, if t_w <= t_i: (p - 1)(t_f + t_i - t_w) remains, and less W with m < p. ZB-H2 is
 * without a wait from its first to its last action, from m = 2 p - 1 on, if t_f + t_i <= 2 t_w. */
static void test_zero_bubble(void **state) {
    (void)state;
    for (int costs = 0; costs < 2; costs++) {
        sched_sim_costs c = costs ? uneven : equal;
        double period = c.forward + c.input;
        for (int32_t p = 1; p <= 8; p++) {
            for (int32_t m = 1; m <= 24; m++) {
                sched_sim h1 = times_of(H1, p, 1, m, 0, c), h2 = times_of(H2, p, 1, m, 0, c);
                double filled = (m < p ? m - 1 : p - 1) * c.weight;
                expect("H1", p, 1, m, global_bubble(&h1, p), (p - 1) * period - filled);
                if (m >= 2 * p - 1)
                    expect("H2", p, 1, m, span_bubble(&h2, p), (p - 1) * (period - 2 * c.weight));
            }
        }
    }
}

/* Any m >= p: W's share of the bubble is filled, whether or not p divides m. A group that is
 * shorter than the pipeline waits p - m turns at each change of chunks; W fills them as far as there
 * are some (equal costs). */
static void test_zb_interleaved(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 8; p++) {
        for (int32_t v = 1; v <= 4; v++) {
            for (int32_t m = 1; m <= 30; m++) {
                sched_sim one = times_of(IZB, p, v, m, 0, equal);
                int32_t late = m < p ? p - m : 0, w = m < p ? m - 1 : p - 1;
                int32_t turns = 2 * (p - 1 + (v - 1) * late) - w - (v - 1) * (late < m ? late : m);
                expect("IZB", p, v, m, global_bubble(&one, p), (double)turns / v);
                if (m < p)
                    continue;
                sched_sim other = times_of(IZB, p, v, m, 0, uneven);
                expect("IZB", p, v, m, global_bubble(&other, p), (p - 1) * 1.4 / v);
            }
        }
    }
}

/* As interleaved 1F1B, with all micro-batches as one group. */
static void test_bfs(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 8; p++) {
        for (int32_t v = 1; v <= 4; v++) {
            for (int32_t m = 1; m <= 16; m++) {
                sched_sim sim = times_of(BFS, p, v, m, 0, uneven);
                int32_t late = m < p ? p - m : 0;
                expect("BFS", p, v, m, global_bubble(&sim, p), 3. * (p - 1 + (v - 1) * late) / v);
                for (int32_t r = 0; r < p; r++)
                    assert_int_equal(sim.peak[r], v * m);
            }
        }
    }
}

/* A message that takes time costs 1F1B some at every micro-batch, the eager order only while the
 * pipeline fills and drains: that is what its memory buys. */
static void test_eager(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 8; p++) {
        for (int32_t m = 1; m <= 40; m++) {
            const sched_sim_costs near_by = {1, 1, 1, 0}, far = {1, 1, 1, 0.5};
            sched_sim sim = times_of(EAGER, p, 1, m, 0, near_by);
            expect("eager", p, 1, m, sim.makespan, 3 * (m + p - 1));
            for (int32_t r = 0; r < p; r++)
                assert_int_equal(sim.peak[r], m < 2 * (p - r) - 1 ? m : 2 * (p - r) - 1);
            sim = lowered_times_of(EAGER, p, 1, m, 0, far);
            expect("eager, far", p, 1, m, sim.makespan, 3 * (m + p - 1) + (p - 1));
            if (m < p)
                continue;
            sim = lowered_times_of(F1B1, p, 1, m, 0, far);
            expect("1f1b, far", p, 1, m, sim.makespan,
                   3 * (m + p - 1) + (p - 1) + (m - 1) * (p - 1) / p);
        }
    }
    sched_sim sim = lowered_times_of(F1B1, 4, 1, 8, 0, (sched_sim_costs){1, 1, 1, 1});
    expect("1f1b", 4, 1, 8, sim.makespan, 33 + 16);
}

/* One wave: (p - 1) t_f / v of waiting, and with m < p what a short group waits. */
static void test_forward_only(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 8; p++) {
        for (int32_t v = 1; v <= 4; v++) {
            for (int32_t m = 1; m <= 20; m++) {
                sched_sim sim = times_of(FORWARD, p, v, m, 0, equal);
                int32_t late = m < p ? p - m : 0;
                expect("forward", p, v, m, sim.makespan, m + (double)(p - 1 + (v - 1) * late) / v);
            }
        }
    }
    expect("forward", 3, 1, 4, times_of(FORWARD, 3, 1, 4, 0, equal).makespan, 6);
}

/* What the messages and the slots add to the order of compute actions: no time. (IZB is not here: a
 * gradient goes from one chunk to the chunk before long before that chunk's turn, and its slot is
 * wanted meanwhile, which costs some time unless p divides m. Nor forward-only with several chunks: an output that its
 * receiver comes to late holds the only slot.) */
static void test_messages_cost_no_time(void **state) {
    (void)state;
    static const tpp_schedule_kind kinds[] = {BFS, EAGER, FORWARD, H1, H2};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (int32_t p = 1; p <= 6; p++) {
            for (int32_t m = 1; m <= 14; m++) {
                for (int32_t v = 1; v <= (kinds[k] == BFS ? 3 : 1); v++) {
                    sched_sim order = times_of(kinds[k], p, v, m, 0, uneven);
                    sched_sim lowered = lowered_times_of(kinds[k], p, v, m, 0, uneven);
                    expect(tpp_schedule_kind_name(kinds[k]), p, v, m, lowered.makespan,
                           order.makespan);
                }
            }
        }
    }
    for (int32_t p = 1; p <= 6; p++) {
        for (int32_t v = 1; v <= 3; v++) {
            for (int32_t m = p; m <= 4 * p; m += p)
                expect("IZB", p, v, m, lowered_times_of(IZB, p, v, m, 0, uneven).makespan,
                       times_of(IZB, p, v, m, 0, uneven).makespan);
        }
    }
}

/* One chunk is passed in one order, whatever the groups. */
static void test_one_chunk(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 8; p++) {
        for (int32_t m = 1; m <= 12; m++) {
            tpp_schedule *h1 = made(H1, p, 1, m, 0);
            char *expected = sched_text(h1);
            for (int32_t g = 0; g <= m; g++) {
                tpp_schedule *s = made(IZB, p, 1, m, g);
                char *text = sched_text(s);
                assert_string_equal(text, expected);
                free(text);
                tpp_schedule_destroy(s);
            }
            free(expected);
            tpp_schedule_destroy(h1);
        }
    }
}

/* Any group, dealt well or badly, finishes. */
static void test_all_groups_finish(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 8; p++) {
        for (int32_t m = 1; m <= 16; m++) {
            for (int32_t v = 1; v <= 4; v++) {
                for (int32_t g = 1; g <= m; g++) {
                    lowered_times_of(IZB, p, v, m, g, uneven);
                    lowered_times_of(FORWARD, p, v, m, g, uneven);
                }
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),      cmocka_unit_test(test_peaks),
        cmocka_unit_test(test_zero_bubble),  cmocka_unit_test(test_zb_interleaved),
        cmocka_unit_test(test_bfs),          cmocka_unit_test(test_eager),
        cmocka_unit_test(test_forward_only), cmocka_unit_test(test_messages_cost_no_time),
        cmocka_unit_test(test_one_chunk),    cmocka_unit_test(test_all_groups_finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
