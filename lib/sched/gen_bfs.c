/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/generate.h"

static void emit_all(tpp__sched_emitter *e, int32_t op, int32_t stage) {
    for (int32_t i = 0; i < e->schedule->micros; i++)
        tpp__sched_emit(e, op, stage, i);
}

/* Chunk by chunk. The backwards are in rising order too, so that gradients are added up in the order
 * of all other schedules. Other systems let them fall; that takes as long, and needs as much room in
 * the channels: what fills those are forwards, all of a chunk before the first rank comes to the
 * next one. */
void tpp__sched_bfs(tpp__sched_emitter *e, const tpp_schedule_desc *d, int32_t rank) {
    const tpp_schedule *s = e->schedule;
    (void)d;
    for (int32_t k = s->stage_first[rank]; k < s->stage_first[rank + 1]; k++)
        emit_all(e, TPP_OP_F, s->stages_at[k]);
    for (int32_t k = s->stage_first[rank + 1]; k-- > s->stage_first[rank];)
        emit_all(e, TPP_OP_B, s->stages_at[k]);
}
