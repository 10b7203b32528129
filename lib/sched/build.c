/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/build.h"

#include "base/check.h"

#include <string.h>

static tpp_status check_range(const char *field, int32_t value, int32_t low, int32_t high) {
    if (value >= low && value <= high)
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID, "desc.%s = %d is out of range; valid: %d .. %d", field, value,
                     low, high);
}

static tpp_status read_desc(tpp_schedule_build_desc *d, const tpp_schedule_build_desc *in) {
    tpp_status status = tpp__sized_read(d, sizeof *d, 0, in, "desc");
    if (status == TPP_OK)
        status = check_range("ranks", d->ranks, 1, TPP__SCHED_MAX_STAGES);
    if (status == TPP_OK)
        status = check_range("stages", d->stages, 1, TPP__SCHED_MAX_STAGES);
    if (status == TPP_OK)
        status = check_range("micros", d->micros, 1, TPP__SCHED_MAX_MICROS);
    if (status == TPP_OK)
        status = check_range("directions", d->directions, 0, 2);
    if (status < 0)
        return status;
    if (d->directions == 2 && d->stages % 2 != 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.stages = %d; two directions need an even number, the model's "
                         "stages twice",
                         d->stages);
    for (int32_t i = 0; i < d->stages && d->rank_of; i++) {
        if (d->rank_of[i] < 0 || d->rank_of[i] >= d->ranks)
            return tpp__fail(TPP_ERR_INVALID, "desc.rank_of[%d] = %d; valid: 0 .. %d", i,
                             d->rank_of[i], d->ranks - 1);
    }
    return TPP_OK;
}

static tpp_status set_up(tpp_schedule *s, const tpp_schedule_build_desc *d) {
    if (d->directions == 2)
        tpp__sched_two_way(s);
    for (int32_t i = 0; i < s->stages; i++) {
        int32_t turn = i % s->depth % s->ranks;
        int32_t looped = i < s->depth ? turn : s->ranks - 1 - turn;
        s->rank_of[i] = d->rank_of ? d->rank_of[i] : looped;
    }
    s->forward_only = true; /* until a backward is added */
    s->rows = tpp__alloc(&s->allocator, s->ranks * (int64_t)sizeof *s->rows);
    return s->rows ? tpp__sched_place(s) : TPP_ERR_NO_MEMORY;
}

tpp_status tpp_schedule_build(tpp_schedule **out, const tpp_schedule_build_desc *desc) {
    tpp_schedule_build_desc d;
    tpp_allocator allocator;
    tpp_schedule *s = NULL;
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a schedule pointer");
    *out = NULL;
    tpp_status status = read_desc(&d, desc);
    if (status == TPP_OK)
        status = tpp__allocator_read(&allocator, d.allocator);
    if (status == TPP_OK)
        status = tpp__sched_new(&s, &allocator, d.ranks, d.stages, d.micros);
    if (status == TPP_OK)
        status = set_up(s, &d);
    if (status < 0) {
        tpp_schedule_destroy(s);
        return status;
    }
    *out = s;
    return TPP_OK;
}

/* --- Adding --- */

static tpp_status check_place(const tpp_schedule *s, int32_t rank, int32_t stage, int32_t micro) {
    if (rank < 0 || rank >= s->ranks)
        return tpp__fail(TPP_ERR_INVALID, "rank = %d is out of range; valid: 0 .. %d", rank,
                         s->ranks - 1);
    if (stage < 0 || stage >= s->stages)
        return tpp__fail(TPP_ERR_INVALID, "stage = %d is out of range; valid: 0 .. %d", stage,
                         s->stages - 1);
    if (s->rank_of[stage] != rank)
        return tpp__fail(TPP_ERR_INVALID, "rank = %d, but stage %d lies on rank %d", rank, stage,
                         s->rank_of[stage]);
    int32_t direction = tpp__sched_direction(s, stage);
    int32_t first = tpp__sched_micro_first(s, direction);
    int32_t end = tpp__sched_micro_first(s, direction + 1);
    if (micro < first || micro >= end)
        return tpp__fail(TPP_ERR_INVALID,
                         "micro = %d is out of range for stage %d of direction %d; valid: %d .. %d",
                         micro, stage, direction, first, end - 1);
    return TPP_OK;
}

