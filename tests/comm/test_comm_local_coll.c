/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/comm_shuffle.h"
#include "support/comm_threads.h"
#include "support/comm_user.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Behaviour O29: ranks that disagree on a collective all get a typed error, none hangs, all can be
 * destroyed. Behaviour O31: nothing to reduce is a success, and a collective like any other. */

typedef struct plan {
    tpp_comm_kind kind;
    int64_t count;
    tpp_dtype dtype;
    tpp_reduce reduce;
    int32_t root;
} plan;

static tpp_status follow(tpp_comm *comm, const plan *p, double *in, double *out) {
    switch (p->kind) {
    case TPP_COMM_ALL_REDUCE:
        return tpp_comm_all_reduce(comm, in, out, p->count, p->dtype, p->reduce);
    case TPP_COMM_ALL_GATHER:
        return tpp_comm_all_gather(comm, in, out, p->count, p->dtype);
    case TPP_COMM_BROADCAST:
        return tpp_comm_broadcast(comm, out, p->count, p->dtype, p->root);
    default:
        return tpp_comm_barrier(comm);
    }
}

enum { MOST = 1000, RANKS = 4, STEPS = 6 };

/* A step of a training run: small and large ones of every kind. */
static const plan step[STEPS] = {
    {TPP_COMM_ALL_REDUCE, 4, TPP_F32, TPP_SUM, 0},
    {TPP_COMM_ALL_REDUCE, MOST, TPP_F64, TPP_SUM, 0},
    {TPP_COMM_ALL_GATHER, 100, TPP_F64, 0, 0},
    {TPP_COMM_BROADCAST, MOST, TPP_F32, 0, 1},
    {TPP_COMM_BARRIER, 0, 0, 0, 0},
    {TPP_COMM_ALL_REDUCE, 1, TPP_F64, TPP_MAX, 0},
};

typedef struct mutation {
    int32_t at;      /* number of the step that one rank does otherwise */
    int32_t culprit; /* which rank */
    plan other;
} mutation;

/* What can be changed of a call so that the two do not fit; false: this one has no such field. */
static bool mutate(plan *p, int32_t field) {
    switch (field) {
    case 0:
        p->kind = p->kind == TPP_COMM_BARRIER ? TPP_COMM_ALL_REDUCE : TPP_COMM_BARRIER;
        break;
    case 1:
        p->count = p->count - 1;
        break;
    case 2:
        p->dtype = p->dtype == TPP_F32 ? TPP_I32 : TPP_I64;
        break;
    case 3:
        p->reduce = TPP_SUM_TREE;
        break;
    default:
        p->root = 2;
        break;
    }
    if (p->kind == TPP_COMM_BARRIER && field > 0)
        return false;
    if (field == 0 && p->kind == TPP_COMM_ALL_REDUCE)
        *p = (plan){TPP_COMM_ALL_REDUCE, 0, TPP_F32, TPP_SUM, 0};
    return (field != 3 || p->kind == TPP_COMM_ALL_REDUCE) &&
           (field != 4 || p->kind == TPP_COMM_BROADCAST);
}

static void one_differs(tpp_comm *comm, int32_t rank, void *arg) {
    static double in[RANKS][MOST], out[RANKS][RANKS * MOST];
    const mutation *m = arg;
    char number[32], both[64];
    comm_random delays = {(uint64_t)(rank + m->at)};
    for (int32_t s = 0; s < m->at; s++)
        COMM_CHECK_OK(follow(comm, &step[s], in[rank], out[rank]));
    comm_delay(&delays);
    const plan *p = rank == m->culprit ? &m->other : &step[m->at];
    COMM_CHECK_STATUS(follow(comm, p, in[rank], out[rank]), TPP_ERR_MISMATCH);
    snprintf(number, sizeof number, "collective %d:", m->at + 1);
    snprintf(both, sizeof both, "rank %d calls", m->culprit > 0 ? m->culprit : 1);
    COMM_CHECK(strstr(tpp_message(), number) != NULL);
    COMM_CHECK(strstr(tpp_message(), "rank 0 calls") != NULL);
    COMM_CHECK(strstr(tpp_message(), both) != NULL);
    COMM_CHECK_STATUS(tpp_comm_barrier(comm), TPP_ERR_MISMATCH);
}

static void o29_disagreement_reaches_all(void **state) {
    (void)state;
    for (int32_t at = 0; at < STEPS; at++) {
        for (int32_t field = 0; field < 5; field++) {
            mutation m = {at, (at + field) % RANKS, step[at]};
            if (mutate(&m.other, field))
                comm_threads_run(RANKS, NULL, one_differs, &m);
        }
    }
}

static void four_and_three(tpp_comm *comm, int32_t rank, void *arg) {
    (void)arg;
    float x[4] = {0};
    COMM_CHECK_STATUS(tpp_comm_all_reduce(comm, x, x, rank ? 3 : 4, TPP_F32, TPP_SUM),
                      TPP_ERR_MISMATCH);
    COMM_CHECK(strcmp(tpp_message(),
                      "the ranks disagree on collective 1: rank 0 calls all_reduce of 4 "
                      "float32, TPP_SUM, rank 1 calls all_reduce of 3 float32, TPP_SUM") == 0);
}

