/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/comm_threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Values of the collectives of a local group; behaviour O27: the order of adding is fixed, so
 * that the bits depend on the ranks' numbers alone, not on count, place, repetition or order of
 * arrival. */

static void sum_four(tpp_comm *comm, int32_t rank, void *arg) {
    static const double held[4] = {1e16, 1, -1e16, 1};
    (void)arg;
    double in = held[rank], out = -1;
    COMM_CHECK_OK(tpp_comm_all_reduce(comm, &in, &out, 1, TPP_F64, TPP_SUM));
    COMM_CHECK(out == 1.0);
    COMM_CHECK_OK(tpp_comm_all_reduce(comm, &in, &out, 1, TPP_F64, TPP_SUM_TREE));
    COMM_CHECK(out == 0.0);
    COMM_CHECK_OK(tpp_comm_all_reduce(comm, &in, &out, 1, TPP_F64, TPP_MAX));
    COMM_CHECK(out == 1e16);
}

static void o27_four_numbers(void **state) {
    (void)state;
    comm_threads_run(4, NULL, sum_four, NULL);
}

enum { RANKS = 4, MOST = 4097 };

typedef struct sums {
    double in[RANKS][MOST];
    double in_order[MOST];
    double along_tree[MOST];
} sums;

static void make_sums(sums *s) {
    for (int32_t r = 0; r < RANKS; r++)
        comm_fill(s->in[r], MOST, TPP_F64, r, 27);
    for (int64_t i = 0; i < MOST; i++) {
        s->in_order[i] = ((s->in[0][i] + s->in[1][i]) + s->in[2][i]) + s->in[3][i];
        s->along_tree[i] = (s->in[0][i] + s->in[1][i]) + (s->in[2][i] + s->in[3][i]);
    }
}

static void sum_once(tpp_comm *comm, const sums *s, int32_t rank, int64_t first, int64_t count,
                     tpp_reduce reduce, double *out, bool in_place) {
    const double *in = s->in[rank] + first;
    const double *want = (reduce == TPP_SUM ? s->in_order : s->along_tree) + first;
    if (in_place)
        memcpy(out, in, (size_t)count * sizeof *in);
    COMM_CHECK_OK(tpp_comm_all_reduce(comm, in_place ? out : in, out, count, TPP_F64, reduce));
    COMM_CHECK(memcmp(out, want, (size_t)count * sizeof *out) == 0);
    COMM_CHECK(out[count] == -7.0);
}

static void every_count(tpp_comm *comm, int32_t rank, void *arg) {
    double *out = malloc((MOST + 1) * sizeof *out);
    for (int64_t count = 1; out && count <= MOST; count++) {
        out[count] = -7.0;
        tpp_reduce reduce = count % 2 ? TPP_SUM : TPP_SUM_TREE;
        sum_once(comm, arg, rank, (MOST - count) / 3, count, reduce, out, count % 3 == 0);
    }
    free(out);
}

static void repeated(tpp_comm *comm, int32_t rank, void *arg) {
    comm_random delays = {(uint64_t)rank}, same = {27};
    double *out = malloc((MOST + 1) * sizeof *out);
    for (int32_t i = 0; out && i < 1000; i++) {
        int64_t count = 1 + comm_random_below(&same, i % 2 ? 64 : MOST);
        tpp_reduce reduce = comm_random_below(&same, 2) ? TPP_SUM : TPP_SUM_TREE;
        out[count] = -7.0;
        comm_delay(&delays);
        sum_once(comm, arg, rank, 0, count, reduce, out, comm_random_below(&same, 2));
    }
    free(out);
}

static void o27_every_count_and_offset(void **state) {
    (void)state;
    static sums s;
    make_sums(&s);
    comm_threads_run(RANKS, NULL, every_count, &s);
}

static void o27_repeated_with_delays(void **state) {
    (void)state;
    static sums s;
    make_sums(&s);
    comm_threads_run(RANKS, NULL, repeated, &s);
}

