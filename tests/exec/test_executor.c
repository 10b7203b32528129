/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/exec_memory.h"
#include "support/exec_rig.h"
#include "support/exec_sim.h"

/* Memory, executors of the host, and each. */

static void expect_part(const char *part) {
    if (!strstr(tpp_message(), part))
        fail_msg("\"%s\" does not say \"%s\"", tpp_message(), part);
}

/* --- Memory ----------------------------------------------------------------------------------- */

static tpp_status create_kind(tpp_executor **out, int kind, const tpp_allocator *a) {
    static const double costs[3] = {1, 2, 3};
    const tpp_sim_desc d = {
        .size = sizeof d, .stages = 3, .forward = costs, .backward = costs, .allocator = a};
    switch (kind) {
    case 0:
        return tpp_executor_sim_create(out, &d);
    case 1:
        return tpp_executor_serial_create(out, 2, a);
    case 2:
        return tpp_executor_threads_create(out, 3, 2, a);
    default:
        return tpp_executor_distributed_create(out, 1, 2, a);
    }
}

static void test_allocation_fails(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        tpp_executor *e = NULL;
        exec_memory m;
        tpp_status status = TPP_ERR_NO_MEMORY;
        exec_memory_open(&m);
        for (int64_t n = 0; status != TPP_OK; n++) {
            m.calls = 0;
            m.fail_at = n;
            status = create_kind(&e, kind, &m.allocator);
            if (status == TPP_OK)
                break;
            assert_int_equal(status, TPP_ERR_NO_MEMORY);
            assert_null(e);
            assert_int_equal(m.live, 0);
        }
        assert_true(m.calls >= 2);
        tpp_executor_destroy(e);
        assert_int_equal(m.live, 0);
        assert_int_equal(m.bytes, 0);
    }
}

static void test_runs_do_not_allocate(void **state) {
    (void)state;
    if (exec_memory_mallocs() < 0)
        skip();
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_INTERLEAVED, 3, 2, 6, 0);
    for (int32_t kind = EXEC_SERIAL; kind <= EXEC_THREADS; kind++) {
        exec_rig rig;
        exec_rig_open(&rig, s, 2, kind, NULL);
        exec_expect_ok(tpp_trace_create(&rig.run.trace, rig.rows, 1000, NULL));
        for (int step = 0; step < 3; step++) {
            int64_t before = exec_memory_mallocs();
            tpp_status status = exec_rig_step(&rig);
            assert_int_equal(exec_memory_mallocs(), before);
            exec_expect_ok(status);
        }
        tpp_trace_destroy(rig.run.trace);
        exec_rig_close(&rig);
    }
    static const double costs[6] = {1, 1, 1, 1, 1, 1};
    const tpp_sim_desc d = {.size = sizeof d, .stages = 6, .forward = costs, .backward = costs};
    tpp_executor *e;
    tpp_run run = {.size = sizeof run, .schedule = s};
    exec_expect_ok(tpp_executor_sim_create(&e, &d));
    exec_expect_ok(tpp_run_query(&run, &run.memory_bytes));
    run.memory = aligned_alloc(64, (size_t)run.memory_bytes);
    int64_t before = exec_memory_mallocs();
    assert_true(before > 0);
    tpp_status status = tpp_executor_run(e, &run, NULL);
    assert_int_equal(exec_memory_mallocs(), before);
    exec_expect_ok(status);
    free(run.memory);
    tpp_executor_destroy(e);
    tpp_schedule_destroy(s);
}

/* The system refuses a thread: those that were started end, and nothing stays. */
static void test_no_more_threads(void **state) {
    long pages = 0;
    struct rlimit old, low;
    exec_memory m;
    tpp_executor *e;
    (void)state;
    if (exec_memory_mallocs() < 0)
        skip();
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld", &pages) != 1)
        fail_msg("cannot read /proc/self/statm");
    fclose(f);
    getrlimit(RLIMIT_AS, &old);
    low = old;
    low.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)64 << 20);
    setrlimit(RLIMIT_AS, &low);
    exec_memory_open(&m);
    tpp_status status = tpp_executor_threads_create(&e, 500, 1, &m.allocator);
    setrlimit(RLIMIT_AS, &old);
    assert_int_equal(status, TPP_ERR_NO_MEMORY);
    expect_part("cannot start another thread");
    assert_null(e);
    assert_int_equal(m.live, 0);
}

