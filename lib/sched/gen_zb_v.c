/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/two_chunks.h"

/* PyTorch's order. With fewer than 2p - 1 micro-batches it is the order for that many, without those
 * that there are not. */
void tpp__sched_zb_v(tpp__sched_emitter *e, const tpp_schedule_desc *d, int32_t rank) {
    int32_t p = d->ranks, down = rank, up = p - rank;
    int32_t n = d->micros > 2 * p - 1 ? d->micros : 2 * p - 1;
    tpp__sched_two_chunks c = tpp__sched_v_chunks(e, d, rank);
    tpp__sched_phase(&c, 2 * up - 1, "F0");
    tpp__sched_phase(&c, down, "F1F0");
    tpp__sched_phase(&c, up, "F1I1W1");
    tpp__sched_phase(&c, n - 2 * p + 1 + down, "F0I0W0F1I1W1");
    tpp__sched_phase(&c, up - 1, "I0W0F1I1W1");
    tpp__sched_phase(&c, down, "I0I1");
    tpp__sched_phase(&c, up, "I0W0");
    tpp__sched_phase(&c, down, "W1");
    tpp__sched_phase(&c, down, "W0");
}
