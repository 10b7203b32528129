/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm_local.h"

#include "base/check.h"

#include <stdio.h>

/* Life of a local group, and the wait that all its operations share. */

_Static_assert(sizeof(tpp__local_node) <= sizeof(((tpp_request *)0)->reserved),
               "the notes must fit into a request");

tpp__local_node *tpp__local_node_of(tpp_request *request) {
    return (tpp__local_node *)(void *)request->reserved;
}

static tpp_status local_test(void *ctx, tpp_request *request) {
    tpp__local_rank *me = ctx;
    tpp__local_node *node = tpp__local_node_of(request);
    if (node->kind == TPP_COMM_SEND || node->kind == TPP_COMM_RECV)
        return tpp__local_message_test(me, node);
    return tpp__local_advance(me, node->tag);
}

/* True when another test may tell more than the last one. */
static bool can_go_on(void *arg) {
    tpp__local_node *node = arg;
    tpp__local_rank *me = node->owner;
    if (node->kind == TPP_COMM_SEND || node->kind == TPP_COMM_RECV)
        return atomic_load(&node->state) != TPP_PENDING || tpp__local_quiet(me->group);
    return tpp__local_can_advance(me) || tpp__local_quiet(me->group);
}

static void describe_wait(tpp__local_rank *me, const tpp__local_node *node, char *text,
                          size_t bytes) {
    long long ms = (long long)(1e3 * me->comm.timeout);
    if (node->kind == TPP_COMM_SEND || node->kind == TPP_COMM_RECV) {
        bool send = node->kind == TPP_COMM_SEND;
        snprintf(text, bytes,
                 "rank %d waited %lld ms to %s %lld %s %s rank %d, tag %llu: rank %d has not %s",
                 me->rank, ms, send ? "send" : "receive", (long long)node->count,
                 tpp__dtype_name(node->dtype), send ? "to" : "from", node->peer,
                 (unsigned long long)node->tag, node->peer, send ? "received it" : "sent it");
        return;
    }
    char missing[160];
    tpp__local_missing(me, missing, sizeof missing);
    const tpp__local_slot *slot = tpp__local_slot_of(me->group, me->rank, me->done);
    snprintf(text, bytes, "rank %d waited %lld ms in collective %llu (%s of %lld %s): %s", me->rank,
             ms, (unsigned long long)me->done + 1, tpp__comm_kind_name(slot->kind),
             (long long)slot->count, slot->dtype ? tpp__dtype_name(slot->dtype) : "elements",
             missing);
}

tpp_status tpp__local_wait(void *ctx, tpp_request *request, double deadline) {
    tpp__local_rank *me = ctx;
    tpp__local_node *node = tpp__local_node_of(request);
    char text[TPP__LOCAL_TEXT];
    bool late = false;
    tpp_status status;
    while ((status = local_test(me, request)) == TPP_PENDING) {
        double until = late || deadline <= 0 ? TPP__FOREVER : deadline;
        if (tpp__spot_wait(&me->spot, can_go_on, node, me->group->spins, until))
            continue;
        /* Go on waiting, for the moment at which nobody holds our buffers: the group is aborted
         * now. */
        late = true;
        describe_wait(me, node, text, sizeof text);
        tpp__local_fail(me->group, me->rank, TPP_ERR_TIMEOUT, text);
    }
    return late && status < 0 ? tpp__fail(TPP_ERR_TIMEOUT, "%s", text) : status;
}

static void local_abort(void *ctx) {
    tpp__local_rank *me = ctx;
    tpp__local_fail(me->group, me->rank, TPP_ERR_ABORTED, "");
}

/* Groups upwards, as long as this was the last user of each. */
static void drop(tpp__local_group *group) {
    while (group && atomic_fetch_sub(&group->users, 1) == 1) {
        tpp__local_group *parent = group->parent;
        if (parent) {
            tpp__lock_take(&parent->lock);
            tpp__local_group **link = &parent->children;
            while (*link != group)
                link = &(*link)->sibling;
            *link = group->sibling;
            tpp__lock_give(&parent->lock);
        }
        for (int32_t r = 0; r < group->size; r++)
            tpp__spot_destroy(&group->ranks[r].spot);
        tpp_allocator allocator = group->allocator;
        tpp__free(&allocator, group, group->bytes);
        group = parent;
    }
}