/* --- Executors of the host -------------------------------------------------------------------- */

typedef struct host {
    const tpp_schedule *schedule;
    int runs, destroyed;
    tpp_status answer;
    int sees_zeros, sees_rows;
} host;

static tpp_status host_run(void *ctx, const tpp_run *run, tpp_run_report *report) {
    host *h = ctx;
    h->runs++;
    h->sees_zeros = report->makespan == 0 && report->failed_rank == -1 && report->failed_op == 0;
    h->sees_rows = report->row_work && report->row_work[1] == 0 && run->lanes == 1 &&
                   run->schedule == h->schedule;
    report->makespan = 12;
    report->row_work[1] = 5;
    if (h->answer < 0)
        tpp_message_set("the host's own reason");
    return h->answer;
}

static void host_destroy(void *ctx) {
    ((host *)ctx)->destroyed++;
}

static void test_host_executor(void **state) {
    (void)state;
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_GPIPE, 2, 1, 3, 0);
    host h = {.schedule = s};
    const tpp_executor_ops ops = {.size = sizeof ops, .run = host_run, .destroy = host_destroy};
    double work[2] = {9, 9};
    tpp_run run = {.size = sizeof run, .schedule = s};
    tpp_run_report report = {
        .size = sizeof report, .row_work = work, .makespan = 3, .failed_op = 9};
    tpp_executor *e;
    exec_memory m;
    exec_memory_open(&m);
    m.fail_at = 0;
    assert_int_equal(tpp_executor_create(&e, &ops, &h, &m.allocator), TPP_ERR_NO_MEMORY);
    assert_int_equal(h.destroyed, 0);
    exec_expect_ok(tpp_executor_create(&e, &ops, &h, &m.allocator));
    exec_expect_ok(tpp_executor_run(e, &run, &report));
    assert_true(h.sees_zeros && h.sees_rows);
    assert_true(report.makespan == 12 && work[1] == 5 && work[0] == 0);
    h.answer = TPP_ERR_USER - 44;
    assert_int_equal(tpp_executor_run(e, &run, &report), TPP_ERR_USER - 44);
    assert_string_equal(tpp_message(), "the host's own reason");
    h.answer = 3;
    assert_int_equal(tpp_executor_run(e, &run, &report), TPP_ERR_INVALID);
    expect_part("ops.run returned 3");
    run.schedule = NULL;
    assert_int_equal(tpp_executor_run(e, &run, &report), TPP_ERR_INVALID);
    assert_int_equal(h.runs, 3);
    tpp_executor_destroy(e);
    assert_int_equal(h.destroyed, 1);
    assert_int_equal(m.live, 0);
    tpp_schedule_destroy(s);
}

/* --- each ------------------------------------------------------------------------------------- */

typedef struct tally {
    atomic_int calls[16];
    pthread_t thread[16];
    int32_t lanes;
    uint32_t failing; /* bit per row */
} tally;

static tpp_status count_call(void *arg, int32_t rank, int32_t lane) {
    tally *t = arg;
    int32_t row = rank * t->lanes + lane;
    char text[32];
    atomic_fetch_add(&t->calls[row], 1);
    t->thread[row] = pthread_self();
    if (!(t->failing & 1u << row))
        return TPP_OK;
    snprintf(text, sizeof text, "row %d is ill", row);
    tpp_message_set(text);
    return TPP_ERR_USER - row;
}

