/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include "base/check.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <time.h>

/* Times that a wait offers its core to others before it sleeps. */
enum { YIELDS = 8 };

double tpp__now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void tpp__lock_take(tpp__lock *lock) {
    pthread_mutex_lock(&lock->mutex);
}

void tpp__lock_give(tpp__lock *lock) {
    pthread_mutex_unlock(&lock->mutex);
}

tpp_status tpp__spot_init(tpp__spot *spot) {
    pthread_condattr_t attr;
    atomic_init(&spot->sleeping, 0);
    if (pthread_mutex_init(&spot->mutex, NULL) != 0)
        return tpp__fail(TPP_ERR_NO_MEMORY, "the system has no room for another mutex");
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    int failed = pthread_cond_init(&spot->cond, &attr);
    pthread_condattr_destroy(&attr);
    if (failed) {
        pthread_mutex_destroy(&spot->mutex);
        return tpp__fail(TPP_ERR_NO_MEMORY,
                         "the system has no room for another condition variable");
    }
    return TPP_OK;
}

void tpp__spot_destroy(tpp__spot *spot) {
    pthread_cond_destroy(&spot->cond);
    pthread_mutex_destroy(&spot->mutex);
}

void tpp__spot_wake(tpp__spot *spot) {
    if (atomic_load(&spot->sleeping) == 0)
        return;
    pthread_mutex_lock(&spot->mutex);
    pthread_cond_broadcast(&spot->cond);
    pthread_mutex_unlock(&spot->mutex);
}

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

bool tpp__spot_wait(tpp__spot *spot, bool (*holds)(void *arg), void *arg, int32_t spins,
                    double deadline) {
    for (int32_t i = 0; i < spins; i++) {
        if (holds(arg))
            return true;
        relax();
    }
    /* With more threads than cores, the one waited for may just need this core. */
    for (int32_t i = 0; i < YIELDS; i++) {
        if (holds(arg))
            return true;
        sched_yield();
    }
    struct timespec until = {0};
    bool bounded = deadline < 1e15;
    if (bounded) {
        until.tv_sec = (time_t)floor(deadline);
        until.tv_nsec = (long)((deadline - floor(deadline)) * 1e9);
    }
    bool held = false;
    bool late = false;
    pthread_mutex_lock(&spot->mutex);
    atomic_fetch_add(&spot->sleeping, 1);
    while (!(held = holds(arg)) && !late) {
        if (bounded)
            late = pthread_cond_timedwait(&spot->cond, &spot->mutex, &until) == ETIMEDOUT;
        else
            pthread_cond_wait(&spot->cond, &spot->mutex);
    }
    atomic_fetch_sub(&spot->sleeping, 1);
    pthread_mutex_unlock(&spot->mutex);
    return held;
}

tpp_status tpp__thread_start(tpp__thread *thread, void *(*run)(void *arg), void *arg) {
    int failed = pthread_create(&thread->handle, NULL, run, arg);
    if (failed)
        return tpp__fail(TPP_ERR_NO_MEMORY, "the system cannot start another thread (error %d)",
                         failed);
    return TPP_OK;
}

void tpp__thread_join(tpp__thread *thread) {
    pthread_join(thread->handle, NULL);
}
