/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/comm_threads.h"
#include "support/comm_user.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* What passes through a traced comm is counted, and done. */

static void check_count(const tpp_comm *comm, tpp_comm_kind kind, int64_t calls, int64_t elements,
                        int64_t bytes) {
    tpp_comm_count count = {-1, -1, -1, -1};
    COMM_CHECK_OK(tpp_comm_traced_get(comm, kind, &count));
    COMM_CHECK(count.calls == calls && count.elements == elements && count.bytes == bytes);
    COMM_CHECK(count.reserved == 0);
}

static void one_of_each(tpp_comm *comm, int32_t rank) {
    double x[10] = {0}, y[20];
    tpp_request requests[3];
    x[0] = rank + 1;
    COMM_CHECK_OK(tpp_comm_all_reduce(comm, x, y, 10, TPP_F64, TPP_SUM));
    COMM_CHECK(y[0] == 3);
    COMM_CHECK_OK(tpp_comm_all_reduce_start(comm, x, y, 3, TPP_F32, TPP_SUM, &requests[0]));
    COMM_CHECK_OK(tpp_comm_send_start(comm, x, 7, TPP_F64, 1 - rank, 4, &requests[1]));
    COMM_CHECK_OK(tpp_comm_recv_start(comm, y + 3, 7, TPP_F64, 1 - rank, 4, &requests[2]));
    for (int32_t i = 0; i < 3; i++)
        COMM_CHECK_OK(tpp_comm_wait(&requests[i]));
    COMM_CHECK(y[3] == 2 - rank);
    COMM_CHECK_OK(tpp_comm_all_gather(comm, x, y, 5, TPP_I32));
    COMM_CHECK_OK(tpp_comm_broadcast(comm, x, 6, TPP_I64, 1));
    COMM_CHECK(x[0] == 2);
    COMM_CHECK_OK(tpp_comm_barrier(comm));
    COMM_CHECK_OK(tpp_comm_barrier(comm));
}

static void check_all(tpp_comm *comm, int64_t times) {
    check_count(comm, TPP_COMM_ALL_REDUCE, 2 * times, 13 * times, 92 * times);
    check_count(comm, TPP_COMM_SEND, times, 7 * times, 56 * times);
    check_count(comm, TPP_COMM_RECV, times, 7 * times, 56 * times);
    check_count(comm, TPP_COMM_ALL_GATHER, times, 5 * times, 20 * times);
    check_count(comm, TPP_COMM_BROADCAST, times, 6 * times, 48 * times);
    check_count(comm, TPP_COMM_BARRIER, 2 * times, 0, 0);
}

static void count_over(tpp_comm *inner, int32_t rank) {
    tpp_comm *traced, *twice;
    if (!COMM_CHECK_OK(tpp_comm_traced_create(&traced, inner, NULL)) ||
        !COMM_CHECK_OK(tpp_comm_traced_create(&twice, traced, NULL)))
        return;
    COMM_CHECK(tpp_comm_rank(twice) == rank && tpp_comm_size(twice) == 2);
    one_of_each(twice, rank);
    one_of_each(twice, rank);
    check_all(traced, 2);
    COMM_CHECK_OK(tpp_comm_traced_reset(traced));
    check_all(traced, 0);
    one_of_each(traced, rank);
    check_all(traced, 1);
    check_all(twice, 2);
    tpp_comm_destroy(twice);
    tpp_comm_destroy(traced);
}

static void over_local_and_user(tpp_comm *local, int32_t rank, void *arg) {
    (void)arg;
    tpp_comm *user;
    count_over(local, rank);
    if (COMM_CHECK_OK(comm_user_create(&user, local, 0)))
        count_over(user, rank); /* whose collectives are built, and over when start returns */
    tpp_comm_destroy(user);
}

static void counts_what_passes(void **state) {
    (void)state;
    comm_threads_run(2, NULL, over_local_and_user, NULL);
}

static void refused_is_not_counted(void **state) {
    (void)state;
    tpp_comm *self, *traced;
    tpp_comm_count count;
    float x[17] = {0};
    tpp_request requests[17];
    assert_int_equal(tpp_comm_self_create(&self, NULL), TPP_OK);
    assert_int_equal(tpp_comm_traced_create(&traced, self, NULL), TPP_OK);
    assert_int_equal(tpp_comm_all_reduce(traced, NULL, x, 1, TPP_F32, TPP_SUM), TPP_ERR_INVALID);
    for (int32_t i = 0; i < 16; i++)
        assert_int_equal(
            tpp_comm_all_reduce_start(traced, x + i, x + i, 1, TPP_F32, TPP_SUM, &requests[i]),
            TPP_OK);
    assert_int_equal(tpp_comm_all_reduce_start(traced, x, x, 1, TPP_F32, TPP_SUM, &requests[16]),
                     TPP_ERR_INVALID); /* a refusal, after which all goes on */
    assert_ptr_equal(requests[0].comm, traced);
    for (int32_t i = 0; i < 16; i++)
        assert_int_equal(tpp_comm_wait(&requests[i]), TPP_OK);
    assert_int_equal(tpp_comm_traced_get(traced, TPP_COMM_ALL_REDUCE, &count), TPP_OK);
    assert_int_equal(count.calls, 16);
    assert_int_equal(tpp_comm_barrier(traced), TPP_OK);
    tpp_comm_destroy(traced);
    tpp_comm_destroy(self);
}

