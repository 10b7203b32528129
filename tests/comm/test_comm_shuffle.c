/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/comm_shuffle.h"
#include "support/comm_threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The unkind transport of other tests keeps the contract itself. */

enum { MESSAGES = 60 };

/* Two tags, each in order; sends and receives posted in opposite order of tags. */
static void exchange(tpp_comm *comm, int32_t rank) {
    int64_t out[MESSAGES], in[MESSAGES];
    tpp_request sends[MESSAGES], recvs[MESSAGES];
    for (int32_t i = 0; i < MESSAGES; i++) {
        out[i] = 1000 * rank + i;
        in[i] = -1;
        COMM_CHECK_OK(
            tpp_comm_send_start(comm, &out[i], 1, TPP_I64, 1 - rank, (uint64_t)(i % 2), &sends[i]));
    }
    for (int32_t i = 0; i < MESSAGES; i++) {
        int32_t at = i ^ 1;
        COMM_CHECK_OK(tpp_comm_recv_start(comm, &in[at], 1, TPP_I64, 1 - rank, (uint64_t)(at % 2),
                                          &recvs[at]));
    }
    for (int32_t i = 0; i < MESSAGES; i++) {
        COMM_CHECK_OK(tpp_comm_wait(&recvs[MESSAGES - 1 - i]));
        COMM_CHECK_OK(tpp_comm_wait(&sends[i]));
    }
    for (int32_t i = 0; i < MESSAGES; i++)
        COMM_CHECK(in[i] == 1000 * (1 - rank) + i);
}

static void messages_and_collectives(tpp_comm *local, int32_t rank, void *arg) {
    const uint64_t *seed = arg;
    tpp_comm *comm;
    if (!COMM_CHECK_OK(comm_shuffle_create(&comm, local, *seed)))
        return;
    for (int32_t round = 0; round < 5; round++) {
        exchange(comm, rank);
        double x[3] = {rank, 1, 2}, parts[6] = {0};
        COMM_CHECK_OK(tpp_comm_all_reduce(comm, x, x, 3, TPP_F64, TPP_SUM));
        COMM_CHECK(x[0] == 1 && x[1] == 2 && x[2] == 4);
        x[0] = rank;
        COMM_CHECK_OK(tpp_comm_all_gather(comm, x, parts, 3, TPP_F64));
        COMM_CHECK(parts[0] == 0 && parts[3] == 1);
        COMM_CHECK_OK(tpp_comm_broadcast(comm, x, 1, TPP_F64, 1));
        COMM_CHECK(x[0] == 1);
        COMM_CHECK_OK(tpp_comm_barrier(comm));
    }
    tpp_comm_destroy(comm);
}

static void o02_messages_find_their_receive(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++)
        comm_threads_run(2, NULL, messages_and_collectives, &seed);
}

/* It is unkind indeed: something is reported late, and messages pass each other. */
static void delays_and_reorders(void **state) {
    (void)state;
    tpp_comm *locals[2], *comm;
    int64_t value = 7, got = 0, pending = 0, passed = 0;
    assert_int_equal(tpp_comm_local_create(locals, 2, NULL), TPP_OK);
    assert_int_equal(comm_shuffle_create(&comm, locals[0], 1), TPP_OK);
    for (int32_t round = 0; round < 50; round++) {
        tpp_request sends[2], recv;
        for (uint64_t tag = 0; tag < 2; tag++)
            assert_int_equal(tpp_comm_send_start(comm, &value, 1, TPP_I64, 1, tag, &sends[tag]),
                             TPP_OK);
        assert_int_equal(tpp_comm_recv_start(locals[1], &got, 1, TPP_I64, 0, 1, &recv), TPP_OK);
        while (tpp_comm_test(&sends[1]) == TPP_PENDING)
            pending++;
        assert_int_equal(tpp_comm_wait(&recv), TPP_OK);
        tpp_request probe;
        assert_int_equal(tpp_comm_recv_start(locals[1], &got, 1, TPP_I64, 0, 0, &probe), TPP_OK);
        passed += tpp_comm_test(&probe) == TPP_PENDING; /* the first one is not there yet */
        while (tpp_comm_test(&sends[0]) == TPP_PENDING)
            pending++;
        assert_int_equal(tpp_comm_wait(&probe), TPP_OK);
    }
    assert_true(pending > 50);
    assert_true(passed > 0);
    tpp_comm_destroy(comm);
    tpp_comm_destroy(locals[0]);
    tpp_comm_destroy(locals[1]);
}

static void aborted(tpp_comm *local, int32_t rank, void *arg) {
    (void)arg;
    double x[2] = {0}, y[2];
    tpp_comm *comm;
    tpp_request requests[3];
    if (!COMM_CHECK_OK(comm_shuffle_create(&comm, local, 3)))
        return;
    if (rank == 1) {
        COMM_CHECK_OK(tpp_comm_send_start(comm, x, 2, TPP_F64, 0, 1, &requests[0]));
        tpp_comm_abort(comm);
    } else {
        COMM_CHECK_OK(tpp_comm_send_start(comm, x, 2, TPP_F64, 1, 1, &requests[0]));
        COMM_CHECK_OK(tpp_comm_recv_start(comm, y, 2, TPP_F64, 1, 2, &requests[1]));
        tpp_status status = tpp_comm_wait(&requests[1]);
        COMM_CHECK(status == TPP_ERR_ABORTED);
    }
    tpp_comm_destroy(comm); /* with requests that are given up */
}

static void abort_passes_through(void **state) {
    (void)state;
    comm_threads_run(2, NULL, aborted, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(o02_messages_find_their_receive),
        cmocka_unit_test(delays_and_reorders),
        cmocka_unit_test(abort_passes_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
