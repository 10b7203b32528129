/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched_impl.h"

#include "base/check.h"

/* One bit per operation of a cell. */
static uint8_t bit_of(int32_t op) {
    int32_t place = tpp__sched_is_message(op) ? op - TPP_OP_SEND_F + 4 : op - TPP_OP_F;
    return (uint8_t)(1u << (place & 7));
}

static int32_t op_of(unsigned bits) {
    int32_t op = 0;
    while (!(bits >> op & 1))
        op++;
    return op < 4 ? TPP_OP_F + op : TPP_OP_SEND_F + op - 4;
}

static bool known_op(int32_t op) {
    return (op >= TPP_OP_F && op <= TPP_OP_W) || (op >= TPP_OP_SEND_F && op <= TPP_OP_RECV_B);
}

static tpp_status check_action(const tpp_schedule *s, int32_t rank, const tpp_action *a) {
    if (!known_op(a->op))
        return tpp__fail(TPP_ERR_SCHEDULE, "rank %d has an action with op = %d, which is none",
                         rank, a->op);
    if (a->stage < 0 || a->stage >= s->stages || a->micro < 0 || a->micro >= s->micros)
        return tpp__fail(TPP_ERR_SCHEDULE,
                         "%d%s%d of rank %d is foreign: there are %d stages and %d micro-batches",
                         a->stage, tpp_op_name(a->op), a->micro, rank, s->stages, s->micros);
    if (s->rank_of[a->stage] != rank)
        return tpp__fail(TPP_ERR_SCHEDULE, "%d%s%d stands on rank %d, but stage %d lies on rank %d",
                         a->stage, tpp_op_name(a->op), a->micro, rank, a->stage,
                         s->rank_of[a->stage]);
    int32_t direction = tpp__sched_direction(s, a->stage);
    int32_t micro_first = tpp__sched_micro_first(s, direction);
    int32_t micro_end = tpp__sched_micro_first(s, direction + 1);
    if (a->micro < micro_first || a->micro >= micro_end)
        return tpp__fail(TPP_ERR_SCHEDULE,
                         "%d%s%d of rank %d is foreign: stage %d is of direction %d, which has "
                         "micro-batches %d .. %d",
                         a->stage, tpp_op_name(a->op), a->micro, rank, a->stage, direction,
                         micro_first, micro_end - 1);
    tpp__sched_ends ends = tpp__sched_ends_of(s, a);
    int32_t chunk = s->chunk_of[a->stage];
    if (chunk != a->chunk || ends.peer != a->peer || ends.tag != a->tag)
        return tpp__fail(TPP_ERR_SCHEDULE,
                         "%d%s%d of rank %d has chunk %d, peer %d, tag %u; it must have %d, %d, %u",
                         a->stage, tpp_op_name(a->op), a->micro, rank, a->chunk, a->peer, a->tag,
                         chunk, ends.peer, ends.tag);
    return TPP_OK;
}

/* Of an action with flags: an F, and the next action of the rank a B that does not need it. */
static tpp_status check_fused(const tpp_schedule *s, int32_t rank, int64_t at) {
    const tpp_action *a = s->actions + at, *next = a + 1;
    const char *op = tpp_op_name(a->op);
    if (a->flags != TPP_ACTION_FUSED || a->op != TPP_OP_F)
        return tpp__fail(TPP_ERR_SCHEDULE,
                         "%d%s%d of rank %d has flags = %u; valid: 0, of an F also 1 (FUSED)",
                         a->stage, op, a->micro, rank, a->flags);
    if (at + 1 == s->first[rank + 1] || next->op != TPP_OP_B)
        return tpp__fail(TPP_ERR_SCHEDULE,
                         "%d%s%d of rank %d is fused, but the next action of the rank is no B",
                         a->stage, op, a->micro, rank);
    if (next->stage == a->stage && next->micro == a->micro)
        return tpp__fail(TPP_ERR_SCHEDULE,
                         "%d%s%d of rank %d is fused with its own backward, which needs it",
                         a->stage, op, a->micro, rank);
    return TPP_OK;
}

