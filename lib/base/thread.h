/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_BASE_THREAD_H
#define TPP_BASE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <tpp/base.h>

/* Monotonic seconds. */
double tpp__now(void);

/* A moment so far away that no wait passes it. */
#define TPP__FOREVER 1e300

typedef struct tpp__lock {
    pthread_mutex_t mutex;
} tpp__lock;
#define TPP__LOCK_INIT                                                                             \
    { PTHREAD_MUTEX_INITIALIZER }

void tpp__lock_take(tpp__lock *lock);
void tpp__lock_give(tpp__lock *lock);

/* A place where one thread waits until a condition holds that other threads make true. The waiter
 * polls, then sleeps in the kernel; who changes the condition calls wake afterwards. The condition
 * must read only atomics (sequentially consistent), because it is called without a lock. */
typedef struct tpp__spot {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    atomic_int sleeping;
} tpp__spot;

tpp_status tpp__spot_init(tpp__spot *spot);
void tpp__spot_destroy(tpp__spot *spot);
void tpp__spot_wake(tpp__spot *spot);

/* True when the condition holds, false when `deadline` (monotonic seconds) passed first. */
bool tpp__spot_wait(tpp__spot *spot, bool (*holds)(void *arg), void *arg, int32_t spins,
                    double deadline);

typedef struct tpp__thread {
    pthread_t handle;
} tpp__thread;

tpp_status tpp__thread_start(tpp__thread *thread, void *(*run)(void *arg), void *arg);
void tpp__thread_join(tpp__thread *thread);

#endif
