/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SCHED_GENERATE_H
#define TPP_SCHED_GENERATE_H

#include "sched/sched_impl.h"

/* Where a generator puts its actions. */
typedef struct tpp__sched_emitter {
    const tpp_schedule *schedule;
    tpp_action *next;
} tpp__sched_emitter;

static inline void tpp__sched_emit(tpp__sched_emitter *e, int32_t op, int32_t stage,
                                   int32_t micro) {
    uint16_t chunk = (uint16_t)e->schedule->chunk_of[stage];
    *e->next++ = (tpp_action){(uint8_t)op, 0, chunk, stage, micro, -1, -1, 0};
}

/* The compute actions of one rank, in order. All fields of `d` are valid, chunks is not 0. */
typedef void tpp__sched_generator(tpp__sched_emitter *e, const tpp_schedule_desc *d, int32_t rank);

tpp__sched_generator tpp__sched_gpipe;
tpp__sched_generator tpp__sched_1f1b;
tpp__sched_generator tpp__sched_interleaved;

#endif
