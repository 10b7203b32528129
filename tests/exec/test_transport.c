/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/comm_shuffle.h"
#include "support/exec_lazy.h"
#include "support/exec_rig.h"
#include "support/exec_sim.h"

/* The walkers over transports that are slow, that move only when asked, and that lose messages. */

static tpp_comm *lazy(tpp_comm *inner) {
    const exec_lazy_desc d = {.most_asked = 12, .fail_at = -1, .drop_at = -1, .timeout = 20};
    return exec_lazy_create(inner, &d);
}

static uint64_t shuffle_seed;

static tpp_comm *shuffled(tpp_comm *inner) {
    tpp_comm *out = NULL;
    exec_expect_ok(comm_shuffle_create(&out, inner, shuffle_seed++));
    return out;
}

static void run_over(exec_wrap wrap, const tpp_schedule *s, int32_t lanes, exec_kind kind) {
    exec_rig rig;
    alarm(20);
    exec_rig_open(&rig, s, lanes, kind, wrap);
    for (uint64_t step = 0; step < 3; step++) {
        exec_expect_ok(exec_rig_step(&rig));
        exec_rig_check(&rig, step);
    }
    exec_rig_close(&rig);
    alarm(0);
}

/* Not with threads and lanes: while a rank waits for its other lane inside a callback, nobody
 * asks after its messages (exec.h, Transports). */
static void run_over_both(const tpp_schedule *s) {
    run_over(lazy, s, 1, EXEC_SERIAL);
    run_over(lazy, s, 2, EXEC_SERIAL);
    run_over(lazy, s, 1, EXEC_THREADS);
    run_over(lazy, s, 1, EXEC_DISTRIBUTED);
    for (int i = 0; i < 4; i++) {
        run_over(shuffled, s, 1, EXEC_SERIAL);
        run_over(shuffled, s, 2, EXEC_SERIAL);
        run_over(shuffled, s, 1, EXEC_THREADS);
        run_over(shuffled, s, 1, EXEC_DISTRIBUTED);
    }
}

/* Messages overtake each other, and the executor asks after every one until it is over. Serial
 * lanes meet in collectives all the same: their order does not depend on when messages arrive. */
static void test_lazy(void **state) {
    static const int32_t shapes[][4] = {
        {TPP_SCHEDULE_GPIPE, 3, 1, 5},       {TPP_SCHEDULE_1F1B, 2, 1, 6},
        {TPP_SCHEDULE_1F1B, 4, 1, 8},        {TPP_SCHEDULE_1F1B, 5, 1, 3},
        {TPP_SCHEDULE_INTERLEAVED, 2, 2, 2}, /* next and previous rank are the same */
        {TPP_SCHEDULE_INTERLEAVED, 2, 2, 4}, {TPP_SCHEDULE_INTERLEAVED, 2, 3, 5},
        {TPP_SCHEDULE_INTERLEAVED, 4, 2, 6},
    };
    (void)state;
    int64_t before = exec_lazy_made();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int32_t *x = shapes[i];
        tpp_schedule *s = exec_schedule(x[0], x[1], x[2], x[3], 0);
        run_over_both(s);
        tpp_schedule_destroy(s);
    }
    assert_true(exec_lazy_made() > before);
    assert_int_equal(exec_lazy_made(), exec_lazy_ended());
}

static void test_lazy_halves(void **state) {
    (void)state;
    tpp_schedule *s = exec_schedule_text("0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2\n"
                                         "1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2\n");
    run_over_both(s);
    tpp_schedule_destroy(s);
}

static int32_t lose;      /* the send that is lost, ... */
static int32_t lose_rank; /* ... on this rank */
static int32_t no_abort;

static tpp_comm *leaky(tpp_comm *inner) {
    const exec_lazy_desc d = {.most_asked = 2,
                              .fail_at = -1,
                              .drop_at = tpp_comm_rank(inner) == lose_rank ? lose : -1,
                              .timeout = 0.05,
                              .cannot_abort = no_abort};
    return exec_lazy_create(inner, &d);
}

/* A lost message ends the run by the comm's deadline, on both executors, at the receive of that
 * message. */
