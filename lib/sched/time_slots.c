/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/time_slots.h"

#include "base/check.h"
#include "sched/deps.h"

/* --- Following the ranks --- */

/* The first slot in which `a` has what it needs; -1 while that is not known. */
static int32_t earliest(const tpp__time_slots *t, const tpp_action *a) {
    const tpp_schedule *s = t->schedule;
    tpp__sched_need needs[2];
    int32_t slot = 0;
    int n = tpp__sched_needs(s->depth, s->stages, a, needs);
    for (int i = 0; i < n; i++) {
        int32_t ended = t->ended[tpp__sched_index(s->stages, s->micros, needs[i])];
        if (ended == 0)
            return -1;
        slot = ended > slot ? ended : slot;
    }
    return slot;
}

static void wake(tpp__time_slots *t, int32_t stage, int32_t other) {
    const tpp_schedule *s = t->schedule;
    if (!tpp__sched_far(s, stage, other) || !t->waits[s->rank_of[other]])
        return;
    t->waits[s->rank_of[other]] = false;
    t->ready[t->ready_count++] = s->rank_of[other];
}

static void note(tpp__time_slots *t, const tpp_action *a, int32_t slot) {
    const tpp_schedule *s = t->schedule;
    tpp__sched_need made[2];
    int n = tpp__sched_makes(a, made);
    for (int i = 0; i < n; i++)
        t->ended[tpp__sched_index(s->stages, s->micros, made[i])] = slot + 1;
    wake(t, a->stage, a->stage - 1);
    wake(t, a->stage, a->stage + 1);
}

/* Place the atom of `count` actions at `a`; false while something that it needs is not known. */
static bool place(tpp__time_slots *t, int32_t rank, const tpp_action *a, int64_t count) {
    int32_t slot = t->free[rank];
    for (int64_t i = 0; i < count; i++) {
        int32_t least = earliest(t, a + i);
        if (least < 0)
            return false;
        slot = least > slot ? least : slot;
    }
    for (int64_t i = 0; i < count; i++) {
        t->slot[t->first[rank] + t->at[rank] + i] = slot;
        note(t, a + i, slot);
    }
    t->free[rank] = slot + 1;
    return true;
}

static void follow(tpp__time_slots *t, int32_t rank) {
    int64_t count;
    const tpp_action *a = tpp_schedule_actions(t->schedule, rank, &count);
    for (int64_t n; t->at[rank] < count; t->at[rank] += n) {
        const tpp_action *next = a + t->at[rank];
        n = next->flags & TPP_ACTION_FUSED && t->at[rank] + 1 < count ? 2 : 1;
        if (!tpp__sched_is_message(next->op) && !place(t, rank, next, n))
            break;
    }
    t->waits[rank] = true;
}

static tpp_status stuck(const tpp__time_slots *t, int32_t rank) {
    const tpp_action *a = tpp_schedule_actions(t->schedule, rank, NULL) + t->at[rank];
    return tpp__fail(TPP_ERR_DEADLOCK,
                     "rank %d: %d%s%d never has what it needs, so it has no time slot; "
                     "tpp_schedule_check tells why",
                     rank, a->stage, tpp_op_name(a->op), a->micro);
}

/* --- Memory: one block --- */

static void lay_out(tpp__time_slots *t, tpp__arena *arena, int64_t actions) {
    const tpp_schedule *s = t->schedule;
    int64_t results = TPP__SCHED_RESULTS * (int64_t)s->stages * s->micros;
    t->first = tpp__arena_take(arena, (int64_t)s->ranks + 1, sizeof *t->first);
    t->slot = tpp__arena_take(arena, actions, sizeof *t->slot);
    t->ended = tpp__arena_take(arena, results, sizeof *t->ended);
    t->at = tpp__arena_take(arena, s->ranks, sizeof *t->at);
    t->free = tpp__arena_take(arena, s->ranks, sizeof *t->free);
    t->ready = tpp__arena_take(arena, s->ranks, sizeof *t->ready);
    t->waits = tpp__arena_take(arena, s->ranks, sizeof *t->waits);
}

static tpp_status reserve(tpp__time_slots *t, int64_t actions) {
    tpp__arena arena = tpp__arena_counting();
    lay_out(t, &arena, actions);
    t->bytes = arena.used;
    void *memory = tpp__alloc(&t->schedule->allocator, t->bytes);
    if (!memory)
        return TPP_ERR_NO_MEMORY;
    arena = tpp__arena_over(memory, t->bytes);
    lay_out(t, &arena, actions);
    return TPP_OK;
}

/* Without this a short text that names a large number would ask for a table of its size. */
static tpp_status check_size(const tpp_schedule *s, int64_t actions) {
    int64_t cells = (int64_t)s->stages * s->micros / s->directions;
    if (actions < cells)
        return tpp__fail(TPP_ERR_SCHEDULE,
                         "the schedule has %lld actions, but %d stages and %d micro-batches need "
                         "at least %lld; some are missing",
                         (long long)actions, s->stages, s->micros, (long long)cells);
    if (actions > INT32_MAX)
        return tpp__fail(TPP_ERR_OVERFLOW,
                         "the schedule has %lld actions; time slots are for at most 2^31 - 1",
                         (long long)actions);
    return TPP_OK;
}

tpp_status tpp__time_slots_begin(tpp__time_slots *t, const tpp_schedule *s) {
    tpp_schedule_info info = {.size = sizeof info};
    *t = (tpp__time_slots){.schedule = s};
    tpp_status status = tpp_schedule_query(s, &info);
    if (status == TPP_OK)
        status = check_size(s, info.actions);
    if (status == TPP_OK)
        status = reserve(t, info.actions);
    if (status < 0)
        return status;
    for (int32_t r = 0; r < s->ranks; r++) {
        int64_t count;
        tpp_schedule_actions(s, r, &count);
        t->first[r + 1] = t->first[r] + count;
        t->ready[t->ready_count++] = r;
    }
    while (t->ready_count > 0)
        follow(t, t->ready[--t->ready_count]);
    for (int32_t r = 0; r < s->ranks && status == TPP_OK; r++)
        status = t->at[r] < t->first[r + 1] - t->first[r] ? stuck(t, r) : TPP_OK;
    if (status < 0)
        tpp__time_slots_end(t);
    return status;
}

void tpp__time_slots_end(tpp__time_slots *t) {
    if (t->bytes > 0)
        tpp__free(&t->schedule->allocator, t->first, t->bytes);
}
