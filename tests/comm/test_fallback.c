/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/comm_threads.h"
#include "support/comm_user.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Collectives built from a host's send, receive and test: the same bits as the local group's
 * own. */

enum { MOST_RANKS = 9, MOST = 5000 };

static void same_reduce(tpp_comm *local, tpp_comm *user, int64_t count, tpp_dtype dtype,
                        tpp_reduce reduce, bool in_place) {
    static const int64_t width = 8;
    char *in = malloc(MOST * 8 + 8), *want = malloc(MOST * 8 + 8), *got = malloc(MOST * 8 + 8);
    if (!COMM_CHECK(in && want && got))
        exit(1);
    comm_fill(in, count, dtype, tpp_comm_rank(local), (uint64_t)count);
    memset(want, 0x5a, (size_t)(count * width + 8));
    memset(got, 0x5a, (size_t)(count * width + 8));
    if (in_place)
        memcpy(got, in,
               (size_t)count * (dtype == TPP_BF16                      ? 2
                                : dtype == TPP_F32 || dtype == TPP_I32 ? 4
                                                                       : 8));
    COMM_CHECK_OK(tpp_comm_all_reduce(local, in, want, count, dtype, reduce));
    COMM_CHECK_OK(tpp_comm_all_reduce(user, in_place ? got : in, got, count, dtype, reduce));
    COMM_CHECK(memcmp(want, got, (size_t)(count * width + 8)) == 0);
    free(in);
    free(want);
    free(got);
}

static void same_copies(tpp_comm *local, tpp_comm *user, int64_t count, bool in_place) {
    const int32_t n = tpp_comm_size(local), rank = tpp_comm_rank(local);
    float *in = malloc((MOST + 1) * sizeof *in);
    float *want = malloc((size_t)(n * (MOST + 1)) * sizeof *in);
    float *got = malloc((size_t)(n * (MOST + 1)) * sizeof *in);
    if (!COMM_CHECK(in && want && got))
        exit(1);
    comm_fill(in, count, TPP_F32, rank, 3);
    memcpy(got + rank * count, in, (size_t)count * sizeof *in);
    COMM_CHECK_OK(tpp_comm_all_gather(local, in, want, count, TPP_F32));
    COMM_CHECK_OK(
        tpp_comm_all_gather(user, in_place ? got + rank * count : in, got, count, TPP_F32));
    COMM_CHECK(memcmp(want, got, (size_t)(n * count) * sizeof *in) == 0);
    for (int32_t root = 0; root < n; root++) {
        memcpy(got, in, (size_t)count * sizeof *in);
        COMM_CHECK_OK(tpp_comm_broadcast(user, got, count, TPP_F32, root));
        COMM_CHECK(memcmp(want + root * count, got, (size_t)count * sizeof *in) == 0);
    }
    COMM_CHECK_OK(tpp_comm_barrier(user));
    free(in);
    free(want);
    free(got);
}

static void compare(tpp_comm *local, int32_t rank, void *arg) {
    static const int64_t counts[] = {0, 1, 3, 1023, 2048, 2049, 4096, 4097, MOST};
    (void)arg;
    (void)rank;
    tpp_comm *user;
    if (!COMM_CHECK_OK(comm_user_create(&user, local, 0)))
        return;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (tpp_reduce reduce = TPP_SUM; reduce <= TPP_MAX; reduce++) {
            same_reduce(local, user, counts[c], TPP_F32, reduce, false);
            same_reduce(local, user, counts[c], TPP_F64, reduce, true);
            same_reduce(local, user, counts[c], TPP_BF16, reduce, c % 2);
        }
        same_reduce(local, user, counts[c], TPP_I32, TPP_SUM, true);
        same_reduce(local, user, counts[c], TPP_I64, TPP_MAX, false);
        same_copies(local, user, counts[c], c % 2);
    }
    tpp_comm_destroy(user);
}

static void same_bits_as_local(void **state) {
    (void)state;
    for (int32_t n = 1; n <= MOST_RANKS; n++)
        comm_threads_run(n, NULL, compare, NULL);
}

static atomic_int entered;

/* Nobody leaves before all have entered. */
static void enter_and_leave(tpp_comm *local, int32_t rank, void *arg) {
    (void)arg;
    tpp_comm *user;
    comm_random random = {(uint64_t)rank};
    if (!COMM_CHECK_OK(comm_user_create(&user, local, 0)))
        return;
    for (int32_t round = 1; round <= 50; round++) {
        comm_delay(&random);
        atomic_fetch_add(&entered, 1);
        COMM_CHECK_OK(tpp_comm_barrier(user));
        COMM_CHECK(atomic_load(&entered) >= round * tpp_comm_size(local));
    }
    tpp_comm_destroy(user);
}

static void barrier_waits_for_all(void **state) {
    (void)state;
    for (int32_t n = 1; n <= 6; n++) {
        atomic_store(&entered, 0);
        comm_threads_run(n, NULL, enter_and_leave, NULL);
    }
}

