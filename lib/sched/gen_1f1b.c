/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/generate.h"

void tpp__sched_in_turn(tpp__sched_emitter *e, const tpp_schedule_desc *d, int32_t rank,
                        int32_t reach) {
    int32_t m = d->micros;
    int32_t ahead = reach * (d->ranks - 1 - rank);
    int32_t warmup = ahead < m ? ahead : m;
    for (int32_t i = 0; i < warmup; i++)
        tpp__sched_emit(e, TPP_OP_F, rank, i);
    for (int32_t i = 0; i < m; i++) {
        if (i < m - warmup)
            tpp__sched_emit(e, TPP_OP_F, rank, warmup + i);
        tpp__sched_emit(e, TPP_OP_B, rank, i);
    }
}

void tpp__sched_1f1b(tpp__sched_emitter *e, const tpp_schedule_desc *d, int32_t rank) {
    tpp__sched_in_turn(e, d, rank, 1);
}
