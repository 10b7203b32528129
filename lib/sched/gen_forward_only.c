/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched_groups.h"
#include "sched/sched_wave.h"

/* Looped chunks are passed in groups, as interleaved 1F1B does: no wave comes as early round the
 * ranks. */
void tpp__sched_forward_only(tpp__sched_emitter *e, const tpp_schedule_desc *d, int32_t rank) {
    if (d->placement == TPP_PLACEMENT_OWN) {
        tpp__sched_wave(e, rank, TPP_OP_F);
        return;
    }
    tpp__sched_groups q = tpp__sched_groups_of(d);
    int64_t n = (int64_t)d->micros * d->chunks;
    for (int64_t k = 0; k < n; k++)
        tpp__sched_emit_turn(e, d, &q, rank, TPP_OP_F, k);
}