static void o29_smallest_case_and_its_sentence(void **state) {
    (void)state;
    comm_threads_run(2, NULL, four_and_three, NULL);
}

static void one_splits(tpp_comm *comm, int32_t rank, void *arg) {
    (void)arg;
    tpp_comm *child = NULL;
    tpp_status status = rank == 1 ? tpp_comm_barrier(comm) : tpp_comm_split(comm, &child, 0, 0);
    COMM_CHECK(status == TPP_ERR_MISMATCH && !child);
}

static void o29_split_against_barrier(void **state) {
    (void)state;
    comm_threads_run(3, NULL, one_splits, NULL);
}

/* The others learn of it also when they wait for something later or earlier. */
static void differs_under_way(tpp_comm *comm, int32_t rank, void *arg) {
    (void)arg;
    static double x[3][4][MOST];
    tpp_request requests[4];
    for (int32_t i = 0; i < 4; i++) {
        int64_t count = i == 2 && rank == 1 ? 7 : MOST;
        COMM_CHECK_OK(tpp_comm_all_reduce_start(comm, x[rank][i], x[rank][i], count, TPP_F64,
                                                TPP_SUM, &requests[i]));
    }
    COMM_CHECK_STATUS(tpp_comm_wait(&requests[3]), TPP_ERR_MISMATCH);
    COMM_CHECK_OK(tpp_comm_wait(&requests[0]));
    COMM_CHECK_OK(tpp_comm_wait(&requests[1]));
    COMM_CHECK_STATUS(tpp_comm_wait(&requests[2]), TPP_ERR_MISMATCH);
}

static void o29_several_under_way(void **state) {
    (void)state;
    comm_threads_run(3, NULL, differs_under_way, NULL);
}

/* Every collective x count 0 x {NULL, valid} x {in place, not}. */
static void do_nothing(tpp_comm *comm) {
    double one[4] = {1, 2, 3, 4}, two[4] = {5, 6, 7, 8};
    double *buffers[4][2] = {{NULL, NULL}, {one, one}, {one, two}, {NULL, two}};
    for (int32_t b = 0; b < 4; b++) {
        double *in = buffers[b][0], *out = buffers[b][1];
        COMM_CHECK_OK(tpp_comm_all_reduce(comm, in, out, 0, TPP_F64, TPP_SUM));
        COMM_CHECK_OK(tpp_comm_all_reduce(comm, in, out, 0, TPP_F32, TPP_SUM_TREE));
        COMM_CHECK_OK(tpp_comm_all_reduce(comm, in, out, 0, TPP_I64, TPP_MAX));
        COMM_CHECK_OK(tpp_comm_all_gather(comm, in, out, 0, TPP_I32));
        COMM_CHECK_OK(tpp_comm_broadcast(comm, out, 0, TPP_F64, tpp_comm_size(comm) - 1));
    }
    COMM_CHECK(one[0] == 1 && one[3] == 4 && two[0] == 5 && two[3] == 8);
}

static void nothing(tpp_comm *comm, int32_t rank, void *arg) {
    (void)arg;
    tpp_comm *over;
    do_nothing(comm);
    if (COMM_CHECK_OK(comm_user_create(&over, comm, 0)))
        do_nothing(over);
    tpp_comm_destroy(over);
    if (COMM_CHECK_OK(comm_shuffle_create(&over, comm, (uint64_t)rank)))
        do_nothing(over);
    tpp_comm_destroy(over);
    if (COMM_CHECK_OK(tpp_comm_traced_create(&over, comm, NULL)))
        do_nothing(over);
    tpp_comm_destroy(over);
}

static void o31_nothing_to_do(void **state) {
    (void)state;
    for (int32_t n = 1; n <= 4; n++)
        comm_threads_run(n, NULL, nothing, NULL);
}

static void nothing_out_of_order(tpp_comm *comm, int32_t rank, void *arg) {
    (void)arg;
    tpp_status status = rank == 1 ? tpp_comm_all_gather(comm, NULL, NULL, 0, TPP_F32)
                                  : tpp_comm_all_reduce(comm, NULL, NULL, 0, TPP_F32, TPP_SUM);
    COMM_CHECK(status == TPP_ERR_MISMATCH);
}

static void o31_nothing_counts_in_the_order(void **state) {
    (void)state;
    comm_threads_run(2, NULL, nothing_out_of_order, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(o29_disagreement_reaches_all),
        cmocka_unit_test(o29_smallest_case_and_its_sentence),
        cmocka_unit_test(o29_split_against_barrier),
        cmocka_unit_test(o29_several_under_way),
        cmocka_unit_test(o31_nothing_to_do),
        cmocka_unit_test(o31_nothing_counts_in_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