/* All types, gather and broadcast, in and out of place, for both ways that a local group has. */
static void other_types(tpp_comm *comm, int32_t rank, void *arg) {
    (void)arg;
    const int32_t n = tpp_comm_size(comm);
    static const int64_t counts[] = {1, 7, 64, 129, 5000};
    int64_t *in = malloc(5000 * sizeof *in), *out = malloc((size_t)n * 5000 * sizeof *out);
    for (size_t c = 0; in && out && c < sizeof counts / sizeof *counts; c++) {
        int64_t count = counts[c], faults = 0;
        for (int64_t i = 0; i < count; i++)
            in[i] = 1000 * rank + i;
        COMM_CHECK_OK(tpp_comm_all_reduce(comm, in, out, count, TPP_I64, TPP_SUM));
        for (int64_t i = 0; i < count; i++)
            faults += out[i] != 1000 * n * (n - 1) / 2 + n * i;
        COMM_CHECK_OK(tpp_comm_all_reduce(comm, in, out, count, TPP_I64, TPP_MAX));
        for (int64_t i = 0; i < count; i++)
            faults += out[i] != 1000 * (n - 1) + i;
        memset(out, 0, (size_t)(n * count) * sizeof *out);
        bool part = c % 2;
        memcpy(out + rank * count, in, (size_t)count * sizeof *in);
        COMM_CHECK_OK(
            tpp_comm_all_gather(comm, part ? out + rank * count : in, out, count, TPP_I64));
        for (int64_t i = 0; i < n * count; i++)
            faults += out[i] != 1000 * (i / count) + i % count;
        for (int32_t root = 0; root < n; root++) {
            memcpy(out, in, (size_t)count * sizeof *in);
            COMM_CHECK_OK(tpp_comm_broadcast(comm, out, count, TPP_I64, root));
            for (int64_t i = 0; i < count; i++)
                faults += out[i] != 1000 * root + i;
        }
        COMM_CHECK_OK(tpp_comm_barrier(comm));
        COMM_CHECK(faults == 0);
    }
    free(in);
    free(out);
}

static void gather_broadcast_and_types(void **state) {
    (void)state;
    for (int32_t n = 1; n <= 5; n++)
        comm_threads_run(n, NULL, other_types, NULL);
}

/* 16 may be under way; waiting for the last also ends the others, in any order of asking. */
static void many_under_way(tpp_comm *comm, int32_t rank, void *arg) {
    (void)arg;
    enum { UNDER_WAY = 16, COUNT = 300 };
    static double buffers[3][UNDER_WAY][COUNT];
    tpp_request requests[UNDER_WAY], one_more;
    for (int32_t round = 0; round < 20; round++) {
        for (int32_t i = 0; i < UNDER_WAY; i++) {
            int64_t count = i % 2 ? 3 : COUNT;
            for (int64_t k = 0; k < count; k++)
                buffers[rank][i][k] = rank + i;
            COMM_CHECK_OK(tpp_comm_all_reduce_start(comm, buffers[rank][i], buffers[rank][i], count,
                                                    TPP_F64, TPP_SUM, &requests[i]));
        }
        COMM_CHECK_STATUS(
            tpp_comm_all_reduce_start(comm, NULL, NULL, 0, TPP_F64, TPP_SUM, &one_more),
            TPP_ERR_INVALID);
        COMM_CHECK_OK(tpp_comm_wait(&requests[UNDER_WAY - 1]));
        for (int32_t i = 0; i < UNDER_WAY; i++)
            COMM_CHECK(buffers[rank][i][2] == 3 + 3 * i);
        for (int32_t i = 0; i < UNDER_WAY; i++) {
            COMM_CHECK_OK(tpp_comm_wait(&requests[i]));
            COMM_CHECK(requests[i].comm == NULL);
            COMM_CHECK_OK(tpp_comm_test(&requests[i]));
        }
    }
}

static void sixteen_under_way(void **state) {
    (void)state;
    comm_threads_run(3, NULL, many_under_way, NULL);
}

/* An executor may drive all ranks of a group from one thread with start and test alone. */
static void one_thread_drives_all(void **state) {
    (void)state;
    enum { N = 4, COUNT = 1000 };
    static float in[N][COUNT], out[N][COUNT];
    tpp_comm *comms[N];
    tpp_request requests[N];
    comm_guard_begin();
    assert_int_equal(tpp_comm_local_create(comms, N, NULL), TPP_OK);
    for (int32_t round = 0; round < 100; round++) {
        int64_t count = round % 2 ? COUNT : 5;
        for (int32_t r = 0; r < N; r++) {
            comm_fill(in[r], count, TPP_F32, r, (uint64_t)round);
            assert_int_equal(tpp_comm_all_reduce_start(comms[r], in[r], out[r], count, TPP_F32,
                                                       TPP_SUM, &requests[r]),
                             TPP_OK);
            assert_int_equal(tpp_comm_test(&requests[0]),
                             r < N - 1 || count > 5 ? TPP_PENDING : TPP_OK);
        }
        for (int32_t left = N, polls = 0; left > 0; polls++) {
            assert_true(polls < 100);
            left = 0;
            for (int32_t r = 0; r < N; r++)
                left += tpp_comm_test(&requests[r]) == TPP_PENDING;
        }
        for (int32_t r = 0; r < N; r++) {
            for (int64_t i = 0; i < count; i++)
                assert_true(out[r][i] == ((in[0][i] + in[1][i]) + in[2][i]) + in[3][i]);
        }
    }
    for (int32_t r = 0; r < N; r++)
        tpp_comm_destroy(comms[r]);
    comm_guard_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(o27_four_numbers),         cmocka_unit_test(o27_every_count_and_offset),
        cmocka_unit_test(o27_repeated_with_delays), cmocka_unit_test(gather_broadcast_and_types),
        cmocka_unit_test(sixteen_under_way),        cmocka_unit_test(one_thread_drives_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
