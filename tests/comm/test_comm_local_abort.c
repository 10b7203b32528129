/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"
#include "support/comm_threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* Behaviour O30: one abort, by any rank or thread, wakes all waiters; and the deadlines of
 * waits. */

enum { WAITERS = 3, MOST = 2000, OPERATIONS = 7 };

/* Sanitizers are slow and the machine may be busy; without both, a wake takes microseconds. */
static const double soon = 1.0;

static void nap(double seconds) {
    struct timespec pause = {0, (long)(1e9 * seconds)};
    nanosleep(&pause, NULL);
}

/* An operation that cannot end without rank 2. */
static tpp_status stuck(tpp_comm *comm, int32_t rank, int32_t operation) {
    static double x[WAITERS][WAITERS * MOST];
    double *own = x[rank];
    tpp_comm *child;
    tpp_request request;
    tpp_status status = TPP_OK;
    switch (operation) {
    case 0:
        return tpp_comm_barrier(comm);
    case 1:
        return tpp_comm_all_reduce(comm, own, own, 1, TPP_F64, TPP_SUM);
    case 2:
        return tpp_comm_all_reduce(comm, own, own, MOST, TPP_F64, TPP_SUM);
    case 3:
        return tpp_comm_all_gather(comm, own + rank * MOST, own, MOST, TPP_F64);
    case 4:
        return tpp_comm_split(comm, &child, 0, rank);
    case 5:
        status = tpp_comm_send_start(comm, own, MOST, TPP_F64, 2, 9, &request);
        break;
    default:
        status = tpp_comm_recv_start(comm, own, MOST, TPP_F64, 2, 9, &request);
        break;
    }
    return status < 0 ? status : tpp_comm_wait(&request);
}

typedef struct scene {
    int32_t operation;
    int32_t aborter; /* a rank; WAITERS: a thread of its own, through rank 0's handle */
    _Atomic double aborted_at;
} scene;

static void wait_for_abort(tpp_comm *comm, int32_t rank, void *arg) {
    scene *s = arg;
    if (rank == s->aborter) {
        nap(0.01);
        atomic_store(&s->aborted_at, tpp__now());
        tpp_comm_abort(comm);
        tpp_comm_abort(comm);
    } else if (rank != 2) {
        COMM_CHECK_STATUS(stuck(comm, rank, s->operation), TPP_ERR_ABORTED);
        COMM_CHECK(tpp__now() - atomic_load(&s->aborted_at) < soon);
        COMM_CHECK(strstr(tpp_message(), "aborted") != NULL);
    }
    COMM_CHECK_STATUS(tpp_comm_barrier(comm), TPP_ERR_ABORTED);
}

static void *abort_from_outside(void *arg) {
    nap(0.01);
    tpp_comm_abort(arg);
    tpp_comm_abort(arg);
    return NULL;
}

static void wait_for_outsider(tpp_comm *comm, int32_t rank, void *arg) {
    scene *s = arg;
    if (rank == 2)
        return;
    double begin = tpp__now();
    COMM_CHECK_STATUS(stuck(comm, rank, s->operation), TPP_ERR_ABORTED);
    COMM_CHECK(tpp__now() - begin < soon + 0.01);
}

static void abort_by(int32_t operation, int32_t aborter) {
    comm_memory memory;
    comm_memory_init(&memory, 0);
    tpp_comm_local_desc desc = {.size = sizeof desc, .allocator = &memory.allocator};
    tpp_comm *comms[WAITERS];
    scene s = {.operation = operation, .aborter = aborter};
    assert_int_equal(tpp_comm_local_create(comms, WAITERS, &desc), TPP_OK);
    if (aborter == WAITERS) {
        tpp__thread outsider;
        assert_int_equal(tpp__thread_start(&outsider, abort_from_outside, comms[0]), TPP_OK);
        comm_threads_over(comms, WAITERS, wait_for_outsider, &s);
        tpp__thread_join(&outsider);
    } else {
        comm_threads_over(comms, WAITERS, wait_for_abort, &s);
    }
    for (int32_t r = 0; r < WAITERS; r++)
        tpp_comm_destroy(comms[(r + operation) % WAITERS]);
    assert_int_equal(atomic_load(&memory.live), 0);
    assert_int_equal(atomic_load(&memory.live_bytes), 0);
}

static void o30_every_operation_from_every_thread(void **state) {
    (void)state;
    for (int32_t operation = 0; operation < OPERATIONS; operation++) {
        for (int32_t aborter = 0; aborter <= WAITERS; aborter++)
            abort_by(operation, aborter);
    }
}

