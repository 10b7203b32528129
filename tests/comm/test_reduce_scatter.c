/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* A reduce-scatter gives every rank its part of what an all-reduce gives, bit for bit: of a local
 * group, of a traced one, and built from a host's send and receive. */
#include "support/comm_threads.h"
#include "support/comm_user.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_RANKS = 9, MOST = 9001 };

static int64_t width_of(tpp_dtype dtype) {
    return dtype == TPP_BF16 ? 2 : dtype == TPP_F32 || dtype == TPP_I32 ? 4 : 8;
}

/* What a rank works with: room for all parts, 8 bytes each element. */
typedef struct room {
    char *in, *whole, *got;
} room;

static void one_case(tpp_comm *plain, tpp_comm *comm, const room *r, int64_t count, tpp_dtype dtype,
                     tpp_reduce reduce, bool in_place) {
    const int64_t bytes = count * width_of(dtype), rank = tpp_comm_rank(plain);
    const int64_t all = bytes * tpp_comm_size(plain);
    char *part = in_place ? r->in + rank * bytes : r->got;
    comm_fill(r->in, count * tpp_comm_size(plain), dtype, (int32_t)rank, (uint64_t)count);
    COMM_CHECK_OK(
        tpp_comm_all_reduce(plain, r->in, r->whole, count * tpp_comm_size(plain), dtype, reduce));
    memcpy(r->got, r->in, (size_t)all);
    memset(r->got + (in_place ? 0 : bytes), 0x5a, in_place ? 0 : 8);
    if (in_place) /* the other parts of the input stay */
        memcpy(r->got + rank * bytes, r->whole + rank * bytes, (size_t)bytes);
    COMM_CHECK_OK(tpp_comm_reduce_scatter(comm, r->in, part, count, dtype, reduce));
    COMM_CHECK(memcmp(part, r->whole + rank * bytes, (size_t)bytes) == 0);
    if (in_place)
        COMM_CHECK(memcmp(r->in, r->got, (size_t)all) == 0);
    else
        COMM_CHECK(memcmp(r->got + bytes, "ZZZZZZZZ", 8) == 0);
}

static void all_cases(tpp_comm *plain, tpp_comm *comm) {
    static const int64_t counts[] = {0, 1, 3, 7, 64, 127, 2048, 2049, 5000, MOST};
    const size_t bytes = (size_t)tpp_comm_size(plain) * (MOST + 1) * 8;
    room r = {malloc(bytes), malloc(bytes), malloc(bytes)};
    if (!COMM_CHECK(r.in && r.whole && r.got))
        exit(1);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (tpp_reduce reduce = TPP_SUM; reduce <= TPP_MAX; reduce++) {
            one_case(plain, comm, &r, counts[c], TPP_F32, reduce, false);
            one_case(plain, comm, &r, counts[c], TPP_F32, reduce, true);
            one_case(plain, comm, &r, counts[c], TPP_F64, reduce, c % 2);
            one_case(plain, comm, &r, counts[c], TPP_BF16, reduce, c % 2 == 0);
            one_case(plain, comm, &r, counts[c], TPP_I64, reduce, true);
        }
    }
    free(r.in);
    free(r.whole);
    free(r.got);
}

static void compare(tpp_comm *local, int32_t rank, void *arg) {
    tpp_comm *other;
    (void)rank;
    (void)arg;
    all_cases(local, local);
    if (!COMM_CHECK_OK(comm_user_create(&other, local, 0)))
        return;
    all_cases(local, other);
    tpp_comm_destroy(other);
}

static void same_bits_as_an_all_reduce(void **state) {
    (void)state;
    for (int32_t n = 1; n <= MOST_RANKS; n++)
        comm_threads_run(n, NULL, compare, NULL);
}

/* Several under way, with gathers between them, are over in their order. */
static void under_way(tpp_comm *comm, int32_t rank, void *arg) {
    enum { N = 700, SIZE = 4 };
    static double in[SIZE][SIZE * N], out[SIZE][N], all[SIZE][SIZE * N];
    tpp_request first, second;
    (void)arg;
    for (int i = 0; i < SIZE * N; i++)
        in[rank][i] = i + rank;
    for (int round = 0; round < 50; round++) {
        memset(all[rank], 0, sizeof all[rank]);
        COMM_CHECK_OK(tpp_comm_all_gather_start(comm, in[rank], all[rank], N, TPP_F64, &first));
        COMM_CHECK_OK(tpp_comm_reduce_scatter_start(comm, in[rank], out[rank], N, TPP_F64,
                                                    TPP_SUM_TREE, &second));
        COMM_CHECK_OK(tpp_comm_wait(&second));
        COMM_CHECK(all[rank][3 * N + 5] == 5 + 3);
        COMM_CHECK(out[rank][5] == SIZE * (rank * N + 5) + 6);
        COMM_CHECK_OK(tpp_comm_wait(&first));
    }
}

