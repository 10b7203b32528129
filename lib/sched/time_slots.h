/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SCHED_TIME_SLOTS_H
#define TPP_SCHED_TIME_SLOTS_H

#include "sched/sched_impl.h"

/* The time slot of every action when each compute action takes one slot, an overlapped pair one for
 * both, and begins in the first slot in which its rank is free and all that it needs has ended. */
typedef struct tpp__time_slots {
    const tpp_schedule *schedule;
    int64_t *first; /* [ranks + 1]: where a rank begins in `slot` */
    int32_t *slot;  /* of every action, in order; of messages unset */
    int32_t *ended; /* [TPP__SCHED_RESULTS * stages * micros]: first slot after it, 0: not made */
    int64_t *at;    /* [ranks]: next action of the rank */
    int32_t *free;  /* [ranks]: first free slot */
    int32_t *ready; /* stack of ranks that may go on */
    bool *waits;    /* [ranks]: not on that stack */
    int32_t ready_count;
    int64_t bytes;
} tpp__time_slots;

tpp_status tpp__time_slots_begin(tpp__time_slots *t, const tpp_schedule *s);
void tpp__time_slots_end(tpp__time_slots *t);

#endif
