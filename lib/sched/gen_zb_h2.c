/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/generate.h"

/* Twice as far ahead as H1, so that the first I finds no rank idle, and W twice as far behind. */
void tpp__sched_zb_h2(tpp__sched_emitter *e, const tpp_schedule_desc *d, int32_t rank) {
    tpp__sched_zb_h(e, d, rank, 2);
}
