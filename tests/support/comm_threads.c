/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/comm_threads.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <tpp/convert.h>

enum { GUARD_SECONDS = 120 };

typedef struct rank_thread {
    pthread_t thread;
    tpp_comm *comm;
    int32_t rank;
    comm_body body;
    void *arg;
} rank_thread;

static atomic_int faults;

bool comm_check(bool holds, const char *text, const char *file, int line) {
    if (!holds && atomic_fetch_add(&faults, 1) < 10)
        fprintf(stderr, "%s:%d: not so: %s\n", file, line, text);
    return holds;
}

bool comm_check_status(tpp_status got, tpp_status want, const char *text, const char *file,
                       int line) {
    if (got == want)
        return true;
    if (atomic_fetch_add(&faults, 1) < 10)
        fprintf(stderr, "%s:%d: %s: %s, not %s: %s\n", file, line, text, tpp_status_name(got),
                tpp_status_name(want), tpp_message());
    return false;
}

void comm_guard_begin(void) {
    alarm(GUARD_SECONDS);
}

void comm_guard_end(void) {
    alarm(0);
}

static void *run(void *arg) {
    rank_thread *me = arg;
    me->body(me->comm, me->rank, me->arg);
    return NULL;
}

void comm_threads_over(tpp_comm *const *comms, int32_t n, comm_body body, void *arg) {
    rank_thread *ranks = calloc((size_t)n, sizeof *ranks);
    assert_non_null(ranks);
    atomic_store(&faults, 0);
    comm_guard_begin();
    for (int32_t r = 0; r < n; r++) {
        ranks[r] = (rank_thread){.comm = comms[r], .rank = r, .body = body, .arg = arg};
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, run, &ranks[r]), 0);
    }
    for (int32_t r = 0; r < n; r++)
        pthread_join(ranks[r].thread, NULL);
    comm_guard_end();
    free(ranks);
    assert_int_equal(atomic_load(&faults), 0);
}

void comm_threads_run(int32_t n, const tpp_comm_local_desc *desc, comm_body body, void *arg) {
    tpp_comm **comms = calloc((size_t)n, sizeof(tpp_comm *));
    assert_non_null(comms);
    assert_int_equal(tpp_comm_local_create(comms, n, desc), TPP_OK);
    comm_threads_over(comms, n, body, arg);
    for (int32_t r = 0; r < n; r++)
        tpp_comm_destroy(comms[r]);
    free(comms);
}

uint64_t comm_random_next(comm_random *random) {
    uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int64_t comm_random_below(comm_random *random, int64_t bound) {
    return (int64_t)(comm_random_next(random) % (uint64_t)bound);
}

void comm_delay(comm_random *random) {
    int64_t choice = comm_random_below(random, 32);
    if (choice == 0) {
        struct timespec pause = {0, (long)comm_random_below(random, 30000)};
        nanosleep(&pause, NULL);
    } else if (choice < 8) {
        sched_yield();
    }
}

void comm_fill(void *out, int64_t count, tpp_dtype dtype, int32_t rank, uint64_t seed) {
    comm_random random = {seed * 1000003 + (uint64_t)rank};
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = comm_random_next(&random);
        double scale = (double)(UINT64_C(1) << (bits % 48));
        double value = ((double)(bits >> 11) / 9007199254740992.0 - 0.5) * scale;
        switch (dtype) {
        case TPP_F32:
            ((float *)out)[i] = (float)value;
            break;
        case TPP_F64:
            ((double *)out)[i] = value;
            break;
        case TPP_BF16:
            tpp_convert((uint16_t *)out + i, TPP_BF16, &value, TPP_F64, 1);
            break;
        case TPP_I32:
            ((int32_t *)out)[i] = (int32_t)(bits & 0xfffff) - 0x80000;
            break;
        default:
            ((int64_t *)out)[i] = (int64_t)(bits >> 16) - (INT64_C(1) << 47);
            break;
        }
    }
}

static void *memory_alloc(void *ctx, uint64_t bytes, uint64_t align) {
    comm_memory *memory = ctx;
    if (atomic_fetch_add(&memory->calls, 1) + 1 == memory->fail_at)
        return NULL;
    void *block = aligned_alloc(align, bytes);
    if (block) {
        memset(block, 0xa5, bytes); /* nothing may rely on fresh memory being zero */
        atomic_fetch_add(&memory->live, 1);
        atomic_fetch_add(&memory->live_bytes, (long long)bytes);
    }
    return block;
}

static void memory_release(void *ctx, void *block, uint64_t bytes) {
    comm_memory *memory = ctx;
    atomic_fetch_sub(&memory->live, 1);
    atomic_fetch_sub(&memory->live_bytes, (long long)bytes);
    free(block);
}

void comm_memory_init(comm_memory *memory, long long fail_at) {
    memory->allocator =
        (tpp_allocator){sizeof memory->allocator, 0, memory, memory_alloc, memory_release};
    atomic_init(&memory->calls, 0);
    atomic_init(&memory->live, 0);
    atomic_init(&memory->live_bytes, 0);
    memory->fail_at = fail_at;
}
