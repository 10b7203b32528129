/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/two_chunks.h"

/* DualPipe of 2p ranks, of which p are left: the way up is what was the other direction. */
void tpp__sched_dualpipev(tpp__sched_emitter *e, const tpp_schedule_desc *d, int32_t rank) {
    int32_t p = d->ranks;
    int32_t spare = d->micros > 2 * p ? d->micros - 2 * p : 0;
    tpp__sched_two_chunks c = tpp__sched_v_chunks(e, d, rank);
    tpp__sched_dual(&c, rank, p - 1 - rank, spare);
}
