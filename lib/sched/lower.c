/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched_impl.h"

#include "base/check.h"
#include "sched/build.h"

/* The messages around a compute action, 0 for none. */
typedef struct around {
    int32_t before;
    int32_t after;
} around;

static around messages_of(const tpp_schedule *s, const tpp_action *a) {
    bool down = tpp__sched_far(s, a->stage, a->stage - 1);
    bool up = tpp__sched_far(s, a->stage, a->stage + 1);
    switch (a->op) {
    case TPP_OP_F:
        return (around){down ? TPP_OP_RECV_F : 0, up ? TPP_OP_SEND_F : 0};
    case TPP_OP_B:
    case TPP_OP_I:
        return (around){up ? TPP_OP_RECV_B : 0, down ? TPP_OP_SEND_B : 0};
    default:
        return (around){0, 0};
    }
}

/* Messages of a step: every boundary between ranks, each micro-batch, forwards and backwards. */
static int64_t count_messages(const tpp_schedule *s) {
    int64_t count = 0;
    for (int32_t i = 0; i < s->stages; i++) {
        int32_t d = tpp__sched_direction(s, i);
        if (tpp__sched_far(s, i, i + 1))
            count += tpp__sched_micro_first(s, d + 1) - tpp__sched_micro_first(s, d);
    }
    return s->forward_only ? count : 2 * count;
}

static tpp_action *put(const tpp_schedule *s, tpp_action *to, const tpp_action *near, int32_t op) {
    *to = *near;
    to->op = (uint8_t)op;
    to->flags = 0;
    tpp__sched_address(s, to);
    return to + 1;
}

/* The atom that begins at `a`, one action or a fused pair: all it receives, itself, all it sends. */
static tpp_action *put_atom(const tpp_schedule *s, tpp_action *to, const tpp_action *a, int count) {
    for (int i = 0; i < count; i++) {
        around m = messages_of(s, a + i);
        if (m.before)
            to = put(s, to, a + i, m.before);
    }
    for (int i = 0; i < count; i++)
        *to++ = a[i];
    for (int i = 0; i < count; i++) {
        around m = messages_of(s, a + i);
        if (m.after)
            to = put(s, to, a + i, m.after);
    }
    return to;
}

static void add_messages(tpp_schedule *s, const tpp_action *from) {
    tpp_action *to = s->actions;
    const tpp_action *a = from;
    for (int32_t r = 0; r < s->ranks; r++) {
        const tpp_action *end = from + s->first[r + 1];
        for (int count; a < end; a += count) {
            count = a->flags & TPP_ACTION_FUSED ? 2 : 1;
            to = put_atom(s, to, a, count);
        }
        s->first[r + 1] = to - s->actions;
    }
}

static tpp_status give_slots(tpp_schedule *s) {
    tpp_status status;
    const tpp_action *bad = tpp__sched_slots(s, &status);
    if (!bad)
        return status;
    return tpp__fail(TPP_ERR_SCHEDULE, "rank %d: %d%s%d stands before %dF%d",
                     s->rank_of[bad->stage], bad->stage, tpp_op_name(bad->op), bad->micro,
                     bad->stage, bad->micro);
}

static tpp_status add_all(tpp_schedule *s) {
    tpp_action *old = s->actions;
    int64_t old_room = s->room, messages = count_messages(s);
    tpp_status status = give_slots(s);
    if (status == TPP_OK)
        status = tpp__sched_reserve(s, s->first[s->ranks] + 2 * messages);
    if (status < 0)
        return status;
    add_messages(s, old);
    tpp__free(&s->allocator, old, old_room * (int64_t)sizeof *old);
    s->messages = messages;
    return s->forward_only ? tpp__sched_linger(s) : tpp__sched_receive_early(s);
}

/* A schedule that could not be lowered is as it was. */
static void forget(tpp_schedule *s) {
    tpp_action *to = s->actions;
    const tpp_action *a = s->actions;
    for (int32_t r = 0; r < s->ranks; r++) {
        for (const tpp_action *end = s->actions + s->first[r + 1]; a < end; a++) {
            if (tpp__sched_is_message(a->op))
                continue;
            *to = *a;
            to++->slot = -1;
        }
        s->first[r + 1] = to - s->actions;
    }
    s->slots = 0;
    s->linger = 0;
    s->messages = 0;
}

static tpp_status lower(tpp_schedule *s) {
    tpp_status status = tpp__sched_complete(s);
    if (status < 0)
        return status;
    status = add_all(s);
    if (status == TPP_OK)
        s->state = TPP__SCHED_LOWERED;
    else
        forget(s);
    return status;
}

tpp_status tpp_schedule_lower(tpp_schedule *schedule) {
    if (!schedule)
        return tpp__fail(TPP_ERR_INVALID, "schedule is NULL; it must not be");
    if (schedule->state != TPP__SCHED_ORDERED)
        return tpp__fail(TPP_ERR_INVALID, "schedule is %s already; only a new one can be lowered",
                         schedule->state == TPP__SCHED_FINISHED ? "finished" : "lowered");
    tpp_status status = tpp__sched_flatten(schedule);
    if (status < 0)
        return status;
    tpp__sched_traits(schedule);
    status = lower(schedule);
    if (status < 0)
        tpp__sched_unflatten(schedule);
    else
        tpp__sched_rows_free(schedule);
    return status;
}
