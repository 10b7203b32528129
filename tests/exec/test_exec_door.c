/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/exec_rig.h"
#include "support/exec_sim.h"

/* What executors refuse, each with a sentence, before anything runs. */

static void expect_part(const char *part) {
    if (!strstr(tpp_message(), part))
        fail_msg("\"%s\" does not say \"%s\"", tpp_message(), part);
}

static void refused(exec_rig *rig, tpp_status status, const char *part) {
    rig->report.failed_rank = 77;
    assert_int_equal(tpp_executor_run(rig->executor, &rig->run, &rig->report), status);
    expect_part(part);
    assert_int_equal(rig->report.failed_rank, -1);
    assert_int_equal(rig->layers[0].entered, 0);
}

static void refuse_fields(exec_rig *rig) {
    const tpp_run good = rig->run;
    rig->run.size = 4;
    refused(rig, TPP_ERR_INVALID, "run.size = 4");
    rig->run = good;
    rig->run.flags = 2;
    refused(rig, TPP_ERR_TOO_NEW, "run.flags");
    rig->run = good;
    rig->run.schedule = NULL;
    refused(rig, TPP_ERR_INVALID, "run.schedule is NULL");
    rig->run = good;
    rig->run.lanes = -1;
    refused(rig, TPP_ERR_INVALID, "run.lanes = -1");
    rig->run.lanes = 3;
    refused(rig, TPP_ERR_INVALID, "lanes = 3; the executor was made for 2");
    rig->run.lanes = INT32_MAX;
    refused(rig, TPP_ERR_OVERFLOW, "run.lanes = 2147483647");
    rig->run = good;
    rig->run.ranks = NULL;
    refused(rig, TPP_ERR_INVALID, "run.ranks is NULL; it must have 6 entries (3 ranks x 2 lanes)");
    rig->run = good;
    rig->run.message_count = -1;
    refused(rig, TPP_ERR_INVALID, "run.message_count = -1");
    rig->run = good;
    rig->run.message_dtype = 5;
    refused(rig, TPP_ERR_INVALID, "run.message_dtype = 5");
    rig->run = good;
    rig->run.memory = NULL;
    refused(rig, TPP_ERR_INVALID, "run.memory is NULL");
    rig->run = good;
    rig->run.memory = (char *)good.memory + 8;
    refused(rig, TPP_ERR_INVALID, "is not aligned to 64 bytes");
    rig->run = good;
    rig->run.memory_bytes--;
    char need[64];
    snprintf(need, sizeof need, "this run needs %lld", (long long)good.memory_bytes);
    refused(rig, TPP_ERR_TOO_SMALL, need);
    rig->run = good;
}

static void refuse_ranks(exec_rig *rig) {
    const tpp_run_rank good = rig->ranks[3];
    tpp_stage_ops ops = exec_layer_ops;
    rig->ranks[3].ops = &ops;
    ops.forward = NULL;
    refused(rig, TPP_ERR_INVALID,
            "run.ranks[3].ops->forward is NULL; the schedule of rank 1 has F");
    ops = exec_layer_ops;
    ops.backward = NULL;
    refused(rig, TPP_ERR_INVALID,
            "run.ranks[3].ops->backward is NULL; the schedule of rank 1 has B");
    ops = exec_layer_ops;
    ops.size = 0;
    refused(rig, TPP_ERR_INVALID, "run.ranks[3].ops.size = 0");
    rig->ranks[3].ops = NULL;
    refused(rig, TPP_ERR_INVALID, "run.ranks[3].ops is NULL");
    rig->ranks[3] = good;
    rig->ranks[3].comm = NULL;
    refused(rig, TPP_ERR_INVALID, "run.ranks[3].comm is NULL; it must be rank 1 of a group of 3");
    rig->ranks[3].comm = rig->ranks[5].comm;
    refused(rig, TPP_ERR_INVALID,
            "run.ranks[3].comm is rank 2 of a group of 3; it must be rank 1 of 3");
    rig->ranks[3].comm = rig->layers[0].group;
    refused(rig, TPP_ERR_INVALID, "of a group of 2; it must be rank 1 of 3");
    rig->ranks[3] = good;
}

