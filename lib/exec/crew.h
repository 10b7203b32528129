/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_EXEC_CREW_H
#define TPP_EXEC_CREW_H

#include "exec/pool.h"
#include "exec/walker.h"

/* What the serial and the threads executor have in common: a pool of workers that share the
 * walkers of a run. They differ in the number of workers and in how a worker plays its walkers. */
typedef struct tpp__crew_desc {
    int32_t ranks; /* that runs must have; 0: any */
    int32_t lanes; /* that runs must have */
    int32_t workers;
    void (*play)(void *walk, int32_t worker);
} tpp__crew_desc;

tpp_status tpp__crew_create(tpp_executor **out, const tpp__crew_desc *desc,
                            const tpp_allocator *allocator);

#endif
