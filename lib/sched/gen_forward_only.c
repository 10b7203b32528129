/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/generate.h"

void tpp__sched_forward_only(tpp__sched_emitter *e, const tpp_schedule_desc *d, int32_t rank) {
    for (int32_t i = 0; i < d->micros; i++)
        tpp__sched_emit(e, TPP_OP_F, rank, i);
}