static void o30_two_groups_in_any_order(void **state) {
    (void)state;
    for (int32_t first = 0; first < 2; first++) {
        tpp_comm *comms[2][2];
        for (int32_t g = 0; g < 2; g++)
            assert_int_equal(tpp_comm_local_create(comms[g], 2, NULL), TPP_OK);
        tpp_comm_abort(comms[first][0]);
        assert_int_equal(tpp_comm_barrier(comms[first][1]), TPP_ERR_ABORTED);
        tpp_request request;
        assert_int_equal(tpp_comm_all_reduce_start(comms[1 - first][0], NULL, NULL, 0, TPP_F32,
                                                   TPP_SUM, &request),
                         TPP_OK); /* the other group lives */
        tpp_comm_abort(comms[1 - first][1]);
        assert_int_equal(tpp_comm_wait(&request), TPP_ERR_ABORTED);
        for (int32_t r = 0; r < 4; r++)
            tpp_comm_destroy(comms[(r + first) % 2][r / 2]);
    }
    tpp_comm_abort(NULL);
}

/* A rank that got ABORTED may free its buffers at once, whatever the others are doing: the work
 * of a group in which rank 1 aborts at a random moment, over buffers that live only as long as
 * they must. */
static void abort_while_working(tpp_comm *comm, int32_t rank, void *arg) {
    const uint64_t *seed = arg;
    comm_random random = {*seed + 100 * (uint64_t)rank};
    int64_t last = rank == 1 ? comm_random_below(&random, 12) : 1000;
    tpp_status status = TPP_OK;
    for (int64_t i = 0; i < last && status == TPP_OK; i++) {
        int64_t count = 20000 + i;
        double *in = malloc((size_t)count * sizeof *in), *out = malloc((size_t)count * sizeof *out);
        tpp_request requests[2] = {{0}, {0}};
        if (!COMM_CHECK(in && out))
            exit(1);
        memset(in, 0, (size_t)count * sizeof *in);
        comm_delay(&random);
        status = tpp_comm_all_reduce_start(comm, in, in, count / 2, TPP_F64, TPP_SUM, &requests[0]);
        if (status == TPP_OK && rank < 2)
            status = rank ? tpp_comm_recv_start(comm, out, count, TPP_F64, 0, 1, &requests[1])
                          : tpp_comm_send_start(comm, out, count, TPP_F64, 1, 1, &requests[1]);
        for (int32_t k = 0; k < 2; k++) {
            tpp_status one = tpp_comm_wait(&requests[k]);
            status = status < 0 ? status : one;
        }
        free(in);
        free(out);
    }
    tpp_comm_abort(rank == 1 ? comm : NULL);
    COMM_CHECK(status == (rank == 1 ? TPP_OK : TPP_ERR_ABORTED));
}

static void o30_buffers_are_free_after_abort(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++)
        comm_threads_run(4, NULL, abort_while_working, &seed);
}

/* Both have started, nobody has worked, and rank 0 has left: rank 1 must not touch its buffer,
 * which is gone (AddressSanitizer would see it). Messages: the partner that comes after the
 * abort finds nobody. */
static void o30_no_work_after_abort(void **state) {
    (void)state;
    tpp_comm *comms[2];
    tpp_request all[2], send, recv;
    double *gone = calloc(MOST, sizeof *gone), *kept = calloc(MOST, sizeof *kept);
    assert_true(gone && kept);
    assert_int_equal(tpp_comm_local_create(comms, 2, NULL), TPP_OK);
    for (int32_t r = 0; r < 2; r++) {
        double *x = r ? kept : gone;
        assert_int_equal(tpp_comm_all_reduce_start(comms[r], x, x, MOST, TPP_F64, TPP_SUM, &all[r]),
                         TPP_OK);
    }
    assert_int_equal(tpp_comm_send_start(comms[0], gone, MOST, TPP_F64, 1, 1, &send), TPP_OK);
    tpp_comm_abort(comms[0]);
    assert_int_equal(tpp_comm_test(&all[0]), TPP_ERR_ABORTED);
    assert_int_equal(tpp_comm_test(&send), TPP_ERR_ABORTED);
    free(gone);
    assert_int_equal(tpp_comm_recv_start(comms[1], kept, MOST, TPP_F64, 0, 1, &recv),
                     TPP_ERR_ABORTED);
    assert_int_equal(tpp_comm_test(&all[1]), TPP_ERR_ABORTED);
    free(kept);
    tpp_comm_destroy(comms[0]);
    tpp_comm_destroy(comms[1]);
}

enum { LARGE = 1 << 21 };

/* Rank 1 leaves while rank 0 is in the middle of 16 MiB: not before rank 0 is out of its buffer,
 * whose pages are given back to the system. */