static void failure_goes_both_ways(void **state) {
    (void)state;
    for (int32_t which = 0; which < 2; which++) {
        tpp_comm *locals[2], *traced;
        assert_int_equal(tpp_comm_local_create(locals, 2, NULL), TPP_OK);
        assert_int_equal(tpp_comm_traced_create(&traced, locals[0], NULL), TPP_OK);
        tpp_comm_abort(which ? traced : locals[1]);
        assert_int_equal(tpp_comm_barrier(traced), TPP_ERR_ABORTED);
        assert_int_equal(tpp_comm_barrier(locals[0]), TPP_ERR_ABORTED);
        assert_int_equal(tpp_comm_barrier(locals[1]), TPP_ERR_ABORTED);
        tpp_comm_count count;
        assert_int_equal(tpp_comm_traced_get(traced, TPP_COMM_BARRIER, &count), TPP_OK);
        assert_int_equal(count.calls, 0);
        tpp_comm_destroy(traced);
        tpp_comm_destroy(locals[0]);
        tpp_comm_destroy(locals[1]);
    }
}

static void deadline_is_that_of_inner(tpp_comm *local, int32_t rank, void *arg) {
    (void)arg;
    tpp_comm *traced;
    if (rank == 1)
        return;
    if (!COMM_CHECK_OK(tpp_comm_traced_create(&traced, local, NULL)))
        return;
    COMM_CHECK_STATUS(tpp_comm_barrier(traced), TPP_ERR_TIMEOUT);
    COMM_CHECK(strstr(tpp_message(), "not arrived: rank 1") != NULL);
    tpp_comm_destroy(traced);
}

static void waits_have_a_deadline(void **state) {
    (void)state;
    tpp_comm_local_desc desc = {.size = sizeof desc, .timeout = 0.05};
    comm_threads_run(2, &desc, deadline_is_that_of_inner, NULL);
}

static void splits_like_inner(void **state) {
    (void)state;
    tpp_comm *self, *traced, *child;
    assert_int_equal(tpp_comm_self_create(&self, NULL), TPP_OK);
    assert_int_equal(tpp_comm_traced_create(&traced, self, NULL), TPP_OK);
    assert_int_equal(tpp_comm_split(traced, &child, 3, 0), TPP_OK);
    assert_int_equal(tpp_comm_size(child), 1);
    tpp_comm_destroy(child);
    tpp_comm_destroy(traced);
    tpp_comm_destroy(self);
}

static void bad_arguments(void **state) {
    (void)state;
    tpp_comm *self, *traced;
    tpp_comm_count count;
    assert_int_equal(tpp_comm_self_create(&self, NULL), TPP_OK);
    assert_int_equal(tpp_comm_traced_create(NULL, self, NULL), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "out"));
    assert_int_equal(tpp_comm_traced_create(&traced, NULL, NULL), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "inner"));
    assert_int_equal(tpp_comm_traced_create(&traced, self, NULL), TPP_OK);
    assert_int_equal(tpp_comm_traced_get(traced, 0, &count), TPP_ERR_INVALID);
    assert_int_equal(tpp_comm_traced_get(traced, 8, &count), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "kind = 8"));
    assert_int_equal(tpp_comm_traced_get(traced, TPP_COMM_SEND, NULL), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "out"));
    assert_int_equal(tpp_comm_traced_get(NULL, TPP_COMM_SEND, &count), TPP_ERR_INVALID);
    assert_int_equal(tpp_comm_traced_get(self, TPP_COMM_SEND, &count), TPP_ERR_UNSUPPORTED);
    assert_int_equal(tpp_comm_traced_reset(self), TPP_ERR_UNSUPPORTED);
    assert_non_null(strstr(tpp_message(), "comm"));
    tpp_comm_destroy(traced);
    tpp_comm_destroy(self);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_what_passes),     cmocka_unit_test(refused_is_not_counted),
        cmocka_unit_test(failure_goes_both_ways), cmocka_unit_test(waits_have_a_deadline),
        cmocka_unit_test(splits_like_inner),      cmocka_unit_test(bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
