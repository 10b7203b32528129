/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */

/* Time of barriers and all-reduces of a local group, in microseconds, next to the bare kernel:
 * two threads that meet at a spinning barrier, and each adds its half into both results. The
 * best of many short batches, because anything else that runs on the machine only makes them
 * slower. */

#include <tpp/comm.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_RANKS = 8, BATCHES = 150 };

typedef struct bench {
    int32_t ranks;
    int64_t count; /* floats */
    int64_t rounds;
    float *in[MOST_RANKS], *out[MOST_RANKS];
    tpp_comm *comms[MOST_RANKS];
    void (*once[2])(struct bench *b, int32_t rank); /* in turn, on the same buffers; NULL: none */
    double best[2];
    atomic_int meeting;
    atomic_int turn;
} bench;

typedef struct worker {
    pthread_t thread;
    bench *bench;
    int32_t rank;
} worker;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void spin_barrier(bench *b) {
    int turn = atomic_load(&b->turn);
    if (atomic_fetch_add(&b->meeting, 1) + 1 == b->ranks) {
        atomic_store(&b->meeting, 0);
        atomic_store(&b->turn, turn + 1);
        return;
    }
    while (atomic_load(&b->turn) == turn) {
    }
}

static void add_into_both(float *restrict x, float *restrict y, const float *restrict a,
                          const float *restrict b, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float sum = a[i] + b[i];
        x[i] = sum;
        y[i] = sum;
    }
}

static void bare_reduce(bench *b, int32_t rank) {
    int64_t half = b->count / 2, first = rank * half, n = rank ? b->count - half : half;
    spin_barrier(b);
    add_into_both(b->out[0] + first, b->out[1] + first, b->in[0] + first, b->in[1] + first, n);
    spin_barrier(b);
}

static void must(tpp_status status) {
    if (status == TPP_OK)
        return;
    fprintf(stderr, "%s: %s\n", tpp_status_name(status), tpp_message());
    exit(1);
}

static void comm_reduce(bench *b, int32_t rank) {
    must(
        tpp_comm_all_reduce(b->comms[rank], b->in[rank], b->out[rank], b->count, TPP_F32, TPP_SUM));
}

static void comm_barrier(bench *b, int32_t rank) {
    must(tpp_comm_barrier(b->comms[rank]));
}

static void *work(void *arg) {
    worker *me = arg;
    bench *b = me->bench;
    for (int32_t batch = 0; batch < 2 * BATCHES; batch++) {
        int32_t which = batch % 2;
        if (!b->once[which])
            continue;
        must(tpp_comm_barrier(b->comms[me->rank]));
        double begin = now();
        for (int64_t i = 0; i < b->rounds; i++)
            b->once[which](b, me->rank);
        double time = 1e6 * (now() - begin) / (double)b->rounds;
        if (me->rank == 0 && time < b->best[which])
            b->best[which] = time;
    }
    return NULL;
}

static void make_ranks(bench *b, int64_t bytes) {
    must(tpp_comm_local_create(b->comms, b->ranks, NULL));
    for (int32_t r = 0; r < b->ranks; r++) {
        b->in[r] = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
        b->out[r] = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
        if (!b->in[r] || !b->out[r])
            exit(1);
        for (int64_t i = 0; i < b->count; i++)
            b->in[r][i] = (float)(i % 7);
        memset(b->out[r], 0, (size_t)bytes);
    }
}

/* Microseconds of one call, of the comm and of the bare kernel (bare: or NULL). */
static double measure(int32_t ranks, int64_t bytes, void (*once)(bench *b, int32_t rank),
                      double *bare) {
    bench b = {.ranks = ranks, .count = bytes / 4, .once = {once, bare ? bare_reduce : NULL}};
    b.best[0] = b.best[1] = 1e9;
    double guess = ((double)bytes * 3e-11 + 5e-7) * (ranks > 2 ? 30 : 1);
    b.rounds = (int64_t)(1e-3 / guess) + 3;
    worker workers[MOST_RANKS];
    make_ranks(&b, bytes);
    for (int32_t r = 0; r < ranks; r++) {
        workers[r] = (worker){.bench = &b, .rank = r};
        if (pthread_create(&workers[r].thread, NULL, work, &workers[r]))
            exit(1);
    }
    for (int32_t r = 0; r < ranks; r++)
        pthread_join(workers[r].thread, NULL);
    for (int32_t r = 0; r < ranks; r++) {
        tpp_comm_destroy(b.comms[r]);
        free(b.in[r]);
        free(b.out[r]);
    }
    if (bare)
        *bare = b.best[1];
    return b.best[0];
}

int main(void) {
    static const int64_t sizes[] = {8, 4 << 10, 256 << 10, 2 << 20, 8 << 20};
    printf("barrier   2 ranks %.2f us", measure(2, 8, comm_barrier, NULL));
    printf("   4 ranks %.2f us", measure(4, 8, comm_barrier, NULL));
    printf("   8 ranks %.2f us\n\n", measure(8, 8, comm_barrier, NULL));
    printf("%10s %10s %10s %9s %10s %10s\n", "bytes", "bare us", "2 ranks", "2 / bare", "4 ranks",
           "8 ranks");
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        double bare, two = measure(2, sizes[s], comm_reduce, &bare);
        printf("%10lld %10.2f %10.2f %9.2f", (long long)sizes[s], bare, two, two / bare);
        printf(" %10.2f", measure(4, sizes[s], comm_reduce, NULL));
        printf(" %10.2f\n", measure(8, sizes[s], comm_reduce, NULL));
    }
    return 0;
}
