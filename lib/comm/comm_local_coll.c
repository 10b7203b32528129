/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm_local.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

/* Collectives of a local group; comm_local.h says how they meet. */

tpp__local_slot *tpp__local_slot_of(tpp__local_group *group, int32_t rank, uint64_t number) {
    return &group->ranks[rank].ring[number % TPP__LOCAL_RING];
}

static tpp__local_meeting *meeting_of(tpp__local_group *group, uint64_t number) {
    return &group->meetings[number % TPP__LOCAL_RING];
}

/* What the counts are when all ranks have come to collective `number`. */
static uint64_t everybody(const tpp__local_group *group, uint64_t number) {
    return (uint64_t)group->size * (number / TPP__LOCAL_RING + 1);
}

static uint64_t every_finish(const tpp__local_rank *me, uint64_t number) {
    return (uint64_t)me->group->size * me->ring[number % TPP__LOCAL_RING].large;
}

static bool all_arrived(tpp__local_rank *me, uint64_t number) {
    return atomic_load(&meeting_of(me->group, number)->arrived) == everybody(me->group, number);
}

static bool all_finished(tpp__local_rank *me, uint64_t number) {
    return atomic_load(&meeting_of(me->group, number)->finished) == every_finish(me, number);
}

static void count_in(tpp__local_group *group, atomic_uint_least64_t *count, uint64_t complete) {
    if (atomic_fetch_add(count, 1) + 1 == complete)
        tpp__local_wake_all(group);
}

/* One meeting is enough: everything that others read lies in the slots. */
static bool is_small(const tpp__local_slot *slot) {
    return slot->kind != TPP__COMM_SPLIT && slot->bytes <= TPP__LOCAL_SMALL;
}

static void publish(tpp__local_slot *slot, const tpp__local_rank *me, const tpp_comm_call *call) {
    int64_t parts = call->kind == TPP_COMM_REDUCE_SCATTER ? me->group->size : 1;
    slot->kind = call->kind;
    slot->dtype = call->dtype;
    slot->reduce = call->reduce;
    slot->peer = call->peer;
    slot->count = call->count;
    slot->bytes = parts * call->count * tpp__dtype_bytes(call->dtype);
    slot->in = call->in;
    slot->out = call->out;
    slot->child = NULL;
    slot->leads = false;
    slot->large += !is_small(slot);
    int64_t bytes = call->kind == TPP__COMM_SPLIT ? (int64_t)(2 * sizeof(int32_t)) : slot->bytes;
    bool read = call->kind != TPP_COMM_BROADCAST || call->peer == me->rank;
    if (bytes <= 0 || bytes > TPP__LOCAL_SMALL || !read)
        return;
    memcpy(slot->small, call->in, (size_t)bytes);
    slot->in = slot->small;
}

bool tpp__local_full(void *ctx) {
    tpp__local_rank *me = ctx;
    return atomic_load(&me->posted) - me->done >= TPP__LOCAL_LIMIT;
}

tpp_status tpp__local_collective(void *ctx, const tpp_comm_call *call, tpp_request *request) {
    tpp__local_rank *me = ctx;
    tpp__local_node *node = tpp__local_node_of(request);
    if (atomic_load(&me->group->aborted))
        return tpp__local_failure(me);
    uint64_t number = atomic_load(&me->posted);
    node->owner = me;
    node->kind = call->kind;
    node->tag = number;
    publish(tpp__local_slot_of(me->group, me->rank, number), me, call);
    atomic_store_explicit(&me->posted, number + 1, memory_order_release);
    count_in(me->group, &meeting_of(me->group, number)->arrived, everybody(me->group, number));
    return TPP_OK;
}

static void describe(const tpp__local_slot *slot, char *text, size_t bytes) {
    char detail[32] = "";
    if (slot->kind == TPP_COMM_ALL_REDUCE || slot->kind == TPP_COMM_REDUCE_SCATTER)
        snprintf(detail, sizeof detail, ", %s", tpp__comm_reduce_name(slot->reduce));
    if (slot->kind == TPP_COMM_BROADCAST)
        snprintf(detail, sizeof detail, ", root %d", slot->peer);
    snprintf(text, bytes, "%s of %lld %s%s", tpp__comm_kind_name(slot->kind),
             (long long)slot->count, slot->dtype ? tpp__dtype_name(slot->dtype) : "elements",
             detail);
}

static bool same_call(const tpp__local_slot *a, const tpp__local_slot *b) {
    return a->kind == b->kind && a->dtype == b->dtype && a->reduce == b->reduce &&
           a->peer == b->peer && a->count == b->count;
}

/* The first rank that says something else than rank 0, or -1; every rank finds the same. */
static int32_t dissenter(tpp__local_group *group, uint64_t number) {
    const tpp__local_slot *first = tpp__local_slot_of(group, 0, number);
    for (int32_t r = 1; r < group->size; r++) {
        if (!same_call(first, tpp__local_slot_of(group, r, number)))
            return r;
    }
    return -1;
}

static tpp_status mismatch(tpp__local_rank *me, int32_t other) {
    char ours[128], theirs[128], text[TPP__LOCAL_TEXT];
    describe(tpp__local_slot_of(me->group, 0, me->done), ours, sizeof ours);
    describe(tpp__local_slot_of(me->group, other, me->done), theirs, sizeof theirs);
    snprintf(text, sizeof text,
             "the ranks disagree on collective %llu: rank 0 calls %s, rank %d calls %s",
             (unsigned long long)me->done + 1, ours, other, theirs);
    tpp__local_fail(me->group, me->rank, TPP_ERR_MISMATCH, text);
    return tpp__fail(TPP_ERR_MISMATCH, "%s", text);
}

