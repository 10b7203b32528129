/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/exec_rig.h"
#include "support/exec_sim.h"

/* A run that fails ends on all ranks, says where, and leaves things that can be destroyed. */

static void expect_message(const char *want) {
    if (strcmp(tpp_message(), want) != 0)
        fail_msg("\"%s\" is not \"%s\"", tpp_message(), want);
}

static void expect_part(const char *part) {
    if (!strstr(tpp_message(), part))
        fail_msg("\"%s\" does not say \"%s\"", tpp_message(), part);
}

static void expect_left(const exec_rig *rig) {
    for (int32_t row = 0; row < rig->rows; row++)
        assert_int_equal(rig->layers[row].entered, rig->layers[row].left);
}

/* The compute action with number `at` of a rank. */
static const tpp_action *compute_action(const tpp_schedule *s, int32_t rank, int32_t at) {
    int64_t n;
    const tpp_action *a = tpp_schedule_actions(s, rank, &n);
    for (int64_t i = 0; i < n; i++) {
        if (a[i].op < TPP_OP_SEND_F && at-- == 0)
            return &a[i];
    }
    return NULL;
}

static const char *letter(tpp_op op) {
    return op == TPP_OP_F ? "F" : op == TPP_OP_B ? "B" : op == TPP_OP_I ? "I" : "W";
}

static void fail_at(const tpp_schedule *s, int32_t lanes, exec_kind kind, int32_t row, int32_t at,
                    tpp_status status) {
    exec_rig rig;
    char want[200];
    alarm(20);
    exec_rig_open(&rig, s, lanes, kind, NULL);
    exec_layer *l = &rig.layers[row];
    const tpp_action *a = compute_action(s, l->rank, at);
    l->fail_at = at;
    l->fail_with = status;
    l->fail_text = "the pump is out of order";
    assert_int_equal(exec_rig_step(&rig), status);
    snprintf(want, sizeof want, "rank %d lane %d, %d%s%d: the pump is out of order", l->rank,
             l->lane, a->stage, letter(a->op), a->micro);
    expect_message(want);
    assert_int_equal(rig.report.failed_rank, l->rank);
    assert_int_equal(rig.report.failed_lane, l->lane);
    assert_int_equal(rig.report.failed_stage, a->stage);
    assert_int_equal(rig.report.failed_micro, a->micro);
    assert_int_equal(rig.report.failed_op, a->op);
    if (kind == EXEC_DISTRIBUTED) /* a rank that was done already hears of nothing */
        assert_in_range(rig.aborts, lanes, rig.rows);
    else
        assert_int_equal(rig.aborts, rig.rows);
    expect_left(&rig);
    /* The comms are of no further use; a run says so and does not hang. */
    l->fail_at = -1;
    if (rig.rows > 1)
        assert_int_equal(exec_rig_step(&rig), TPP_ERR_ABORTED);
    exec_rig_close(&rig);
    alarm(0);
}

static void fail_everywhere(const tpp_schedule *s, int32_t lanes) {
    static const tpp_status statuses[] = {TPP_ERR_USER - 5, TPP_ERR_RANGE, TPP_ERR_INVALID};
    tpp_schedule_info info = {.size = sizeof info};
    exec_expect_ok(tpp_schedule_query(s, &info));
    for (int32_t row = 0; row < info.ranks * lanes; row++) {
        for (int32_t at = 0; compute_action(s, row / lanes, at); at++) {
            fail_at(s, lanes, EXEC_SERIAL, row, at, statuses[at % 3]);
            fail_at(s, lanes, EXEC_THREADS, row, at, statuses[(at + 1) % 3]);
            fail_at(s, lanes, EXEC_DISTRIBUTED, row, at, statuses[(at + 2) % 3]);
        }
    }
}