static tpp_status check_op(const tpp__sched_rank_row *row, int32_t rank, tpp_op op,
                           uint32_t flags) {
    if (op < TPP_OP_F || op > TPP_OP_W)
        return tpp__fail(TPP_ERR_INVALID,
                         "op = %d; valid: 1 (F), 2 (B), 3 (I), 4 (W); messages are added by "
                         "tpp_schedule_lower",
                         op);
    if (flags != 0 && (flags != TPP_ACTION_FUSED || op != TPP_OP_F))
        return tpp__fail(TPP_ERR_INVALID, "flags = %u; valid: 0, of an F also 1 (FUSED)", flags);
    const tpp_action *last = row->count > 0 ? row->actions + row->count - 1 : NULL;
    if (last && last->flags & TPP_ACTION_FUSED && op != TPP_OP_B)
        return tpp__fail(TPP_ERR_INVALID,
                         "op = %d (%s), but rank %d's last action, %dF%d, is fused: its next must "
                         "be a B",
                         op, tpp_op_name(op), rank, last->stage, last->micro);
    return TPP_OK;
}

static tpp_status grow(const tpp_schedule *s, tpp__sched_rank_row *row) {
    if (row->count < row->room)
        return TPP_OK;
    if (row->count > INT32_MAX / 2)
        return tpp__fail(TPP_ERR_OVERFLOW, "a rank has %lld actions; at most 2^31 - 1",
                         (long long)row->count);
    const int64_t each = (int64_t)sizeof *row->actions;
    int64_t room = row->room > 0 ? 2 * row->room : 16;
    tpp_action *actions = tpp__alloc(&s->allocator, room * each);
    if (!actions)
        return TPP_ERR_NO_MEMORY;
    if (row->count > 0)
        memcpy(actions, row->actions, (size_t)(row->count * each));
    tpp__free(&s->allocator, row->actions, row->room * each);
    row->actions = actions;
    row->room = room;
    return TPP_OK;
}

tpp_status tpp_schedule_add(tpp_schedule *schedule, int32_t rank, tpp_op op, int32_t stage,
                            int32_t micro, uint32_t flags) {
    if (!schedule)
        return tpp__fail(TPP_ERR_INVALID, "schedule is NULL; it must not be");
    if (!schedule->rows)
        return tpp__fail(TPP_ERR_INVALID, "schedule is not being built; only one of "
                                          "tpp_schedule_build that is not lowered takes actions");
    tpp_status status = check_place(schedule, rank, stage, micro);
    if (status < 0)
        return status;
    tpp__sched_rank_row *row = schedule->rows + rank;
    status = check_op(row, rank, op, flags);
    if (status == TPP_OK)
        status = grow(schedule, row);
    if (status < 0)
        return status;
    tpp_action *a = row->actions + row->count++;
    *a = (tpp_action){.op = (uint8_t)op, .flags = (uint8_t)flags, .stage = stage, .micro = micro};
    a->slot = -1;
    tpp__sched_address(schedule, a);
    schedule->forward_only = schedule->forward_only && op == TPP_OP_F;
    schedule->halves = schedule->halves || op == TPP_OP_I || op == TPP_OP_W;
    schedule->fused = schedule->fused || flags;
    return TPP_OK;
}

/* --- From many arrays to one --- */

int64_t tpp__sched_rows_count(const tpp_schedule *s) {
    int64_t count = 0;
    for (int32_t r = 0; r < s->ranks; r++)
        count += s->rows[r].count;
    return count;
}

tpp_status tpp__sched_flatten(tpp_schedule *s) {
    if (!s->rows)
        return TPP_OK;
    int64_t count = tpp__sched_rows_count(s);
    if (count == 0)
        return tpp__fail(TPP_ERR_SCHEDULE, "the schedule holds no action");
    tpp_status status = tpp__sched_reserve(s, count);
    if (status < 0)
        return status;
    for (int32_t r = 0; r < s->ranks; r++) {
        const tpp__sched_rank_row *row = s->rows + r;
        if (row->count > 0)
            memcpy(s->actions + s->first[r], row->actions,
                   (size_t)row->count * sizeof *row->actions);
        s->first[r + 1] = s->first[r] + row->count;
    }
    return TPP_OK;
}

void tpp__sched_unflatten(tpp_schedule *s) {
    if (!s->rows)
        return;
    tpp__free(&s->allocator, s->actions, s->room * (int64_t)sizeof *s->actions);
    s->actions = NULL;
    s->room = 0;
}

void tpp__sched_rows_free(tpp_schedule *s) {
    if (!s->rows)
        return;
    for (int32_t r = 0; r < s->ranks; r++)
        tpp__free(&s->allocator, s->rows[r].actions,
                  s->rows[r].room * (int64_t)sizeof *s->rows[r].actions);
    tpp__free(&s->allocator, s->rows, s->ranks * (int64_t)sizeof *s->rows);
    s->rows = NULL;
}