static void refuse_rest(exec_rig *rig) {
    tpp_trace *small;
    exec_expect_ok(tpp_trace_create(&small, 5, 8, NULL));
    rig->run.trace = small;
    refused(rig, TPP_ERR_INVALID, "run.trace has 5 rows; this run fills 6");
    rig->run.trace = NULL;
    tpp_trace_destroy(small);

    tpp_schedule *open;
    tpp_schedule_desc d = {.size = sizeof d, .kind = TPP_SCHEDULE_1F1B, .ranks = 3, .micros = 4};
    const tpp_schedule *good = rig->run.schedule;
    exec_expect_ok(tpp_schedule_create(&open, &d));
    rig->run.schedule = open;
    refused(rig, TPP_ERR_INVALID, "run.schedule is not finished");
    rig->run.schedule = good;
    tpp_schedule_destroy(open);

    tpp_run_report report = {.size = 3};
    assert_int_equal(tpp_executor_run(rig->executor, &rig->run, &report), TPP_ERR_INVALID);
    expect_part("report.size = 3");
    assert_int_equal(tpp_executor_run(NULL, &rig->run, NULL), TPP_ERR_INVALID);
    assert_int_equal(tpp_executor_run(rig->executor, NULL, NULL), TPP_ERR_INVALID);
    int64_t bytes;
    assert_int_equal(tpp_run_query(NULL, &bytes), TPP_ERR_INVALID);
    assert_int_equal(tpp_run_query(&rig->run, NULL), TPP_ERR_INVALID);
}

static void test_refused_runs(void **state) {
    (void)state;
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_1F1B, 3, 1, 4, 0);
    for (int32_t kind = EXEC_SERIAL; kind <= EXEC_THREADS; kind++) {
        exec_rig rig;
        exec_rig_open(&rig, s, 2, kind, NULL);
        refuse_fields(&rig);
        refuse_ranks(&rig);
        refuse_rest(&rig);
        exec_expect_ok(exec_rig_step(&rig)); /* nothing was harmed */
        exec_rig_check(&rig, 0);
        exec_rig_close(&rig);
    }
    tpp_schedule_destroy(s);
}

/* A half is asked for only where the schedule has it. */
static void test_missing_halves(void **state) {
    (void)state;
    tpp_schedule *s = exec_schedule_text("0F0 0B0\n1F0 1I0 1W0\n");
    exec_rig rig;
    exec_rig_open(&rig, s, 1, EXEC_SERIAL, NULL);
    tpp_stage_ops whole = exec_layer_ops, halves = exec_layer_ops;
    whole.backward_input = whole.backward_weight = NULL;
    halves.backward = NULL;
    rig.ranks[0].ops = &whole;
    rig.ranks[1].ops = &halves;
    exec_expect_ok(exec_rig_step(&rig));
    exec_rig_check(&rig, 0);
    halves.backward_weight = NULL;
    assert_int_equal(exec_rig_step(&rig), TPP_ERR_INVALID);
    expect_part("run.ranks[1].ops->backward_weight is NULL; the schedule of rank 1 has W");
    halves.backward_input = NULL;
    assert_int_equal(exec_rig_step(&rig), TPP_ERR_INVALID);
    expect_part("run.ranks[1].ops->backward_input is NULL; the schedule of rank 1 has I");
    exec_rig_close(&rig);
    tpp_schedule_destroy(s);
}

static void test_other_number_of_ranks(void **state) {
    (void)state;
    tpp_schedule *two = exec_schedule(TPP_SCHEDULE_1F1B, 2, 1, 4, 0);
    tpp_executor *e;
    exec_rig rig;
    exec_rig_open(&rig, two, 1, EXEC_SERIAL, NULL);
    exec_expect_ok(tpp_executor_threads_create(&e, 3, 1, NULL));
    assert_int_equal(tpp_executor_run(e, &rig.run, NULL), TPP_ERR_INVALID);
    expect_part("ranks = 2; the executor was made for 3");
    tpp_executor_destroy(e);
    exec_rig_close(&rig);
    tpp_schedule_destroy(two);
}

/* Lanes 0 means 1, a report of an older program is shorter, and none is fine. */
static void test_short_report(void **state) {
    (void)state;
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_1F1B, 2, 1, 4, 0);
    exec_rig rig;
    exec_rig_open(&rig, s, 1, EXEC_THREADS, NULL);
    rig.run.lanes = 0;
    exec_expect_ok(tpp_executor_run(rig.executor, &rig.run, NULL));
    rig.report.size = offsetof(tpp_run_report, work);
    rig.report.work = -5;
    exec_expect_ok(exec_rig_step(&rig));
    assert_true(rig.report.makespan > 0);
    assert_true(rig.report.work == -5);
    exec_rig_close(&rig);
    tpp_schedule_destroy(s);
}