static void lose_one(exec_kind kind) {
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_1F1B, 3, 1, 4, 0);
    exec_rig rig;
    alarm(20);
    exec_rig_open(&rig, s, 1, kind, leaky);
    assert_int_equal(exec_rig_step(&rig), TPP_ERR_TIMEOUT);
    assert_non_null(strstr(tpp_message(), "rank "));
    assert_true(rig.report.failed_rank >= 0);
    for (int32_t row = 0; row < rig.rows; row++)
        assert_int_equal(rig.layers[row].entered, rig.layers[row].left);
    exec_rig_close(&rig);
    alarm(0);
    tpp_schedule_destroy(s);
}

static void test_lost(void **state) {
    (void)state;
    for (no_abort = 0; no_abort < 2; no_abort++) {
        for (lose_rank = 0; lose_rank < 3; lose_rank++) {
            for (lose = 0; lose < 4; lose += 3) {
                lose_one(EXEC_SERIAL);
                lose_one(EXEC_THREADS);
                lose_one(EXEC_DISTRIBUTED);
            }
        }
    }
}

/* A send that fails after it was posted is found wherever it is asked after: before its buffer
 * is written again, while its rank waits for something else, or at the end of the run. */
static int32_t cut_send, cut_rank, cut_asked;

static tpp_comm *broken(tpp_comm *inner) {
    const exec_lazy_desc d = {.most_asked = cut_asked,
                              .fail_at = tpp_comm_rank(inner) == cut_rank ? cut_send : -1,
                              .drop_at = -1,
                              .timeout = 20};
    return exec_lazy_create(inner, &d);
}

static void cut_one(const tpp_schedule *s, exec_kind kind) {
    exec_rig rig;
    char want[40];
    alarm(20);
    exec_rig_open(&rig, s, 1, kind, broken);
    assert_int_equal(exec_rig_step(&rig), TPP_ERR_COMM);
    snprintf(want, sizeof want, "rank %d lane 0, %dSEND_", cut_rank, cut_rank);
    assert_non_null(strstr(tpp_message(), want));
    assert_non_null(strstr(tpp_message(), ": the line was cut"));
    assert_true(rig.report.failed_op == TPP_OP_SEND_F || rig.report.failed_op == TPP_OP_SEND_B);
    exec_rig_close(&rig);
    alarm(0);
}

static void test_failing_sends(void **state) {
    (void)state;
    for (int32_t p = 2; p <= 3; p++) {
        tpp_schedule *s = exec_schedule(TPP_SCHEDULE_1F1B, p, 1, 4, 0);
        cut_rank = 1;
        for (cut_asked = 0; cut_asked <= 2; cut_asked++) {
            for (cut_send = 0; cut_send < 4 * (p - 1); cut_send++) {
                cut_one(s, EXEC_SERIAL);
                cut_one(s, EXEC_THREADS);
                cut_one(s, EXEC_DISTRIBUTED);
            }
        }
        tpp_schedule_destroy(s);
    }
}

/* A message belongs to its step: what a step left behind is never taken by the next. */
static void test_step_in_tag(void **state) {
    (void)state;
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_GPIPE, 2, 1, 1, 0);
    tpp_request request;
    uint64_t stale[3] = {1, 2, 3};
    exec_rig rig;
    exec_rig_open(&rig, s, 1, EXEC_THREADS, NULL);
    int64_t n;
    const tpp_action *a = tpp_schedule_actions(s, 0, &n);
    assert_int_equal(a[1].op, TPP_OP_SEND_F);
    rig.run.step = 5;
    exec_expect_ok(tpp_comm_send_start(rig.comms[0], stale, 3, TPP_I64, 1, a[1].tag, &request));
    exec_expect_ok(exec_rig_step(&rig));
    exec_rig_check(&rig, 5);
    tpp_comm_abort(rig.comms[0]);
    assert_int_equal(tpp_comm_wait(&request), TPP_ERR_ABORTED);
    exec_rig_close(&rig);
    tpp_schedule_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lazy),        cmocka_unit_test(test_lazy_halves),
        cmocka_unit_test(test_lost),        cmocka_unit_test(test_failing_sends),
        cmocka_unit_test(test_step_in_tag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
