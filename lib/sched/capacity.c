/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched_walk.h"

#include "base/check.h"

tpp_status tpp__sched_check_ready(const tpp_schedule *s, tpp_channel channel, int32_t capacity) {
    if (!s)
        return tpp__fail(TPP_ERR_INVALID, "schedule is NULL; it must not be");
    if (channel < TPP_CHANNEL_POSTED || channel > TPP_CHANNEL_TAGGED)
        return tpp__fail(TPP_ERR_INVALID,
                         "channel = %d; valid: 0 (POSTED), 1 (RENDEZVOUS), 2 (FIFO_PAIR), 3 "
                         "(FIFO_KIND), 4 (TAGGED)",
                         channel);
    if (capacity < 0 || (capacity > 0 && channel <= TPP_CHANNEL_RENDEZVOUS))
        return tpp__fail(TPP_ERR_INVALID, "capacity = %d; it must be %s", capacity,
                         capacity < 0 ? ">= 0" : "0 with channel 0 (POSTED) or 1 (RENDEZVOUS)");
    if (s->state < TPP__SCHED_LOWERED)
        return tpp__fail(TPP_ERR_INVALID, "schedule is not lowered; call tpp_schedule_lower first");
    return tpp__sched_complete(s);
}

tpp_status tpp_schedule_check_channel(const tpp_schedule *schedule, tpp_channel channel,
                                      int32_t capacity) {
    tpp_status status = tpp__sched_check_ready(schedule, channel, capacity);
    if (status == TPP_OK && tpp__sched_is_fifo(channel))
        status = tpp__sched_fifo_order(schedule, channel);
    return status < 0 ? status : tpp__sched_prove(schedule, channel, capacity);
}

tpp_status tpp_schedule_check(const tpp_schedule *schedule, tpp_channel channel) {
    if (channel != TPP_CHANNEL_POSTED && channel != TPP_CHANNEL_RENDEZVOUS)
        return tpp__fail(TPP_ERR_INVALID,
                         "channel = %d; valid: 0 (POSTED), 1 (RENDEZVOUS); others take a capacity: "
                         "tpp_schedule_check_channel",
                         channel);
    return tpp_schedule_check_channel(schedule, channel, 0);
}

/* More messages than that are never in a channel. */
static int32_t most_of(const tpp_schedule *s) {
    return s->messages < INT32_MAX ? (int32_t)s->messages : INT32_MAX;
}

/* Whether more buffer is of use falls with the capacity, so bisection finds the smallest. */
static tpp_status find_smallest(const tpp_schedule *s, tpp_channel channel, int32_t *out) {
    int32_t low = -1, high = 0; /* low does not suffice */
    tpp_status status;
    while ((status = tpp__sched_prove(s, channel, high)) == TPP_ERR_DEADLOCK) {
        if (high >= most_of(s)) {
            *out = -1;
            return TPP_OK;
        }
        low = high;
        high = high == 0 ? 1 : high > most_of(s) / 2 ? most_of(s) : 2 * high;
    }
    while (status == TPP_OK && high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        tpp_status at = tpp__sched_prove(s, channel, middle);
        if (at != TPP_OK && at != TPP_ERR_DEADLOCK)
            return at;
        if (at == TPP_OK)
            high = middle;
        else
            low = middle;
    }
    *out = high;
    return status;
}

tpp_status tpp_schedule_capacity(const tpp_schedule *schedule, tpp_channel channel, int32_t *out) {
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must not be");
    if (channel == TPP_CHANNEL_POSTED || channel == TPP_CHANNEL_RENDEZVOUS)
        return tpp__fail(TPP_ERR_INVALID,
                         "channel = %d has no capacity; valid: 2 (FIFO_PAIR), 3 (FIFO_KIND), 4 "
                         "(TAGGED)",
                         channel);
    tpp_status status = tpp__sched_check_ready(schedule, channel, 0);
    if (status < 0)
        return status;
    status = tpp__sched_is_fifo(channel) ? tpp__sched_fifo_order(schedule, channel) : TPP_OK;
    if (status == TPP_ERR_SCHEDULE) {
        *out = -1;
        return TPP_OK;
    }
    return status < 0 ? status : find_smallest(schedule, channel, out);
}

tpp_status tpp_schedule_peaks_until(const tpp_schedule *schedule, tpp_op op, int32_t *out) {
    if (!schedule || !out)
        return tpp__fail(TPP_ERR_INVALID, "%s is NULL; it must not be",
                         schedule ? "out" : "schedule");
    if (op != TPP_OP_I && op != TPP_OP_W)
        return tpp__fail(TPP_ERR_INVALID, "op = %d; valid: 3 (I), 4 (W)", op);
    for (int32_t r = 0; r < schedule->ranks; r++) {
        int32_t held = 0;
        int64_t count;
        const tpp_action *a = tpp_schedule_actions(schedule, r, &count);
        out[r] = 0;
        for (int64_t i = 0; i < count; i++) {
            int32_t is = a[i].op;
            held += is == TPP_OP_F;
            out[r] = held > out[r] ? held : out[r];
            held -= is == TPP_OP_B || is == op || (schedule->forward_only && is == TPP_OP_F);
        }
    }
    return TPP_OK;
}
