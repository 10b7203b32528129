/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SCHED_WAVE_H
#define TPP_SCHED_WAVE_H

#include "sched/generate.h"

/* All F or all B of a rank, under any placement: with n = most stages of a rank, a micro-batch
 * enters every n turns and is a stage further every turn. Nobody waits longer than that, and few
 * micro-batches are on their way at once. */
void tpp__sched_wave(tpp__sched_emitter *e, int32_t rank, int32_t op);

#endif
