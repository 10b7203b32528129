/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/generate.h"
#include "sched/v_pattern.h"

/* One unit a stage, all the way. With a multiple of 3 ranks the backward starts two later, or it
 * would meet the forwards. */
static tpp__sched_block block(int32_t p, int32_t r) {
    int32_t later = p % 3 == 0 ? 2 : 0;
    return (tpp__sched_block){.forward = {r, 2 * p - 1 - r},
                              .backward = {4 * p + later - 1 - r, 2 * p + later + r}};
}

tpp_status tpp__sched_v_min(tpp_schedule *s, const tpp_schedule_desc *d) {
    const tpp__sched_pattern pattern = {block, .most = 2 * ((d->ranks + 4) / 3)};
    return tpp__sched_from_pattern(s, &pattern);
}
