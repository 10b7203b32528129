/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched_impl.h"

#include "base/check.h"
#include "sched/build.h"

#include <string.h>

_Static_assert(sizeof(tpp_action) == 24, "tpp_action is frozen");

/* --- The container --- */

/* One block: the struct, then its arrays. Called twice, first to count. */
static void lay_out(tpp_schedule *s, tpp__arena *arena) {
    int64_t stages = s->stages, ranks = s->ranks;
    tpp__arena_take(arena, 1, sizeof *s);
    s->rank_of = tpp__arena_take(arena, stages, sizeof *s->rank_of);
    s->chunk_of = tpp__arena_take(arena, stages, sizeof *s->chunk_of);
    s->stages_at = tpp__arena_take(arena, stages, sizeof *s->stages_at);
    s->stage_first = tpp__arena_take(arena, ranks + 1, sizeof *s->stage_first);
    s->rank_slots = tpp__arena_take(arena, ranks, sizeof *s->rank_slots);
    s->rank_peak = tpp__arena_take(arena, ranks, sizeof *s->rank_peak);
    s->first = tpp__arena_take(arena, ranks + 1, sizeof *s->first);
}

tpp_status tpp__sched_new(tpp_schedule **out, const tpp_allocator *allocator, int32_t ranks,
                          int32_t stages, int32_t micros) {
    if ((int64_t)stages * micros > INT32_MAX)
        return tpp__fail(TPP_ERR_OVERFLOW,
                         "%d stages of %d micro-batches have more message tags than 32 bits hold; "
                         "stages * micros must be below 2^31",
                         stages, micros);
    tpp_schedule s = {.allocator = *allocator, .ranks = ranks, .stages = stages, .micros = micros};
    s.directions = 1;
    s.depth = stages;
    tpp__arena count = tpp__arena_counting();
    lay_out(&s, &count);
    s.bytes = count.used;
    void *memory = tpp__alloc(allocator, s.bytes);
    if (!memory)
        return TPP_ERR_NO_MEMORY;
    tpp__arena arena = tpp__arena_over(memory, s.bytes);
    lay_out(&s, &arena);
    memcpy(memory, &s, sizeof s);
    *out = memory;
    return TPP_OK;
}

tpp_status tpp__sched_place(tpp_schedule *s) {
    for (int32_t i = 0; i < s->stages; i++)
        s->chunk_of[i] = s->stage_first[s->rank_of[i] + 1]++;
    for (int32_t r = 0; r < s->ranks; r++) {
        int32_t chunks = s->stage_first[r + 1];
        /* F, I and W; a forward and a backward have at most two messages each. */
        if (chunks > TPP__SCHED_MAX_CHUNKS || 7 * (int64_t)chunks * s->micros > INT32_MAX)
            return tpp__fail(TPP_ERR_OVERFLOW,
                             "rank %d has %d stages of %d micro-batches; a rank holds at most %d "
                             "stages and 2^31 - 1 actions",
                             r, chunks, s->micros, TPP__SCHED_MAX_CHUNKS);
        s->chunks = chunks > s->chunks ? chunks : s->chunks;
        s->stage_first[r + 1] += s->stage_first[r];
    }
    for (int32_t i = 0; i < s->stages; i++)
        s->stages_at[s->stage_first[s->rank_of[i]] + s->chunk_of[i]] = i;
    return TPP_OK;
}

tpp_status tpp__sched_reserve(tpp_schedule *s, int64_t count) {
    tpp_action *actions = tpp__alloc(&s->allocator, count * (int64_t)sizeof *actions);
    if (!actions)
        return TPP_ERR_NO_MEMORY;
    s->actions = actions;
    s->room = count;
    return TPP_OK;
}

void tpp_schedule_destroy(tpp_schedule *schedule) {
    if (!schedule)
        return;
    tpp_allocator allocator = schedule->allocator;
    tpp__sched_rows_free(schedule);
    tpp__free(&allocator, schedule->actions, schedule->room * (int64_t)sizeof *schedule->actions);
    tpp__free(&allocator, schedule, schedule->bytes);
}

/* --- Facts --- */

