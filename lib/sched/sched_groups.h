/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SCHED_GROUPS_H
#define TPP_SCHED_GROUPS_H

#include "sched/generate.h"

/* Micro-batches pass the chunks of a looped placement in groups: all of a group through chunk 0,
 * then all of it through chunk 1, ... The first `wides` groups have `wide` micro-batches, the
 * others `narrow`. */
typedef struct tpp__sched_groups {
    int64_t wides, wide, narrow;
} tpp__sched_groups;

tpp__sched_groups tpp__sched_groups_of(const tpp_schedule_desc *d);

static inline int64_t tpp__sched_groups_first(const tpp__sched_groups *q) {
    return q->wides > 0 ? q->wide : q->narrow;
}

static inline int64_t tpp__sched_groups_last(const tpp__sched_groups *q) {
    return q->narrow > 0 ? q->narrow : q->wide;
}

/* The k-th action of this operation of a rank. Backwards pass the chunks from the last one. */
void tpp__sched_emit_turn(tpp__sched_emitter *e, const tpp_schedule_desc *d,
                          const tpp__sched_groups *q, int32_t rank, int32_t op, int64_t k);

#endif
