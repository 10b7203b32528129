/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/generate.h"
#include "sched/v_pattern.h"

/* Two units a stage towards the last rank, one back. With an even number of ranks the backward
 * starts three later, or it would meet the forwards. */
static tpp__sched_block block(int32_t p, int32_t r) {
    int32_t later = p % 2 == 0 ? 3 : 0;
    return (tpp__sched_block){.forward = {2 * r, 3 * p - 1 - r},
                              .backward = {6 * p + later - 2 - r, 3 * p + later + 2 * r}};
}

tpp_status tpp__sched_v_half(tpp_schedule *s, const tpp_schedule_desc *d) {
    /* The steady state has room for other costs than equal ones, as it is. */
    const tpp__sched_pattern pattern = {block, .steady = true, .most = 2 * ((d->ranks + 2) / 2)};
    return tpp__sched_from_pattern(s, &pattern);
}
