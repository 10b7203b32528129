/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_EXEC_POOL_H
#define TPP_EXEC_POOL_H

#include <tpp/status.h>

/* Threads that live until the pool is destroyed and sleep between runs. The thread that calls
 * run is worker 0. */
typedef struct tpp__pool tpp__pool;

/* workers >= 1. */
tpp_status tpp__pool_create(tpp__pool **out, int32_t workers, const tpp_allocator *allocator);

/* Call work(arg, w) once on each worker w; returns when all have returned. One run at a time. */
void tpp__pool_run(tpp__pool *pool, void (*work)(void *arg, int32_t worker), void *arg);

/* Ends the threads; NULL is fine. */
void tpp__pool_destroy(tpp__pool *pool);

#endif