static void expect_each(tpp_executor *e, int32_t ranks, int32_t lanes, tally *t) {
    *t = (tally){.lanes = lanes};
    tpp_message_set("kept");
    exec_expect_ok(tpp_executor_each(e, ranks, lanes, count_call, t));
    assert_string_equal(tpp_message(), "kept");
    for (int32_t row = 0; row < 16; row++)
        assert_int_equal(atomic_load(&t->calls[row]), row < ranks * lanes);
    assert_true(pthread_equal(t->thread[0], pthread_self()));
}

static void expect_each_fails(tpp_executor *e, int32_t ranks, int32_t lanes) {
    tally t = {.lanes = lanes, .failing = 1u << 3 | 1u << 2 | 1u << 5};
    assert_int_equal(tpp_executor_each(e, ranks, lanes, count_call, &t), TPP_ERR_USER - 2);
    expect_part("lane 0: row 2 is ill");
    for (int32_t row = 0; row < ranks * lanes; row++)
        assert_int_equal(atomic_load(&t.calls[row]), 1);
}

/* Lanes of a rank may meet in a collective. */
static tpp_status meet(void *arg, int32_t rank, int32_t lane) {
    tpp_comm **groups = arg;
    int64_t mine = 100 * rank + lane, sum = 0;
    tpp_status status =
        tpp_comm_all_reduce(groups[2 * rank + lane], &mine, &sum, 1, TPP_I64, TPP_SUM);
    return status == TPP_OK && sum != 200 * rank + 1 ? TPP_ERR_USER : status;
}

static void test_each_meets(void **state) {
    (void)state;
    for (int kind = 1; kind < 3; kind++) {
        tpp_comm *groups[6];
        tpp_executor *e;
        for (int32_t rank = 0; rank < 3; rank++)
            exec_expect_ok(tpp_comm_local_create(groups + 2 * rank, 2, NULL));
        exec_expect_ok(create_kind(&e, kind, NULL));
        alarm(20);
        exec_expect_ok(tpp_executor_each(e, 3, 2, meet, groups));
        alarm(0);
        tpp_executor_destroy(e);
        for (int row = 0; row < 6; row++)
            tpp_comm_destroy(groups[row]);
    }
}

static tpp_status odd(void *arg, int32_t rank, int32_t lane) {
    (void)arg;
    return rank + lane > 0 ? 5 : TPP_OK;
}

static void test_each(void **state) {
    tpp_executor *e;
    tally t;
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        exec_expect_ok(create_kind(&e, kind, NULL));
        for (int i = 0; i < 50; i++)
            expect_each(e, 3, 2, &t);
        /* The thread that would walk it: one, one per lane, one per row. */
        assert_true(!pthread_equal(t.thread[0], t.thread[1]) == (kind > 0));
        assert_true(!pthread_equal(t.thread[1], t.thread[3]) == (kind > 1));
        expect_each_fails(e, 3, 2);
        assert_int_equal(tpp_executor_each(e, 3, 2, odd, NULL), TPP_ERR_INVALID);
        expect_part("rank 0 lane 1: fn returned 5");
        assert_int_equal(tpp_executor_each(e, 0, 2, count_call, &t), TPP_ERR_INVALID);
        assert_int_equal(tpp_executor_each(e, 3, 2, NULL, &t), TPP_ERR_INVALID);
        assert_int_equal(tpp_executor_each(NULL, 3, 2, count_call, &t), TPP_ERR_INVALID);
        assert_int_equal(tpp_executor_each(e, 1 << 20, 1 << 20, count_call, &t), TPP_ERR_OVERFLOW);
        if (kind > 0) {
            assert_int_equal(tpp_executor_each(e, 3, 3, count_call, &t), TPP_ERR_INVALID);
            expect_part("lanes = 3; the executor was made for 2");
        }
        if (kind == 1)
            expect_each(e, 5, 2, &t); /* serial takes any number of ranks */
        tpp_executor_destroy(e);
    }
}

