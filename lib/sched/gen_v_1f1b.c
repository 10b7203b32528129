/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/generate.h"
#include "sched/v_pattern.h"

/* The backward is two units a stage, and waits three more after every third one: then it passes
 * between the forwards, which are one unit a stage, on every rank. `q`: stages it has passed. */
static int32_t backward(int32_t p, int32_t q) {
    int32_t later = p % 3 == 0 ? 3 : 0, phase = (2 * p + 1) % 3;
    return 2 * p + later + 2 * q + 3 * ((q + phase) / 3);
}

static tpp__sched_block block(int32_t p, int32_t r) {
    return (tpp__sched_block){.forward = {r, 2 * p - 1 - r},
                              .backward = {backward(p, 2 * p - 1 - r), backward(p, r)}};
}

tpp_status tpp__sched_v_1f1b(tpp_schedule *s, const tpp_schedule_desc *d) {
    const tpp__sched_pattern pattern = {block, .whole = true, .most = 2 * ((2 * d->ranks + 3) / 3)};
    return tpp__sched_from_pattern(s, &pattern);
}
