/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched_wave.h"

void tpp__sched_gpipe(tpp__sched_emitter *e, const tpp_schedule_desc *d, int32_t rank) {
    (void)d;
    tpp__sched_wave(e, rank, TPP_OP_F);
    tpp__sched_wave(e, rank, TPP_OP_B);
}
