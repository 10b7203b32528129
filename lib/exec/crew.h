/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_EXEC_CREW_H
#define TPP_EXEC_CREW_H

#include "exec/pool.h"
#include "exec/walker.h"

enum { TPP__CREW_ALL = -1 };

/* What the executors of layers have in common: a pool of workers that share the walkers of a run.
 * They differ in the number of workers, in how a worker plays its walkers, and in whose walkers
 * these are. */
typedef struct tpp__crew_desc {
    int32_t ranks; /* that runs must have; 0: any */
    int32_t lanes; /* that runs must have */
    int32_t own;   /* the only rank that is walked here; TPP__CREW_ALL */
    int32_t workers;
    void (*play)(void *walk, int32_t worker);
} tpp__crew_desc;

tpp_status tpp__crew_create(tpp_executor **out, const tpp__crew_desc *desc,
                            const tpp_allocator *allocator);

/* How a worker with one walker plays it. */
void tpp__crew_play_one(void *walk, int32_t row);

#endif
