/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "sched/sched_walk.h"

#include <stdio.h>
#include <tpp/deadlock.h>

_Static_assert(sizeof(tpp_wait) == 40, "tpp_wait is frozen");

/* --- The cycle as data --- */

/* Every rank that has not ended waits for one that has not, so from any of them a cycle is reached in
 * at most as many steps as there are ranks. Its lowest rank is returned; -1: all have ended. */
static int32_t find_cycle(const tpp__sched_walk *w) {
    int32_t rank = -1;
    for (int32_t r = 0; r < w->s->ranks && rank < 0; r++)
        rank = w->at[r] < w->s->first[r + 1] ? r : -1;
    for (int32_t i = 0; i < w->s->ranks && rank >= 0; i++)
        rank = w->waits_for[rank];
    int32_t first = rank;
    for (int32_t r = rank < 0 ? -1 : w->waits_for[rank]; r != rank; r = w->waits_for[r])
        first = r < first ? r : first;
    return first;
}

/* The other side of a message has this operation. */
static int32_t answer_to(int32_t op) {
    static const uint8_t answers[] = {TPP_OP_RECV_F, TPP_OP_SEND_F, TPP_OP_RECV_B, TPP_OP_SEND_B};
    return answers[op - TPP_OP_SEND_F];
}

static tpp_wait describe(const tpp__sched_walk *w, int32_t rank) {
    const tpp_schedule *s = w->s;
    const tpp_action *a = s->actions + w->at[rank];
    tpp_wait out = {.rank = rank,
                    .peer = w->waits_for[rank],
                    .at = w->at[rank] - s->first[rank],
                    .until_stage = -1,
                    .until_micro = -1};
    if (!tpp__sched_is_message(a->op)) {
        int32_t cell = tpp__sched_walk_unreceived(w, rank), stage = cell / s->micros;
        out.reason = TPP_WAIT_SLOT;
        out.until_op = a->op == TPP_OP_F ? TPP_OP_RECV_F : TPP_OP_RECV_B;
        out.until_stage = a->op == TPP_OP_F ? stage + 1 : stage - 1;
        out.until_micro = cell % s->micros;
        return out;
    }
    bool sends = a->op == TPP_OP_SEND_F || a->op == TPP_OP_SEND_B;
    out.reason = !sends ? TPP_WAIT_MESSAGE : w->capacity > 0 ? TPP_WAIT_CHANNEL : TPP_WAIT_RECEIVER;
    if (out.reason == TPP_WAIT_CHANNEL)
        return out;
    out.until_op = answer_to(a->op);
    out.until_stage = tpp__sched_other(a->op, a->stage);
    out.until_micro = a->micro;
    return out;
}

tpp_status tpp_schedule_wait_cycle(const tpp_schedule *schedule, tpp_channel channel,
                                   int32_t capacity, tpp_wait *out, int32_t room, int32_t *count) {
    tpp__sched_walk w;
    if (!count || room < 0 || (room > 0 && !out))
        return tpp__fail(TPP_ERR_INVALID,
                         "count is %s, room = %d, out is %s; valid: a place, and "
                         "room for waits or 0",
                         count ? "there" : "NULL", room, out ? "there" : "NULL");
    *count = 0;
    tpp_status status = tpp__sched_check_ready(schedule, channel, capacity);
    if (status == TPP_OK)
        status = tpp__sched_walk_begin(&w, schedule, channel, capacity);
    if (status < 0)
        return status;
    status = tpp__sched_walk_run(&w);
    if (status == TPP__SCHED_WAITS) {
        int32_t first = find_cycle(&w), r = first;
        do {
            if (*count < room)
                out[*count] = describe(&w, r);
            ++*count;
            r = w.waits_for[r];
        } while (r != first);
        status = TPP_OK;
    }
    tpp__sched_walk_end(&w);
    return status;
}

/* --- The cycle in words --- */

/* Where a rank stands and for whom it waits; returns the length. */
static int in_words(const tpp__sched_walk *w, int32_t rank, char *out, size_t bytes) {
    const tpp_action *a = w->s->actions + w->at[rank];
    tpp_wait wait = describe(w, rank);
    int n = snprintf(out, bytes, "rank %d waits at %d%s%d for rank %d", rank, a->stage,
                     tpp_op_name(a->op), a->micro, wait.peer);
    out += n;
    bytes -= (size_t)n;
    if (wait.reason == TPP_WAIT_SLOT)
        n += snprintf(out, bytes, " to receive %d%s%d",
                      a->op == TPP_OP_F ? wait.until_stage - 1 : wait.until_stage + 1,
                      a->op == TPP_OP_F ? "SEND_F" : "SEND_B", wait.until_micro);
    if (wait.reason == TPP_WAIT_CHANNEL)
        n += snprintf(out, bytes, " to empty the channel");
    return n;
}

static tpp_status explain(const tpp__sched_walk *w) {
    int32_t first = find_cycle(w), r = first;
    char text[400];
    int used = 0, more = 0;
    do {
        if (used < 280) {
            used += snprintf(text + used, sizeof text - (size_t)used, "%s", used ? ", " : "");
            used += in_words(w, r, text + used, sizeof text - (size_t)used);
        } else {
            more++;
        }
        r = w->waits_for[r];
    } while (r != first);
    if (more > 0)
        return tpp__fail(TPP_ERR_DEADLOCK, "%s, and so on over %d more ranks", text, more);
    return tpp__fail(TPP_ERR_DEADLOCK, "%s", text);
}

tpp_status tpp__sched_prove(const tpp_schedule *s, tpp_channel channel, int32_t capacity) {
    tpp__sched_walk w;
    tpp_status status = tpp__sched_walk_begin(&w, s, channel, capacity);
    if (status < 0)
        return status;
    status = tpp__sched_walk_run(&w);
    if (status == TPP__SCHED_WAITS)
        status = explain(&w);
    tpp__sched_walk_end(&w);
    return status;
}
