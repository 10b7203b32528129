/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"
#include "support/comm_threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

/* More ranks than cores, for long, mixed: right values, and the machine is not burnt. */

enum { RANKS = 8, COLLECTIVES = 2000, MOST = 3000, UNDER_WAY = 12 };

typedef struct pending {
    tpp_request request;
    int64_t count;
    float buffer[MOST];
} pending;

/* Rank r gives r + i: sums are exact in float. */
static void give(float *out, int64_t count, int32_t rank) {
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)(rank + i);
}

static void check_sum(pending *p) {
    int64_t faults = 0;
    for (int64_t i = 0; i < p->count; i++)
        faults += p->buffer[i] != (float)(RANKS * (RANKS - 1) / 2 + RANKS * i);
    COMM_CHECK(faults == 0);
}

static void one_blocking(tpp_comm *comm, int32_t rank, int64_t kind, int64_t count, float *in,
                         float *out) {
    int64_t faults = 0;
    int32_t root = (int32_t)(count % RANKS);
    give(in, count, rank);
    switch (kind) {
    case 0:
        COMM_CHECK_OK(tpp_comm_all_gather(comm, in, out, count, TPP_F32));
        for (int64_t i = 0; i < RANKS * count; i++)
            faults += out[i] != (float)(i / count + i % count);
        break;
    case 1:
        COMM_CHECK_OK(tpp_comm_broadcast(comm, in, count, TPP_F32, root));
        for (int64_t i = 0; i < count; i++)
            faults += in[i] != (float)(root + i);
        break;
    case 2:
        COMM_CHECK_OK(tpp_comm_barrier(comm));
        break;
    default:
        COMM_CHECK_OK(tpp_comm_all_reduce(comm, in, out, count, TPP_F32, TPP_MAX));
        for (int64_t i = 0; i < count; i++)
            faults += out[i] != (float)(RANKS - 1 + i);
        break;
    }
    COMM_CHECK(faults == 0);
}

static void mixed(tpp_comm *comm, int32_t rank, void *arg) {
    comm_random same = {*(const uint64_t *)arg};
    pending *queue = calloc(UNDER_WAY, sizeof *queue);
    float *in = calloc(MOST, sizeof *in), *out = calloc((size_t)RANKS * MOST, sizeof *out);
    if (!COMM_CHECK(queue && in && out))
        exit(1);
    for (int32_t i = 0; i < COLLECTIVES; i++) {
        int64_t kind = comm_random_below(&same, 8);
        int64_t count = comm_random_below(&same, comm_random_below(&same, 2) ? 100 : MOST);
        if (kind < 4) {
            one_blocking(comm, rank, kind, count, in, out);
            continue;
        }
        pending *p = &queue[i % UNDER_WAY];
        if (p->request.comm) {
            COMM_CHECK_OK(tpp_comm_wait(&p->request));
            check_sum(p);
        }
        p->count = count;
        give(p->buffer, count, rank);
        COMM_CHECK_OK(tpp_comm_all_reduce_start(comm, p->buffer, p->buffer, count, TPP_F32,
                                                kind < 6 ? TPP_SUM : TPP_SUM_TREE, &p->request));
    }
    for (int32_t i = 0; i < UNDER_WAY; i++) {
        COMM_CHECK_OK(tpp_comm_wait(&queue[i].request));
        check_sum(&queue[i]);
    }
    free(queue);
    free(in);
    free(out);
}

static void eight_ranks_two_thousand_collectives(void **state) {
    (void)state;
    double begin = tpp__now();
    uint64_t seed = 1;
    comm_threads_run(RANKS, NULL, mixed, &seed);
    assert_true(tpp__now() - begin < 60); /* some tenths of a second on a quiet machine */
}

static void wait_for_the_last(tpp_comm *comm, int32_t rank, void *arg) {
    (void)arg;
    struct timespec pause = {0, 300000000};
    if (rank == 0)
        nanosleep(&pause, NULL);
    COMM_CHECK_OK(tpp_comm_barrier(comm));
}

static void waiting_costs_no_time_of_the_cores(void **state) {
    (void)state;
    clock_t begin = clock();
    comm_threads_run(RANKS, NULL, wait_for_the_last, NULL);
    double used = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (used > 0.1) /* spinning would take twice 0.3 s on two cores */
        fail_msg("eight ranks used %d ms of the processor to wait 300 ms", (int)(1e3 * used));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_ranks_two_thousand_collectives),
        cmocka_unit_test(waiting_costs_no_time_of_the_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