/* Note the actions of a rank in `cells`; none may be there before. */
static tpp_status note_rank(const tpp_schedule *s, int32_t rank, uint8_t *cells) {
    for (int64_t i = s->first[rank]; i < s->first[rank + 1]; i++) {
        const tpp_action *a = s->actions + i;
        tpp_status status = check_action(s, rank, a);
        if (status == TPP_OK && a->flags)
            status = check_fused(s, rank, i);
        if (status < 0)
            return status;
        uint8_t *cell = cells + tpp__sched_cell(s, a->stage, a->micro), bit = bit_of(a->op);
        if (*cell & bit)
            return tpp__fail(TPP_ERR_SCHEDULE, "%d%s%d is doubled on rank %d", a->stage,
                             tpp_op_name(a->op), a->micro, rank);
        *cell |= bit;
    }
    return TPP_OK;
}

/* The messages that each cell of a stage has. */
static unsigned messages_of(const tpp_schedule *s, int32_t stage) {
    const unsigned backward = bit_of(TPP_OP_SEND_B) | (unsigned)bit_of(TPP_OP_RECV_B);
    unsigned bits = 0;
    if (s->state >= TPP__SCHED_LOWERED && tpp__sched_far(s, stage, stage - 1))
        bits |= bit_of(TPP_OP_RECV_F) | (unsigned)bit_of(TPP_OP_SEND_B);
    if (s->state >= TPP__SCHED_LOWERED && tpp__sched_far(s, stage, stage + 1))
        bits |= bit_of(TPP_OP_SEND_F) | (unsigned)bit_of(TPP_OP_RECV_B);
    return s->forward_only ? bits & ~backward : bits;
}

static tpp_status explain(const tpp_schedule *s, int32_t stage, int32_t micro, unsigned missing,
                          unsigned unneeded) {
    const char *op = tpp_op_name(op_of(missing ? missing : unneeded));
    int32_t rank = s->rank_of[stage];
    if (missing)
        return tpp__fail(TPP_ERR_SCHEDULE, "%d%s%d is missing on rank %d", stage, op, micro, rank);
    return tpp__fail(TPP_ERR_SCHEDULE, "%d%s%d of rank %d is foreign: %s", stage, op, micro, rank,
                     op_of(unneeded) < TPP_OP_SEND_F
                         ? "a B stands for I and W already"
                         : "there is no message between stages of one rank or beyond the ends");
}

static tpp_status check_stage(const tpp_schedule *s, int32_t stage, const uint8_t *cells) {
    const unsigned b = bit_of(TPP_OP_B), halves = bit_of(TPP_OP_I) | (unsigned)bit_of(TPP_OP_W);
    unsigned others = messages_of(s, stage) | bit_of(TPP_OP_F);
    int32_t direction = tpp__sched_direction(s, stage);
    int32_t end = tpp__sched_micro_first(s, direction + 1);
    for (int32_t i = tpp__sched_micro_first(s, direction); i < end; i++) {
        unsigned has = cells[i], back = !(has & halves) || has & b ? b : halves;
        unsigned must = s->forward_only ? others : others | back;
        if (has != must)
            return explain(s, stage, i, must & ~has, has & ~must);
    }
    return TPP_OK;
}

static tpp_status check_cells(const tpp_schedule *s, uint8_t *cells) {
    for (int32_t r = 0; r < s->ranks; r++) {
        tpp_status status = note_rank(s, r, cells);
        if (status < 0)
            return status;
    }
    for (int32_t stage = 0; stage < s->stages; stage++) {
        tpp_status status = check_stage(s, stage, cells + tpp__sched_cell(s, stage, 0));
        if (status < 0)
            return status;
    }
    return TPP_OK;
}

tpp_status tpp__sched_complete(const tpp_schedule *s) {
    int64_t cells = (int64_t)s->stages * s->micros, actions = s->first[s->ranks];
    /* Without this a short text that names a large number would ask for a table of its size. */
    if (actions < cells / s->directions)
        return tpp__fail(
            TPP_ERR_SCHEDULE,
            "the schedule has %lld actions, but %d stages and %d micro-batches need at "
            "least %lld; some are missing",
            (long long)actions, s->stages, s->micros,
            (s->forward_only ? 1 : 2) * (long long)cells / s->directions);
    uint8_t *table = tpp__alloc(&s->allocator, cells);
    if (!table)
        return TPP_ERR_NO_MEMORY;
    tpp_status status = check_cells(s, table);
    tpp__free(&s->allocator, table, cells);
    return status;
}