typedef struct fault {
    int64_t refuse_at;
    int32_t culprit;
    tpp_status refusal;
} fault;

/* One rank's transport refuses in the middle of a collective: that rank gets the status and its
 * sentence, the others a failure, and nobody hangs. */
static void refused(tpp_comm *local, int32_t rank, void *arg) {
    const fault *f = arg;
    tpp_comm *user;
    static double x[4][MOST];
    if (!COMM_CHECK_OK(comm_user_create(&user, local, 20)))
        return;
    COMM_CHECK_OK(tpp_comm_all_reduce(user, x[rank], x[rank], MOST, TPP_F64, TPP_SUM));
    COMM_CHECK_OK(tpp_comm_barrier(local));
    if (rank == f->culprit)
        comm_user_refuse(user, f->refuse_at, f->refusal);
    tpp_status status = TPP_OK;
    for (int32_t i = 0; i < 20 && status == TPP_OK; i++)
        status = tpp_comm_all_gather(user, x[rank], x[rank], 0, TPP_F64);
    for (int32_t i = 0; i < 20 && status == TPP_OK; i++)
        status = tpp_comm_all_reduce(user, x[rank], x[rank], MOST, TPP_F64, TPP_SUM);
    COMM_CHECK(status == (rank == f->culprit ? f->refusal : TPP_ERR_ABORTED));
    COMM_CHECK(comm_user_under_way(user) == 0); /* our buffers are ours again */
    if (rank == f->culprit)
        COMM_CHECK(strcmp(tpp_message(), "the user's transport refuses") == 0);
    COMM_CHECK_STATUS(tpp_comm_barrier(user), status);
    tpp_comm_destroy(user);
}

static void refusal_reaches_every_rank(void **state) {
    (void)state;
    for (int32_t call = 1; call <= 200; call += 7) {
        fault f = {call, call % 4, call % 2 ? TPP_ERR_USER - 5 : TPP_ERR_COMM};
        comm_threads_run(4, NULL, refused, &f);
    }
}

static void counts_differ(tpp_comm *local, int32_t rank, void *arg) {
    (void)arg;
    float x[8] = {0};
    tpp_comm *user;
    if (!COMM_CHECK_OK(comm_user_create(&user, local, 20)))
        return;
    tpp_status status = tpp_comm_all_reduce(user, x, x, rank == 1 ? 7 : 8, TPP_F32, TPP_SUM);
    COMM_CHECK(status == TPP_ERR_MISMATCH || status == TPP_ERR_ABORTED);
    tpp_comm_destroy(user);
}

static void other_count_fails_everywhere(void **state) {
    (void)state;
    comm_threads_run(3, NULL, counts_differ, NULL);
}

static void one_missing(tpp_comm *local, int32_t rank, void *arg) {
    (void)arg;
    tpp_comm *user;
    if (!COMM_CHECK_OK(comm_user_create(&user, local, 0.05)))
        return;
    if (rank != 1) {
        tpp_status status = tpp_comm_barrier(user);
        COMM_CHECK(status == TPP_ERR_TIMEOUT || status == TPP_ERR_ABORTED);
        if (status == TPP_ERR_TIMEOUT && rank == 0)
            COMM_CHECK(strstr(tpp_message(), "in barrier 1 for a message with rank 1") != NULL);
    }
    tpp_comm_destroy(user);
}

static void missing_rank_is_named(void **state) {
    (void)state;
    comm_threads_run(3, NULL, one_missing, NULL);
}

/* Calls of different kinds, types or reductions never meet: no wrong numbers, but the deadline. */
static void calls_differ(tpp_comm *local, int32_t rank, void *arg) {
    float x[2] = {1, 2};
    tpp_comm *user;
    if (!COMM_CHECK_OK(comm_user_create(&user, local, 0.1)))
        return;
    int odd = rank == 1 ? *(int *)arg : 0;
    tpp_status status = odd == 3 ? tpp_comm_broadcast(user, x, 2, TPP_F32, 0)
                                 : tpp_comm_all_reduce(user, x, x, 2, odd == 1 ? TPP_I32 : TPP_F32,
                                                       odd == 2 ? TPP_MAX : TPP_SUM);
    COMM_CHECK(status == TPP_ERR_TIMEOUT || status == TPP_ERR_ABORTED);
    tpp_comm_destroy(user);
}

static void other_call_never_gives_numbers(void **state) {
    (void)state;
    for (int odd = 1; odd <= 3; odd++)
        comm_threads_run(2, NULL, calls_differ, &odd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_as_local),
        cmocka_unit_test(barrier_waits_for_all),
        cmocka_unit_test(refusal_reaches_every_rank),
        cmocka_unit_test(other_count_fails_everywhere),
        cmocka_unit_test(missing_rank_is_named),
        cmocka_unit_test(other_call_never_gives_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