/* Distributed calls for its own rank, each lane on the thread that would walk it. */
static void test_each_of_one_rank(void **state) {
    tpp_executor *e;
    tally t = {.lanes = 2};
    (void)state;
    exec_expect_ok(create_kind(&e, 3, NULL));
    exec_expect_ok(tpp_executor_each(e, 3, 2, count_call, &t));
    for (int32_t row = 0; row < 16; row++)
        assert_int_equal(atomic_load(&t.calls[row]), row / 2 == 1);
    assert_true(pthread_equal(t.thread[2], pthread_self()));
    assert_false(pthread_equal(t.thread[3], pthread_self()));
    t.failing = 1u << 3;
    assert_int_equal(tpp_executor_each(e, 3, 2, count_call, &t), TPP_ERR_USER - 3);
    expect_part("rank 1 lane 1: row 3 is ill");
    assert_int_equal(tpp_executor_each(e, 1, 2, count_call, &t), TPP_ERR_INVALID);
    expect_part("ranks = 1; the executor was made for rank 1");
    tpp_executor_destroy(e);
}

/* Each executor tells its own need, a host's what it likes. */
static tpp_status host_query(void *ctx, const tpp_run *run, int64_t *bytes) {
    (void)ctx;
    *bytes = 1000 + run->lanes;
    return run->step == 7 ? TPP_PENDING : TPP_OK;
}

static void test_query(void **state) {
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_1F1B, 3, 1, 4, 0);
    tpp_run_rank none = {0};
    tpp_run run = {.size = sizeof run, .schedule = s, .ranks = &none, .lanes = 2};
    tpp_executor *e;
    int64_t bytes, all, part;
    (void)state;
    run.message_count = 100, run.message_dtype = TPP_F64;
    exec_expect_ok(tpp_run_query(&run, &all));
    for (int kind = 1; kind < 4; kind++) {
        exec_expect_ok(create_kind(&e, kind, NULL));
        exec_expect_ok(tpp_executor_query(e, &run, &bytes));
        if (kind < 3)
            assert_int_equal(bytes, all);
        part = bytes;
        run.lanes = 3;
        assert_int_equal(tpp_executor_query(e, &run, &bytes), TPP_ERR_INVALID);
        expect_part("lanes = 3; the executor was made for 2");
        run.lanes = 2;
        tpp_executor_destroy(e);
    }
    /* rank 1 of 3 has 2 of the 6 slots */
    assert_true(part > 2 * 2 * 4 * 832 && part < all / 2);
    run.ranks = NULL, run.lanes = 1;
    exec_expect_ok(tpp_run_query(&run, &all));
    exec_expect_ok(create_kind(&e, 0, NULL));
    exec_expect_ok(tpp_executor_query(e, &run, &bytes));
    assert_int_equal(bytes, all);
    assert_int_equal(tpp_executor_query(e, &run, NULL), TPP_ERR_INVALID);
    assert_int_equal(tpp_executor_query(NULL, &run, &bytes), TPP_ERR_INVALID);
    assert_int_equal(tpp_executor_query(e, NULL, &bytes), TPP_ERR_INVALID);
    tpp_executor_destroy(e);
    tpp_executor_ops ops = {.size = sizeof ops, .run = host_run};
    for (int told = 0; told < 2; told++) {
        ops.query = told ? host_query : NULL;
        exec_expect_ok(tpp_executor_create(&e, &ops, NULL, NULL));
        exec_expect_ok(tpp_executor_query(e, &run, &bytes));
        assert_int_equal(bytes, told ? 1001 : 0);
        run.step = 7;
        assert_int_equal(tpp_executor_query(e, &run, &bytes), told ? TPP_ERR_INVALID : TPP_OK);
        run.step = 0;
        tpp_executor_destroy(e);
    }
    tpp_schedule_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocation_fails),
        cmocka_unit_test(test_runs_do_not_allocate),
        cmocka_unit_test(test_no_more_threads),
        cmocka_unit_test(test_host_executor),
        cmocka_unit_test(test_each),
        cmocka_unit_test(test_each_meets),
        cmocka_unit_test(test_each_of_one_rank),
        cmocka_unit_test(test_query),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