static bool is_quiet(void *arg) {
    return tpp__local_quiet(arg);
}

static void local_destroy(void *ctx) {
    tpp__local_rank *me = ctx;
    /* Requests that were given up after an abort lie in memory that the caller may free now. */
    tpp__local_forget(me);
    if (atomic_load(&me->group->aborted))
        tpp__spot_wait(&me->spot, is_quiet, me->group, me->group->spins, TPP__FOREVER);
    drop(me->group);
}

static const tpp_comm_ops local_ops = {
    .size = sizeof local_ops,
    .send = tpp__local_message,
    .recv = tpp__local_message,
    .test = local_test,
    .wait = tpp__local_wait,
    .collective = tpp__local_collective,
    .split = tpp__local_split,
    .abort = local_abort,
    .destroy = local_destroy,
};

static tpp_status init_rank(tpp__local_group *group, int32_t rank, double timeout) {
    tpp__local_rank *me = &group->ranks[rank];
    tpp__comm_init(&me->comm, &local_ops, me, rank, group->size, timeout);
    me->comm.full = tpp__local_full;
    me->group = group;
    me->rank = rank;
    me->box.lock = (tpp__lock)TPP__LOCK_INIT;
    return tpp__spot_init(&me->spot);
}

static void adopt(tpp__local_group *parent, tpp__local_group *child) {
    atomic_fetch_add(&parent->users, 1);
    child->parent = parent;
    tpp__lock_take(&parent->lock);
    child->sibling = parent->children;
    parent->children = child;
    bool aborted = atomic_load(&parent->aborted) != 0;
    tpp__lock_give(&parent->lock);
    if (aborted)
        tpp__local_fail(child, -1, TPP_ERR_ABORTED, "");
}

tpp__local_group *tpp__local_group_create(const tpp_allocator *allocator, int32_t size,
                                          double timeout, int32_t spins, tpp__local_group *parent) {
    int64_t bytes = (int64_t)(sizeof(tpp__local_group) + (uint64_t)size * sizeof(tpp__local_rank));
    tpp__local_group *group = tpp__alloc(allocator, bytes);
    if (!group)
        return NULL;
    group->allocator = *allocator;
    group->bytes = bytes;
    group->size = size;
    group->spins = spins;
    group->lock = (tpp__lock)TPP__LOCK_INIT;
    atomic_init(&group->users, size);
    for (int32_t r = 0; r < size; r++) {
        if (init_rank(group, r, timeout) == TPP_OK)
            continue;
        while (r-- > 0)
            tpp__spot_destroy(&group->ranks[r].spot);
        tpp__free(allocator, group, bytes);
        return NULL;
    }
    if (parent)
        adopt(parent, group);
    return group;
}

void tpp__local_group_destroy(tpp__local_group *group) {
    int32_t size = group->size; /* the last one takes the group along */
    for (int32_t r = 0; r < size; r++)
        tpp_comm_destroy(&group->ranks[r].comm);
}

tpp_status tpp_comm_local_create(tpp_comm **out, int32_t n, const tpp_comm_local_desc *desc) {
    tpp_comm_local_desc known = {0};
    tpp_allocator allocator;
    tpp_status status = desc ? tpp__sized_read(&known, sizeof known, 0, desc, "desc") : TPP_OK;
    if (status == TPP_OK)
        status = tpp__allocator_read(&allocator, known.allocator);
    if (status < 0)
        return status;
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to n handles");
    if (n < 1 || n > TPP__LOCAL_MOST_RANKS)
        return tpp__fail(TPP_ERR_INVALID, "n = %d is not in 1 .. %d", n, TPP__LOCAL_MOST_RANKS);
    if (known.timeout != known.timeout)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.timeout is not a number; it must be seconds, 0 or negative");
    if (known.spins < 0)
        return tpp__fail(TPP_ERR_INVALID, "desc.spins = %d is negative; it must be >= 0",
                         known.spins);
    int32_t spins = known.spins > 0 ? known.spins : 200;
    tpp__local_group *group = tpp__local_group_create(&allocator, n, known.timeout, spins, NULL);
    for (int32_t r = 0; r < n; r++)
        out[r] = group ? &group->ranks[r].comm : NULL;
    return group ? TPP_OK : TPP_ERR_NO_MEMORY;
}
