/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/sched_faults.h"

#include <stdlib.h>

void sched_plan_of(sched_plan *out, const tpp_schedule *schedule) {
    tpp_schedule_info info = {.size = sizeof info};
    *out = (sched_plan){0};
    if (tpp_schedule_query(schedule, &info) < 0 || info.ranks > SCHED_PLAN_RANKS ||
        info.stages > SCHED_PLAN_STAGES)
        abort();
    out->ranks = info.ranks, out->stages = info.stages;
    out->micros = info.micros, out->depth = info.depth;
    out->messages = info.messages > 0;
    int32_t chunks[SCHED_PLAN_RANKS] = {0};
    for (int32_t i = 0; i < info.stages; i++) {
        out->rank_of[i] = tpp_schedule_rank_of(schedule, i);
        out->chunk_of[i] = chunks[out->rank_of[i]]++;
    }
    for (int32_t r = 0; r < info.ranks; r++) {
        int64_t count;
        const tpp_action *a = tpp_schedule_actions(schedule, r, &count);
        if (count + 1 > SCHED_PLAN_ACTIONS)
            abort();
        out->count[r] = (int32_t)count;
        for (int64_t i = 0; i < count; i++)
            out->of[r][i] = a[i];
    }
}

static bool compute(int op) {
    return op == TPP_OP_F || op == TPP_OP_B || op == TPP_OP_I || op == TPP_OP_W;
}

static bool message(int op) {
    return op == TPP_OP_SEND_F || op == TPP_OP_RECV_F || op == TPP_OP_SEND_B || op == TPP_OP_RECV_B;
}

/* The stage that a message goes to or comes from, on another rank; -1: there is no message. */
static int32_t far_end(const sched_plan *p, int op, int32_t stage) {
    bool up = op == TPP_OP_SEND_F || op == TPP_OP_RECV_B;
    int32_t other = up ? stage + 1 : stage - 1;
    bool end =
        up ? stage == p->depth - 1 || stage == p->stages - 1 : stage == 0 || stage == p->depth;
    return end || p->rank_of[stage] == p->rank_of[other] ? -1 : other;
}

static bool exists(const sched_plan *p, const tpp_action *a) {
    if (a->stage < 0 || a->stage >= p->stages || a->micro < 0 || a->micro >= p->micros)
        return false;
    bool second_half =
        2 * a->micro >= p->micros; /* the middle one of an odd number is in the first */
    if (p->depth < p->stages && 2 * a->micro + 1 == p->micros)
        second_half = false;
    return p->depth == p->stages || (a->stage >= p->depth) == second_half;
}

static int times(const sched_plan *p, int op, int32_t stage, int32_t micro) {
    int n = 0;
    for (int32_t r = 0; r < p->ranks; r++) {
        for (int32_t i = 0; i < p->count[r]; i++) {
            const tpp_action *a = &p->of[r][i];
            n += a->op == op && a->stage == stage && a->micro == micro;
        }
    }
    return n;
}

static bool any_backward(const sched_plan *p) {
    for (int32_t r = 0; r < p->ranks; r++) {
        for (int32_t i = 0; i < p->count[r]; i++) {
            int op = p->of[r][i].op;
            if (op == TPP_OP_B || op == TPP_OP_I || op == TPP_OP_W)
                return true;
        }
    }
    return false;
}

static uint32_t field_faults(const sched_plan *p, const tpp_action *a) {
    if (!message(a->op))
        return a->chunk != p->chunk_of[a->stage] || a->peer != -1 || a->tag != 0 ? SCHED_WRONG_FIELD
                                                                                 : 0;
    int32_t other = far_end(p, a->op, a->stage);
    if (other < 0)
        return SCHED_FOREIGN | SCHED_WRONG_FIELD;
    bool sends = a->op == TPP_OP_SEND_F || a->op == TPP_OP_SEND_B;
    bool backward = a->op == TPP_OP_SEND_B || a->op == TPP_OP_RECV_B;
    uint32_t tag = (uint32_t)(2 * ((sends ? a->stage : other) * p->micros + a->micro) + backward);
    return a->chunk != p->chunk_of[a->stage] || a->peer != p->rank_of[other] || a->tag != tag
               ? SCHED_WRONG_FIELD
               : 0;
}

static uint32_t action_faults(const sched_plan *p, int32_t rank, int32_t i) {
    const tpp_action *a = &p->of[rank][i], *next = i + 1 < p->count[rank] ? a + 1 : NULL;
    uint32_t faults = 0;
    if (!compute(a->op) && !message(a->op))
        return SCHED_FOREIGN;
    if (a->flags > 1 || (a->flags == 1 && (a->op != TPP_OP_F || !next || next->op != TPP_OP_B ||
                                           (next->stage == a->stage && next->micro == a->micro))))
        faults |= SCHED_BAD_PAIR;
    if (a->stage >= 0 && a->stage < p->stages && p->rank_of[a->stage] != rank)
        faults |= SCHED_MISPLACED;
    if (!exists(p, a))
        return faults | SCHED_FOREIGN;
    if (times(p, a->op, a->stage, a->micro) > 1)
        faults |= SCHED_DOUBLED;
    if (message(a->op) && !p->messages)
        faults |= SCHED_FOREIGN;
    return faults | field_faults(p, a);
}