static void test_each_action(void **state) {
    static const int32_t shapes[][4] = {
        {TPP_SCHEDULE_1F1B, 1, 1, 2},
        {TPP_SCHEDULE_GPIPE, 3, 1, 3},
        {TPP_SCHEDULE_1F1B, 3, 1, 5},
        {TPP_SCHEDULE_INTERLEAVED, 2, 2, 3},
    };
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int32_t *x = shapes[i];
        tpp_schedule *s = exec_schedule(x[0], x[1], x[2], x[3], 0);
        fail_everywhere(s, 1);
        fail_everywhere(s, 2);
        tpp_schedule_destroy(s);
    }
    tpp_schedule *s = exec_schedule_text("0F0 0F1 0I0 0W0 0I1 0W1\n1F0 1I0 1F1 1I1 1W0 1W1\n");
    fail_everywhere(s, 1);
    tpp_schedule_destroy(s);
}

/* A callback that says nothing, and one that returns what it must not. */
static void test_odd_returns(void **state) {
    (void)state;
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_1F1B, 2, 1, 2, 0);
    for (int32_t kind = EXEC_SERIAL; kind <= EXEC_DISTRIBUTED; kind++) {
        for (int32_t row = 0; row < 2; row++) {
            exec_rig rig;
            exec_rig_open(&rig, s, 1, kind, NULL);
            rig.layers[row].fail_at = 1;
            rig.layers[row].fail_with = -1005;
            tpp_message_set("an older sentence that has nothing to do with it");
            assert_int_equal(exec_rig_step(&rig), -1005);
            expect_part(": the callback returned -1005 (TPP_ERR_USER) without a message");
            exec_rig_close(&rig);

            exec_rig_open(&rig, s, 1, kind, NULL);
            rig.layers[row].fail_at = 1;
            rig.layers[row].fail_with = TPP_PENDING;
            assert_int_equal(exec_rig_step(&rig), TPP_ERR_INVALID);
            expect_part(": the callback returned 1; it must return TPP_OK or a failure");
            exec_rig_close(&rig);
        }
    }
    tpp_schedule_destroy(s);
}

/* The first failure wins: the others are made to fail by it. */
static atomic_int order;

static void second_waits(exec_rig *rig, exec_layer *l) {
    if (l->calls != l->fail_at)
        return;
    if (l->rank == 0) {
        while (atomic_load(&order) == 0)
            sched_yield();
        return;
    }
    atomic_store(&order, 1);
    while (atomic_load(&rig->aborts) == 0)
        sched_yield();
    atomic_store(&order, 2);
}

static void test_first_wins(void **state) {
    (void)state;
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_1F1B, 2, 1, 4, 0);
    exec_rig rig;
    alarm(20);
    exec_rig_open(&rig, s, 1, EXEC_THREADS, NULL);
    rig.hook = second_waits;
    rig.layers[0].fail_at = 1;
    rig.layers[0].fail_with = TPP_ERR_USER - 1;
    rig.layers[1].fail_at = 0;
    rig.layers[1].fail_with = TPP_ERR_USER - 2;
    assert_int_equal(exec_rig_step(&rig), TPP_ERR_USER - 1);
    assert_int_equal(atomic_load(&order), 2);
    assert_int_equal(rig.report.failed_rank, 0);
    exec_rig_close(&rig);
    alarm(0);
    tpp_schedule_destroy(s);
}

/* A lane that meets nobody learns of a failure before its next action. */
static void lanes_in_step(exec_rig *rig, exec_layer *l) {
    if (l->lane == 0 && l->calls == l->fail_at) {
        while (atomic_load(&order) == 0)
            sched_yield();
    }
    if (l->lane == 1 && l->calls == 1) {
        atomic_store(&order, 1);
        while (atomic_load(&rig->aborts) < rig->rows)
            sched_yield();
    }
}