/* Distributed: entry j of run.ranks is lane j of its rank, and so is row j of report and trace. */
static void test_refused_alone(void **state) {
    (void)state;
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_1F1B, 3, 1, 4, 0);
    tpp_trace *small;
    exec_rig rig;
    exec_rig_open(&rig, s, 2, EXEC_SERIAL, NULL);
    tpp_executor_destroy(rig.executor);
    exec_expect_ok(tpp_executor_distributed_create(&rig.executor, 1, 2, NULL));
    refused(&rig, TPP_ERR_INVALID,
            "run.ranks[0].comm is rank 0 of a group of 3; it must be rank 1");
    rig.run.ranks = rig.ranks + 2;
    rig.run.lanes = 1;
    refused(&rig, TPP_ERR_INVALID, "lanes = 1; the executor was made for 2");
    rig.run.lanes = 2;
    exec_expect_ok(tpp_trace_create(&small, 1, 8, NULL));
    rig.run.trace = small;
    refused(&rig, TPP_ERR_INVALID, "run.trace has 1 rows; this run fills 2");
    rig.run.trace = NULL;
    tpp_trace_destroy(small);
    tpp_stage_ops ops = exec_layer_ops;
    ops.backward = NULL;
    rig.ranks[3].ops = &ops;
    rig.work[2] = 5;
    refused(&rig, TPP_ERR_INVALID,
            "run.ranks[1].ops->backward is NULL; the schedule of rank 1 has B");
    assert_true(rig.work[2] == 5); /* not a row of its own */
    rig.run.ranks = NULL;
    refused(&rig, TPP_ERR_INVALID, "run.ranks is NULL; it must have 2 entries (1 ranks x 2 lanes)");
    tpp_schedule *one = exec_schedule(TPP_SCHEDULE_1F1B, 1, 1, 4, 0);
    rig.run.schedule = one;
    refused(&rig, TPP_ERR_INVALID, "ranks = 1; the executor was made for rank 1");
    tpp_schedule_destroy(one);
    exec_rig_close(&rig);
    tpp_schedule_destroy(s);
}

static void test_refused_creates(void **state) {
    tpp_executor *e = (tpp_executor *)state;
    tpp_executor_ops ops = {.size = sizeof ops};
    assert_int_equal(tpp_executor_serial_create(NULL, 1, NULL), TPP_ERR_INVALID);
    assert_int_equal(tpp_executor_threads_create(NULL, 1, 1, NULL), TPP_ERR_INVALID);
    assert_int_equal(tpp_executor_create(NULL, &ops, NULL, NULL), TPP_ERR_INVALID);
    assert_int_equal(tpp_executor_serial_create(&e, 0, NULL), TPP_ERR_INVALID);
    expect_part("lanes = 0");
    assert_null(e);
    assert_int_equal(tpp_executor_threads_create(&e, 0, 1, NULL), TPP_ERR_INVALID);
    expect_part("ranks = 0");
    assert_int_equal(tpp_executor_threads_create(&e, 2, -1, NULL), TPP_ERR_INVALID);
    expect_part("lanes = -1");
    assert_int_equal(tpp_executor_threads_create(&e, 1 << 20, 1 << 20, NULL), TPP_ERR_OVERFLOW);
    assert_int_equal(tpp_executor_distributed_create(NULL, 0, 1, NULL), TPP_ERR_INVALID);
    assert_int_equal(tpp_executor_distributed_create(&e, -1, 1, NULL), TPP_ERR_INVALID);
    expect_part("rank = -1");
    assert_int_equal(tpp_executor_distributed_create(&e, 0, 0, NULL), TPP_ERR_INVALID);
    expect_part("lanes = 0");
    assert_int_equal(tpp_executor_create(&e, &ops, NULL, NULL), TPP_ERR_INVALID);
    expect_part("ops.run is NULL");
    assert_int_equal(tpp_executor_create(&e, NULL, NULL, NULL), TPP_ERR_INVALID);
    tpp_allocator bad = {.size = sizeof bad};
    assert_int_equal(tpp_executor_serial_create(&e, 1, &bad), TPP_ERR_INVALID);
    expect_part("allocator.alloc is NULL");
    tpp_executor_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_runs),          cmocka_unit_test(test_missing_halves),
        cmocka_unit_test(test_other_number_of_ranks), cmocka_unit_test(test_short_report),
        cmocka_unit_test(test_refused_creates),       cmocka_unit_test(test_refused_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