static void all_reduce(tpp__local_rank *me, uint64_t number, bool small) {
    tpp__local_group *group = me->group;
    tpp__local_slot *mine = tpp__local_slot_of(group, me->rank, number);
    tpp__local_slot *first = tpp__local_slot_of(group, 0, number);
    tpp__comm_fold fold = {
        .in = &first->in,
        .out = small ? &mine->out : &first->out,
        .step = sizeof(tpp__local_rank),
        .ranks = group->size,
        .outs = small ? 1 : group->size,
        .dtype = mine->dtype,
        .reduce = mine->reduce,
    };
    int64_t count = mine->count;
    if (small) {
        tpp__comm_fold_slice(&fold, 0, count);
        return;
    }
    /* Whole cache lines each; nobody else reads or writes this slice, so in place needs no copy. */
    int64_t part = ((count + group->size - 1) / group->size + 31) / 32 * 32;
    int64_t begin = part * me->rank < count ? part * me->rank : count;
    int64_t end = begin + part < count ? begin + part : count;
    tpp__comm_fold_slice(&fold, begin, end);
}

/* This rank's part of all inputs. In place too nobody else looks at what is written. */
static void reduce_scatter(tpp__local_rank *me, uint64_t number) {
    tpp__local_slot *mine = tpp__local_slot_of(me->group, me->rank, number);
    tpp__comm_fold fold = {
        .in = &tpp__local_slot_of(me->group, 0, number)->in,
        .out = &mine->out,
        .step = sizeof(tpp__local_rank),
        .skip = me->rank * (mine->bytes / me->group->size),
        .ranks = me->group->size,
        .outs = 1,
        .dtype = mine->dtype,
        .reduce = mine->reduce,
    };
    tpp__comm_fold_slice(&fold, 0, mine->count);
}

static void copy_from(tpp__local_rank *me, uint64_t number, int32_t rank, int64_t at) {
    const tpp__local_slot *theirs = tpp__local_slot_of(me->group, rank, number);
    const tpp__local_slot *mine = tpp__local_slot_of(me->group, me->rank, number);
    int64_t bytes = mine->bytes;
    if (bytes > 0 && (char *)mine->out + at != theirs->in)
        memcpy((char *)mine->out + at, theirs->in, (size_t)bytes);
}

static void work(tpp__local_rank *me, uint64_t number, bool small) {
    const tpp__local_slot *mine = tpp__local_slot_of(me->group, me->rank, number);
    switch (mine->kind) {
    case TPP_COMM_ALL_REDUCE:
        all_reduce(me, number, small);
        break;
    case TPP_COMM_ALL_GATHER:
        for (int32_t r = 0; r < me->group->size; r++)
            copy_from(me, number, r, r * mine->bytes);
        break;
    case TPP_COMM_REDUCE_SCATTER:
        reduce_scatter(me, number);
        break;
    case TPP_COMM_BROADCAST:
        if (me->rank != mine->peer)
            copy_from(me, number, mine->peer, 0);
        break;
    case TPP__COMM_SPLIT:
        tpp__local_split_work(me, number);
        break;
    default:
        break;
    }
    atomic_store_explicit(&me->worked, number + 1, memory_order_release);
}

/* The oldest collective that is under way. */
static tpp_status advance_one(tpp__local_rank *me) {
    tpp__local_group *group = me->group;
    uint64_t number = me->done;
    bool small = is_small(tpp__local_slot_of(group, me->rank, number));
    if (atomic_load(&me->worked) == number) {
        if (!all_arrived(me, number))
            return tpp__local_blocked(me);
        int32_t other = dissenter(group, number);
        if (other >= 0)
            return mismatch(me, other);
        if (!small && !tpp__local_enter(me))
            return tpp__local_blocked(me);
        work(me, number, small);
        if (!small) {
            count_in(group, &meeting_of(group, number)->finished, every_finish(me, number));
            tpp__local_leave(me);
        }
    }
    if (!small && !all_finished(me, number)) {
        /* Once an aborted group is quiet this count stays as it is, so that all ranks see the same
         * end: a split, whose result belongs to somebody, depends on that. */
        tpp_status status = tpp__local_blocked(me);
        if (status > 0 || !all_finished(me, number))
            return status;
    }
    me->done++;
    return TPP_OK;
}

tpp_status tpp__local_advance(tpp__local_rank *me, uint64_t number) {
    tpp_status status = TPP_OK;
    while (status == TPP_OK && me->done <= number)
        status = advance_one(me);
    return status;
}

bool tpp__local_can_advance(tpp__local_rank *me) {
    return atomic_load(&me->worked) == me->done ? all_arrived(me, me->done)
                                                : all_finished(me, me->done);
}

void tpp__local_missing(tpp__local_rank *me, char *text, int32_t bytes) {
    bool arriving = atomic_load(&me->worked) == me->done;
    int32_t used = snprintf(text, (size_t)bytes, "not %s:", arriving ? "arrived" : "finished");
    for (int32_t r = 0; r < me->group->size; r++) {
        tpp__local_rank *other = &me->group->ranks[r];
        uint64_t reached = arriving ? atomic_load(&other->posted) : atomic_load(&other->worked);
        if (reached > me->done)
            continue;
        if (used > bytes - 24) {
            snprintf(text + used, (size_t)(bytes - used), " and more");
            return;
        }
        used += snprintf(text + used, (size_t)(bytes - used), " rank %d", r);
    }
}