static uint32_t cell_faults(const sched_plan *p, int32_t stage, int32_t micro, bool backward) {
    uint32_t faults = 0;
    int b = times(p, TPP_OP_B, stage, micro), i = times(p, TPP_OP_I, stage, micro);
    int w = times(p, TPP_OP_W, stage, micro);
    if (times(p, TPP_OP_F, stage, micro) == 0)
        faults |= SCHED_MISSING;
    if (backward && b == 0 && (i == 0 || w == 0))
        faults |= SCHED_MISSING;
    if (b > 0 && i + w > 0)
        faults |= SCHED_FOREIGN;
    for (int op = TPP_OP_SEND_F; op <= TPP_OP_RECV_B && p->messages; op++) {
        bool wanted = far_end(p, op, stage) >= 0 && (backward || op <= TPP_OP_RECV_F);
        bool there = times(p, op, stage, micro) > 0;
        faults |= wanted && !there ? SCHED_MISSING : 0;
        faults |= !wanted && there ? SCHED_FOREIGN : 0;
    }
    return faults;
}

uint32_t sched_faults(const sched_plan *p) {
    uint32_t faults = 0;
    bool backward = any_backward(p);
    for (int32_t r = 0; r < p->ranks; r++) {
        for (int32_t i = 0; i < p->count[r]; i++)
            faults |= action_faults(p, r, i);
    }
    for (int32_t stage = 0; stage < p->stages; stage++) {
        for (int32_t micro = 0; micro < p->micros; micro++) {
            tpp_action cell = {.stage = stage, .micro = micro};
            if (exists(p, &cell))
                faults |= cell_faults(p, stage, micro, backward);
        }
    }
    return faults;
}

/* --- Order on a rank --- */

static bool before(const sched_plan *p, int32_t rank, int32_t i, int op, int32_t stage,
                   int32_t micro) {
    for (int32_t k = 0; k < i; k++) {
        const tpp_action *a = &p->of[rank][k];
        bool same = a->op == op || (op == TPP_OP_I && a->op == TPP_OP_B);
        if (same && a->stage == stage && a->micro == micro)
            return true;
    }
    return false;
}

/* What comes from a neighbouring stage stands before: on another rank its receive, else itself. */
static bool comes(const sched_plan *p, int32_t rank, int32_t i, bool forward) {
    const tpp_action *a = &p->of[rank][i];
    int32_t s = a->stage, other = forward ? s - 1 : s + 1;
    if (forward ? s == 0 || s == p->depth : s == p->depth - 1 || s == p->stages - 1)
        return true;
    int receive = forward ? TPP_OP_RECV_F : TPP_OP_RECV_B;
    if (p->rank_of[other] != rank)
        return !p->messages || before(p, rank, i, receive, s, a->micro);
    return before(p, rank, i, forward ? TPP_OP_F : TPP_OP_I, other, a->micro);
}

static bool ready(const sched_plan *p, int32_t rank, int32_t i) {
    const tpp_action *a = &p->of[rank][i];
    bool f = before(p, rank, i, TPP_OP_F, a->stage, a->micro);
    switch (a->op) {
    case TPP_OP_F:
        return comes(p, rank, i, true);
    case TPP_OP_B:
    case TPP_OP_I:
        return f && comes(p, rank, i, false);
    case TPP_OP_SEND_F:
    case TPP_OP_RECV_B:
        return f;
    case TPP_OP_RECV_F:
        return true;
    default: /* W, SEND_B */
        return before(p, rank, i, TPP_OP_I, a->stage, a->micro);
    }
}

uint32_t sched_early(const sched_plan *p) {
    for (int32_t r = 0; r < p->ranks; r++) {
        for (int32_t i = 0; i < p->count[r]; i++) {
            if (!ready(p, r, i))
                return SCHED_EARLY;
        }
    }
    return 0;
}

/* A result that goes to another rank lies in its slot until it is sent. */
uint32_t sched_overwrites(const sched_plan *p) {
    bool forward = !any_backward(p);
    for (int32_t r = 0; r < p->ranks; r++) {
        const tpp_action *a = p->of[r];
        for (int32_t i = 0; i < p->count[r]; i++) {
            for (int32_t k = 0; k < i; k++) {
                bool writes = forward ? a[i].op == TPP_OP_F && a[k].op == TPP_OP_F
                                      : (a[i].op == TPP_OP_B || a[i].op == TPP_OP_I) &&
                                            (a[k].op == TPP_OP_B || a[k].op == TPP_OP_I);
                int send = forward ? TPP_OP_SEND_F : TPP_OP_SEND_B;
                if (writes && a[i].slot == a[k].slot && far_end(p, send, a[k].stage) >= 0 &&
                    !before(p, r, i, send, a[k].stage, a[k].micro))
                    return SCHED_OVERWRITE;
            }
        }
    }
    return 0;
}
