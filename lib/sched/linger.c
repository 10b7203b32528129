/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched_walk.h"

/* TPP_OK, or TPP__SCHED_WAITS when a rank waits for a slot among those that wait. */
static tpp_status try(const tpp_schedule *s) {
    tpp__sched_walk w;
    tpp_status status = tpp__sched_walk_begin(&w, s, TPP_CHANNEL_POSTED, 0);
    if (status < 0)
        return status;
    w.quiet = true;
    bool wanted = false;
    if (tpp__sched_walk_run(&w) == TPP__SCHED_WAITS) {
        for (int32_t r = 0; r < s->ranks && !wanted; r++)
            wanted = w.at[r] < s->first[r + 1] && tpp__sched_walk_unreceived(&w, r) >= 0;
    }
    tpp__sched_walk_end(&w);
    return wanted ? TPP__SCHED_WAITS : TPP_OK;
}

/* The most is that no slot is used twice; then none is waited for. */
tpp_status tpp__sched_linger(tpp_schedule *s) {
    tpp_status status;
    while ((status = try(s)) == TPP__SCHED_WAITS) {
        s->linger = 2 * s->linger + 1;
        tpp__sched_slots(s, &status);
        if (status < 0)
            break;
    }
    return status;
}