static void they_are_over_in_order(void **state) {
    (void)state;
    comm_threads_run(4, NULL, under_way, NULL);
}

static void counted(tpp_comm *inner, int32_t rank, void *arg) {
    float in[6] = {1, 2, 3, 4, 5, 6}, out[3];
    tpp_comm *traced;
    tpp_comm_count count;
    (void)arg;
    if (!COMM_CHECK_OK(tpp_comm_traced_create(&traced, inner, NULL)))
        return;
    COMM_CHECK_OK(tpp_comm_reduce_scatter(traced, in, out, 3, TPP_F32, TPP_SUM));
    COMM_CHECK(out[2] == (rank ? 12 : 6));
    COMM_CHECK_OK(tpp_comm_traced_get(traced, TPP_COMM_REDUCE_SCATTER, &count));
    COMM_CHECK(count.calls == 1 && count.elements == 3 && count.bytes == 12);
    COMM_CHECK_STATUS(tpp_comm_traced_get(traced, TPP_COMM_KINDS, &count), TPP_ERR_INVALID);
    tpp_comm_destroy(traced);
}

static void it_is_counted(void **state) {
    (void)state;
    comm_threads_run(2, NULL, counted, NULL);
}

/* Ranks that disagree are told, with both calls. */
static void differs(tpp_comm *comm, int32_t rank, void *arg) {
    static double in[2][4000], out[2][4000];
    const int field = *(const int *)arg;
    int64_t count = rank == 1 && field == 0 ? 999 : 1000;
    tpp_status status =
        rank == 1 && field == 2
            ? tpp_comm_all_reduce(comm, in[rank], out[rank], count, TPP_F64, TPP_SUM)
            : tpp_comm_reduce_scatter(comm, in[rank], out[rank], count, TPP_F64,
                                      rank == 1 && field == 1 ? TPP_MAX : TPP_SUM);
    COMM_CHECK(status == TPP_ERR_MISMATCH);
    COMM_CHECK(strstr(tpp_message(), "rank 0 calls reduce_scatter of 1000 float64, TPP_SUM"));
}

static void disagreement_is_told(void **state) {
    (void)state;
    for (int field = 0; field < 3; field++)
        comm_threads_run(2, NULL, differs, &field);
}

static void bad_arguments_are_refused(void **state) {
    float x[8] = {0};
    tpp_comm *c[2];
    tpp_request request;
    (void)state;
    assert_int_equal(tpp_comm_local_create(c, 2, NULL), TPP_OK);
    assert_int_equal(tpp_comm_reduce_scatter(NULL, x, x + 4, 1, TPP_F32, TPP_SUM), TPP_ERR_INVALID);
    assert_int_equal(tpp_comm_reduce_scatter(c[0], x, NULL, 1, TPP_F32, TPP_SUM), TPP_ERR_INVALID);
    assert_int_equal(tpp_comm_reduce_scatter(c[0], x, x + 4, 1, TPP_F32, 9), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "reduce = 9"));
    assert_int_equal(tpp_comm_reduce_scatter(c[0], x, x + 1, 2, TPP_F32, TPP_SUM), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "out overlaps in"));
    assert_int_equal(tpp_comm_reduce_scatter(c[0], x, x + 4, INT64_MAX / 8 + 1, TPP_F32, TPP_SUM),
                     TPP_ERR_OVERFLOW);
    assert_int_equal(tpp_comm_all_gather_start(c[0], x, x, 2, TPP_F32, NULL), TPP_ERR_INVALID);
    assert_int_equal(tpp_comm_all_gather_start(c[0], x + 1, x, 2, TPP_F32, &request),
                     TPP_ERR_INVALID);
    tpp_comm_destroy(c[0]);
    tpp_comm_destroy(c[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_as_an_all_reduce),
        cmocka_unit_test(they_are_over_in_order),
        cmocka_unit_test(it_is_counted),
        cmocka_unit_test(disagreement_is_told),
        cmocka_unit_test(bad_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