void tpp__sched_traits(tpp_schedule *s) {
    uint32_t ops = 0, flags = 0;
    for (int64_t i = 0; i < s->first[s->ranks]; i++) {
        ops |= 1u << (s->actions[i].op & 31);
        flags |= s->actions[i].flags;
    }
    s->halves = ops & (1u << TPP_OP_I | 1u << TPP_OP_W);
    s->forward_only = !s->halves && !(ops & 1u << TPP_OP_B);
    s->fused = flags & TPP_ACTION_FUSED;
}

static tpp_status refuse_null(const char *name) {
    return tpp__fail(TPP_ERR_INVALID, "%s is NULL; it must not be", name);
}

tpp_status tpp_schedule_query(const tpp_schedule *schedule, tpp_schedule_info *out) {
    if (!schedule)
        return refuse_null("schedule");
    tpp_schedule_info info = {
        .ranks = schedule->ranks,
        .chunks = schedule->chunks,
        .stages = schedule->stages,
        .micros = schedule->micros,
        .slots = schedule->slots,
        .finished = schedule->state == TPP__SCHED_FINISHED,
        .actions =
            schedule->rows ? tpp__sched_rows_count(schedule) : schedule->first[schedule->ranks],
        .messages = schedule->messages,
        .directions = schedule->directions,
        .depth = schedule->depth,
        .forward_only = schedule->forward_only,
        .halves = schedule->halves,
        .fused = schedule->fused,
    };
    return tpp__sized_write(out, &info, sizeof info, "out");
}

const tpp_action *tpp_schedule_actions(const tpp_schedule *schedule, int32_t rank, int64_t *count) {
    bool known = schedule && rank >= 0 && rank < schedule->ranks;
    if (known && schedule->rows) {
        if (count)
            *count = schedule->rows[rank].count;
        return schedule->rows[rank].actions;
    }
    if (count)
        *count = known ? schedule->first[rank + 1] - schedule->first[rank] : 0;
    return known ? schedule->actions + schedule->first[rank] : NULL;
}

int32_t tpp_schedule_rank_of(const tpp_schedule *schedule, int32_t stage) {
    return schedule && stage >= 0 && stage < schedule->stages ? schedule->rank_of[stage] : -1;
}

int32_t tpp_schedule_stage_of(const tpp_schedule *schedule, int32_t rank, int32_t chunk) {
    if (!schedule || rank < 0 || rank >= schedule->ranks || chunk < 0)
        return -1;
    const int32_t *first = schedule->stage_first + rank;
    return chunk < first[1] - first[0] ? schedule->stages_at[first[0] + chunk] : -1;
}

tpp_status tpp_schedule_peaks(const tpp_schedule *schedule, int32_t *out) {
    if (!schedule || !out)
        return refuse_null(schedule ? "out" : "schedule");
    if (schedule->state < TPP__SCHED_LOWERED)
        return tpp__fail(TPP_ERR_INVALID, "schedule is not lowered; call tpp_schedule_lower first");
    memcpy(out, schedule->rank_peak, (size_t)schedule->ranks * sizeof *out);
    return TPP_OK;
}

tpp_status tpp_schedule_partition(int32_t items, int32_t parts, int32_t part, int32_t *first,
                                  int32_t *count) {
    if (!first || !count)
        return refuse_null(first ? "count" : "first");
    if (items < 0 || parts < 1)
        return tpp__fail(TPP_ERR_INVALID, "%s = %d; must be >= %d", items < 0 ? "items" : "parts",
                         items < 0 ? items : parts, items < 0 ? 0 : 1);
    if (part < 0 || part >= parts)
        return tpp__fail(TPP_ERR_INVALID, "part = %d is not within 0 .. parts - 1 = %d", part,
                         parts - 1);
    int32_t each = items / parts, larger = items % parts;
    *first = part * each + (part < larger ? part : larger);
    *count = each + (part < larger ? 1 : 0);
    return TPP_OK;
}

tpp_status tpp_schedule_finish(tpp_schedule *schedule) {
    tpp_status status = tpp_schedule_check(schedule, TPP_CHANNEL_POSTED);
    if (status == TPP_OK)
        schedule->state = TPP__SCHED_FINISHED;
    return status;
}