static void test_lane_of_its_own(void **state) {
    (void)state;
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_1F1B, 1, 1, 4, 0);
    for (int32_t kind = EXEC_SERIAL; kind <= EXEC_DISTRIBUTED; kind++) {
        exec_rig rig;
        alarm(20);
        exec_rig_open(&rig, s, 2, kind, NULL);
        for (int32_t row = 0; row < 2; row++) {
            tpp_comm_destroy(rig.layers[row].group);
            rig.layers[row].group = NULL;
        }
        rig.hook = lanes_in_step;
        atomic_store(&order, 0);
        rig.layers[0].fail_at = 3;
        rig.layers[0].fail_with = TPP_ERR_USER;
        assert_int_equal(exec_rig_step(&rig), TPP_ERR_USER);
        assert_int_equal(rig.layers[1].calls, 2);
        exec_rig_close(&rig);
        alarm(0);
    }
    tpp_schedule_destroy(s);
}

/* Somebody else aborts a comm of the run, at each action of a step, from each rank; all end
 * soon. */
static int32_t cut_row, cut_call;

static void cut(exec_rig *rig, exec_layer *l) {
    if (l == &rig->layers[cut_row] && l->calls == cut_call)
        tpp_comm_abort(rig->comms[(cut_row + 1) % rig->rows]);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void test_abort_from_outside(void **state) {
    (void)state;
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_1F1B, 3, 1, 3, 0);
    for (int32_t kind = EXEC_SERIAL; kind <= EXEC_DISTRIBUTED; kind++) {
        for (cut_row = 0; cut_row < 3; cut_row++) {
            for (cut_call = 0; cut_call < 6; cut_call++) {
                exec_rig rig;
                alarm(20);
                exec_rig_open(&rig, s, 1, kind, NULL);
                rig.hook = cut;
                double start = seconds();
                tpp_status status = exec_rig_step(&rig);
                assert_true(seconds() - start < 2);
                /* After the last message of all ranks nobody notices. */
                if (cut_row != 0 || cut_call < 5)
                    assert_int_equal(status, TPP_ERR_ABORTED);
                if (status < 0)
                    expect_part("rank ");
                expect_left(&rig);
                exec_rig_close(&rig);
                alarm(0);
            }
        }
    }
    tpp_schedule_destroy(s);
}

/* Ranks whose messages differ in size: the comm's finding comes out, not the abort that follows
 * from it. */
static void test_mismatch(void **state) {
    (void)state;
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_1F1B, 2, 1, 2, 0);
    tpp_request request;
    uint64_t x = 0;
    int64_t n;
    exec_rig rig;
    alarm(20);
    exec_rig_open(&rig, s, 1, EXEC_THREADS, NULL);
    const tpp_action *a = tpp_schedule_actions(s, 0, &n);
    exec_expect_ok(tpp_comm_send_start(rig.comms[0], &x, 1, TPP_I64, 1, a[1].tag, &request));
    assert_int_equal(exec_rig_step(&rig), TPP_ERR_MISMATCH);
    expect_part("rank 1 lane 0, 1RECV_F0: ");
    tpp_comm_abort(rig.comms[0]);
    assert_true(tpp_comm_wait(&request) < 0);
    exec_rig_close(&rig);
    alarm(0);
    tpp_schedule_destroy(s);
}

/* A run that succeeds leaves the caller's message alone. */
static void test_message_kept(void **state) {
    (void)state;
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_1F1B, 2, 1, 2, 0);
    for (int32_t kind = EXEC_SERIAL; kind <= EXEC_DISTRIBUTED; kind++) {
        exec_rig rig;
        exec_rig_open(&rig, s, 1, kind, NULL);
        tpp_message_set("what failed last");
        exec_expect_ok(exec_rig_step(&rig));
        assert_string_equal(tpp_message(), "what failed last");
        exec_rig_close(&rig);
    }
    tpp_schedule_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_action),        cmocka_unit_test(test_odd_returns),
        cmocka_unit_test(test_first_wins),         cmocka_unit_test(test_lane_of_its_own),
        cmocka_unit_test(test_abort_from_outside), cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_message_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
