/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/generate.h"

/* A rank that is s ranks before the last runs 2 s forwards ahead of it, not s. Then an output has a
 * whole turn of F and B to reach the next rank, and a gradient to reach the one before. */
void tpp__sched_eager_1f1b(tpp__sched_emitter *e, const tpp_schedule_desc *d, int32_t rank) {
    tpp__sched_in_turn(e, d, rank, 2);
}
