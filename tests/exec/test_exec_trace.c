/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "support/exec_rig.h"
#include "support/exec_sim.h"

/* What real runs put into a trace, and that the report says the same. */

static int is_wait(const tpp_event *e) {
    return e->op == TPP_OP_RECV_F || e->op == TPP_OP_RECV_B;
}

/* Compute events of a row are the schedule's compute actions, step after step; nothing overlaps. */
static void check_row(const exec_rig *rig, int32_t row, uint64_t steps) {
    int64_t count, n, at = 0;
    const tpp_event *e = tpp_trace_events(rig->run.trace, row, &count);
    const tpp_action *a = tpp_schedule_actions(rig->schedule, row / rig->lanes, &n);
    double last = 0;
    for (uint64_t step = 0; step < steps; step++) {
        for (int64_t i = 0; i < n; i++) {
            if (a[i].op == TPP_OP_SEND_F || a[i].op == TPP_OP_SEND_B)
                continue;
            int wait = a[i].op == TPP_OP_RECV_F || a[i].op == TPP_OP_RECV_B;
            if (wait && (at == count || !is_wait(&e[at])))
                continue; /* it did not take time */
            assert_true(at < count);
            assert_int_equal(e[at].op, a[i].op);
            assert_int_equal(e[at].stage, a[i].stage);
            assert_int_equal(e[at].micro, a[i].micro);
            assert_int_equal(e[at].chunk, a[i].chunk);
            assert_int_equal(e[at].peer, wait ? a[i].peer : -1);
            assert_int_equal(e[at].row, row);
            assert_int_equal(e[at].step, step);
            assert_true(e[at].start >= last && e[at].end >= e[at].start);
            last = e[at].end;
            at++;
        }
    }
    assert_int_equal(at, count);
    assert_true(last < 60); /* seconds since the executor was made */
}

/* The last step's report from the trace alone. */
static void check_report(const exec_rig *rig, uint64_t step) {
    double first = HUGE_VAL, last = -HUGE_VAL, most = 0, global = 0, span = 0;
    double row_first[EXEC_MOST_ROWS], row_last[EXEC_MOST_ROWS], row_work[EXEC_MOST_ROWS];
    for (int32_t row = 0; row < rig->rows; row++) {
        int64_t count;
        const tpp_event *e = tpp_trace_events(rig->run.trace, row, &count);
        row_first[row] = HUGE_VAL;
        row_work[row] = row_last[row] = 0;
        for (int64_t i = 0; i < count; i++) {
            if (e[i].step != step || is_wait(&e[i]))
                continue;
            row_first[row] = fmin(row_first[row], e[i].start);
            row_last[row] = fmax(row_last[row], e[i].end);
            row_work[row] += e[i].end - e[i].start;
        }
        first = fmin(first, row_first[row]);
        last = fmax(last, row_last[row]);
    }
    for (int32_t row = 0; row < rig->rows; row++) {
        assert_near(rig->work[row], row_work[row], 1e-6);
        assert_near(rig->first[row], row_first[row], 1e-9);
        assert_near(rig->last[row], row_last[row], 1e-9);
        most = fmax(most, row_work[row]);
        global = fmax(global, last - first - row_work[row]);
        span = fmax(span, row_last[row] - row_first[row] - row_work[row]);
    }
    assert_near(rig->report.makespan, last - first, 1e-6);
    assert_near(rig->report.work, most, 1e-6);
    assert_near(rig->report.bubble_global, global, 1e-6);
    assert_near(rig->report.bubble_span, span, 1e-6);
}

static void nap(exec_rig *rig, exec_layer *layer) {
    const struct timespec t = {0, 200000 * (1 + layer->rank)};
    (void)rig;
    nanosleep(&t, NULL);
}

static void trace_steps(exec_kind kind, int32_t lanes) {
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_INTERLEAVED, 3, 2, 4, 0);
    exec_rig rig;
    exec_rig_open(&rig, s, lanes, kind, NULL);
    rig.hook = nap;
    exec_expect_ok(tpp_trace_create(&rig.run.trace, rig.rows, 500, NULL));
    for (uint64_t step = 0; step < 3; step++) {
        exec_expect_ok(exec_rig_step(&rig));
        exec_rig_check(&rig, step);
        for (int32_t row = 0; row < rig.rows; row++)
            check_row(&rig, row, step + 1);
        check_report(&rig, step);
    }
    assert_int_equal(tpp_trace_dropped(rig.run.trace), 0);
    tpp_trace_destroy(rig.run.trace);
    exec_rig_close(&rig);
    tpp_schedule_destroy(s);
}

static void test_steps(void **state) {
    (void)state;
    for (int32_t lanes = 1; lanes <= 2; lanes++) {
        trace_steps(EXEC_SERIAL, lanes);
        trace_steps(EXEC_THREADS, lanes);
    }
}

/* The second rank waits for the first forward, which takes a while: a wait of that length stands
 * in its row. */
static void slow_first(exec_rig *rig, exec_layer *layer) {
    const struct timespec t = {0, 30000000};
    (void)rig;
    if (layer->rank == 0 && layer->calls == 0)
        nanosleep(&t, NULL);
}

static void test_waits(void **state) {
    (void)state;
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_1F1B, 2, 1, 2, 0);
    exec_rig rig;
    int64_t count;
    exec_rig_open(&rig, s, 1, EXEC_THREADS, NULL);
    rig.hook = slow_first;
    exec_expect_ok(tpp_trace_create(&rig.run.trace, 2, 100, NULL));
    exec_expect_ok(exec_rig_step(&rig));
    const tpp_event *e = tpp_trace_events(rig.run.trace, 1, &count);
    assert_true(count > 0);
    assert_int_equal(e[0].op, TPP_OP_RECV_F);
    assert_int_equal(e[0].peer, 0);
    assert_true(e[0].end - e[0].start > 0.015);
    assert_true(rig.report.makespan > 0.029);
    assert_true(rig.report.bubble_global > 0.029);
    tpp_trace_destroy(rig.run.trace);
    exec_rig_close(&rig);
    tpp_schedule_destroy(s);
}

/* The simulator's clock starts at 0 in every run; its events are the compute actions. */
static void test_sim(void **state) {
    (void)state;
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_INTERLEAVED, 3, 2, 4, 0);
    exec_sim sim;
    exec_sim_equal(&sim, s, 0.5, 0.5, 0.5, 0);
    for (int32_t row = 0; row < 3; row++) {
        int64_t count, n, at = 0;
        const tpp_event *e = tpp_trace_events(sim.trace, row, &count);
        const tpp_action *a = tpp_schedule_actions(s, row, &n);
        for (int64_t i = 0; i < n; i++) {
            if (a[i].op >= TPP_OP_SEND_F)
                continue;
            assert_int_equal(e[at].op, a[i].op);
            assert_int_equal(e[at].stage, a[i].stage);
            assert_int_equal(e[at].micro, a[i].micro);
            assert_int_equal(e[at].peer, -1);
            assert_true(at == 0 || e[at].start >= e[at - 1].end);
            at++;
        }
        assert_int_equal(at, count);
        assert_int_equal(count, 2 * 2 * 4);
    }
    assert_true(tpp_trace_events(sim.trace, 0, &(int64_t){0})[0].start == 0);
    exec_sim_free(&sim);
    tpp_schedule_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_sim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
