/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/pool.h"

#include "base/alloc.h"
#include "base/thread.h"

#define SPINS 200 /* polls before an idle worker sleeps */

typedef struct worker {
    _Alignas(TPP__ALIGN) tpp__pool *pool;
    int32_t index;
    uint32_t seen;     /* runs begun, the worker's own count */
    atomic_uint begun; /* runs begun, the pool's count; also raised to end the worker */
    tpp__spot spot;
    tpp__thread thread;
} worker;

struct tpp__pool {
    tpp_allocator allocator;
    int64_t bytes;
    int32_t workers;
    int32_t started; /* workers 1 .. started - 1 have a thread */
    void (*work)(void *arg, int32_t worker);
    void *arg;
    atomic_bool ends;
    atomic_int running; /* workers other than 0 that are not back yet */
    tpp__spot done;
    worker *worker;
};

static bool has_work(void *arg) {
    worker *w = arg;
    return atomic_load(&w->begun) != w->seen;
}

static bool all_done(void *arg) {
    tpp__pool *pool = arg;
    return atomic_load(&pool->running) == 0;
}

static void *live(void *arg) {
    worker *w = arg;
    tpp__pool *pool = w->pool;
    for (;;) {
        tpp__spot_wait(&w->spot, has_work, w, SPINS, TPP__FOREVER);
        w->seen++;
        if (atomic_load(&pool->ends))
            return NULL;
        pool->work(pool->arg, w->index);
        if (atomic_fetch_sub(&pool->running, 1) == 1)
            tpp__spot_wake(&pool->done);
    }
}

static void call(worker *w) {
    atomic_fetch_add(&w->begun, 1);
    tpp__spot_wake(&w->spot);
}

void tpp__pool_run(tpp__pool *pool, void (*work)(void *arg, int32_t worker), void *arg) {
    pool->work = work;
    pool->arg = arg;
    atomic_store(&pool->running, pool->workers - 1);
    for (int32_t i = 1; i < pool->workers; i++)
        call(&pool->worker[i]);
    work(arg, 0);
    tpp__spot_wait(&pool->done, all_done, pool, SPINS, TPP__FOREVER);
}

void tpp__pool_destroy(tpp__pool *pool) {
    if (!pool)
        return;
    atomic_store(&pool->ends, true);
    for (int32_t i = 1; i < pool->started; i++)
        call(&pool->worker[i]);
    for (int32_t i = 1; i < pool->started; i++) {
        tpp__thread_join(&pool->worker[i].thread);
        tpp__spot_destroy(&pool->worker[i].spot);
    }
    tpp__spot_destroy(&pool->done);
    tpp_allocator allocator = pool->allocator;
    tpp__free(&allocator, pool, pool->bytes);
}

static tpp_status start(tpp__pool *pool, int32_t index) {
    worker *w = &pool->worker[index];
    w->pool = pool;
    w->index = index;
    atomic_init(&w->begun, 0);
    tpp_status status = tpp__spot_init(&w->spot);
    if (status < 0)
        return status;
    status = tpp__thread_start(&w->thread, live, w);
    if (status < 0)
        tpp__spot_destroy(&w->spot);
    return status;
}

tpp_status tpp__pool_create(tpp__pool **out, int32_t workers, const tpp_allocator *allocator) {
    tpp__arena need = tpp__arena_counting();
    tpp__arena_take(&need, 1, sizeof(tpp__pool));
    tpp__arena_take(&need, workers, sizeof(worker));
    tpp__pool *pool = tpp__alloc(allocator, need.used);
    if (!pool)
        return TPP_ERR_NO_MEMORY;
    tpp__arena arena = tpp__arena_over(pool, need.used);
    tpp__arena_take(&arena, 1, sizeof *pool);
    pool->worker = tpp__arena_take(&arena, workers, sizeof(worker));
    pool->allocator = *allocator;
    pool->bytes = need.used;
    pool->workers = workers;
    pool->started = 1;
    atomic_init(&pool->ends, false);
    atomic_init(&pool->running, 0);
    tpp_status status = tpp__spot_init(&pool->done);
    if (status < 0) {
        tpp__free(allocator, pool, need.used);
        return status;
    }
    while (pool->started < workers) {
        status = start(pool, pool->started);
        if (status < 0) {
            tpp__pool_destroy(pool);
            return status;
        }
        pool->started++;
    }
    *out = pool;
    return TPP_OK;
}