static void leave_while_others_work(tpp_comm *comm, int32_t rank, void *arg) {
    const int32_t *trial = arg;
    double *x = calloc(LARGE, sizeof *x);
    tpp_request request;
    if (!COMM_CHECK(x))
        exit(1);
    memset(x, 0, LARGE * sizeof *x);
    COMM_CHECK_OK(tpp_comm_barrier(comm));
    tpp_status status = TPP_OK;
    if (*trial % 2 == 0)
        status = tpp_comm_all_reduce_start(comm, x, x, LARGE, TPP_F64, TPP_SUM, &request);
    else if (rank == 1)
        status = tpp_comm_recv_start(comm, x, LARGE, TPP_F64, 0, 1, &request);
    if (rank == 1) {
        nap(0.0002 * (1 + *trial % 7));
        tpp_comm_abort(comm);
    } else if (*trial % 2) {
        nap(0.0002);
        status = tpp_comm_send_start(comm, x, LARGE, TPP_F64, 1, 1, &request);
    }
    status = status < 0 ? status : tpp_comm_wait(&request);
    COMM_CHECK(status == TPP_ERR_ABORTED || status == TPP_OK);
    free(x);
}

static void o30_leaves_when_nobody_is_inside(void **state) {
    (void)state;
    for (int32_t trial = 0; trial < 28; trial++)
        comm_threads_run(2, NULL, leave_while_others_work, &trial);
}

static void late(tpp_comm *comm, int32_t rank, void *arg) {
    const int32_t *operation = arg;
    if (rank == 2)
        return;
    double begin = tpp__now();
    tpp_status status = stuck(comm, rank, *operation);
    COMM_CHECK(status == TPP_ERR_TIMEOUT || status == TPP_ERR_ABORTED);
    COMM_CHECK(status == TPP_ERR_ABORTED || tpp__now() - begin > 0.04);
    COMM_CHECK(tpp__now() - begin < 0.05 + soon);
    const char *kind = *operation < 5 ? "not arrived:" : "has not";
    COMM_CHECK(strstr(tpp_message(), kind) && strstr(tpp_message(), "rank 2"));
    COMM_CHECK(strstr(tpp_message(), "waited 50 ms") != NULL);
}

static void deadline_names_who_is_missing(void **state) {
    (void)state;
    tpp_comm_local_desc desc = {.size = sizeof desc, .timeout = 0.05};
    for (int32_t operation = 0; operation < OPERATIONS; operation++)
        comm_threads_run(WAITERS, &desc, late, &operation);
}

static void late_alone(tpp_comm *comm, int32_t rank, void *arg) {
    (void)arg;
    double x[1] = {1};
    if (rank != 1)
        return;
    COMM_CHECK_STATUS(tpp_comm_all_reduce(comm, x, x, 1, TPP_F64, TPP_SUM), TPP_ERR_TIMEOUT);
    COMM_CHECK(strcmp(tpp_message(),
                      "rank 1 waited 50 ms in collective 1 (all_reduce of 1 float64): not "
                      "arrived: rank 0 rank 2") == 0);
    COMM_CHECK_STATUS(tpp_comm_barrier(comm), TPP_ERR_TIMEOUT);
}

static void deadline_aborts_the_group(void **state) {
    (void)state;
    tpp_comm_local_desc desc = {.size = sizeof desc, .timeout = 0.05};
    tpp_comm *comms[WAITERS];
    assert_int_equal(tpp_comm_local_create(comms, WAITERS, &desc), TPP_OK);
    comm_threads_over(comms, WAITERS, late_alone, NULL);
    assert_int_equal(tpp_comm_barrier(comms[0]), TPP_ERR_ABORTED);
    assert_non_null(strstr(tpp_message(), "through rank 1: rank 1 waited 50 ms"));
    for (int32_t r = 0; r < WAITERS; r++)
        tpp_comm_destroy(comms[r]);
}

static void without_deadline(tpp_comm *comm, int32_t rank, void *arg) {
    (void)arg;
    if (rank == 0)
        nap(0.1);
    COMM_CHECK_OK(tpp_comm_barrier(comm));
}

static void negative_timeout_waits_on(void **state) {
    (void)state;
    tpp_comm_local_desc desc = {.size = sizeof desc, .timeout = -1, .spins = 1};
    comm_threads_run(3, &desc, without_deadline, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(o30_every_operation_from_every_thread),
        cmocka_unit_test(o30_two_groups_in_any_order),
        cmocka_unit_test(o30_buffers_are_free_after_abort),
        cmocka_unit_test(o30_no_work_after_abort),
        cmocka_unit_test(o30_leaves_when_nobody_is_inside),
        cmocka_unit_test(deadline_names_who_is_missing),
        cmocka_unit_test(deadline_aborts_the_group),
        cmocka_unit_test(negative_timeout_waits_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
