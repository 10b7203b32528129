/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm_local.h"

#include "base/check.h"

#include <string.h>

/* Messages of a local group. Every rank has a mailbox of sends and receives that have no partner
 * yet; who comes second copies straight from buffer to buffer and ends both requests. */

static void append(tpp__local_list *list, tpp__local_node *node) {
    node->next = NULL;
    if (list->last)
        list->last->next = node;
    else
        list->first = node;
    list->last = node;
}

/* Take out the node behind `before`, or the first one. */
static tpp__local_node *take(tpp__local_list *list, tpp__local_node *before) {
    tpp__local_node *node = before ? before->next : list->first;
    if (before)
        before->next = node->next;
    else
        list->first = node->next;
    if (list->last == node)
        list->last = before;
    return node;
}

/* The first node with this tag that `owner` posted (a send) or that waits for peer `peer` (a
 * receive). */
static tpp__local_node *take_partner(tpp__local_list *list, const tpp__local_node *node) {
    tpp__local_node *before = NULL;
    for (tpp__local_node *it = list->first; it; before = it, it = it->next) {
        if (it->tag == node->tag && it->peer == node->owner->rank && it->owner->rank == node->peer)
            return take(list, before);
    }
    return NULL;
}

/* False when the node has found its partner already. */
static bool take_back(tpp__local_list *list, const tpp__local_node *node) {
    tpp__local_node *before = NULL;
    for (tpp__local_node *it = list->first; it; before = it, it = it->next) {
        if (it == node)
            return take(list, before) != NULL;
    }
    return false;
}

static void end(tpp__local_node *node, tpp_status state) {
    tpp__local_rank *owner = node->owner; /* the node may be gone once its state is set */
    atomic_store(&node->state, state);
    tpp__spot_wake(&owner->spot);
}

static void meet(tpp__local_node *node, tpp__local_node *partner) {
    tpp__local_node *send = node->kind == TPP_COMM_SEND ? node : partner;
    tpp__local_node *recv = node->kind == TPP_COMM_SEND ? partner : node;
    bool fits = send->count == recv->count && send->dtype == recv->dtype;
    if (fits && send->count > 0)
        memcpy(recv->out, send->in, (size_t)(send->count * tpp__dtype_bytes(send->dtype)));
    send->met_count = recv->count;
    send->met_dtype = recv->dtype;
    recv->met_count = send->count;
    recv->met_dtype = send->dtype;
    atomic_store(&node->state, fits ? TPP_OK : TPP_ERR_MISMATCH);
    end(partner, fits ? TPP_OK : TPP_ERR_MISMATCH);
}

static tpp__local_node *fill(tpp__local_rank *me, const tpp_comm_call *call, tpp_request *request) {
    tpp__local_node *node = tpp__local_node_of(request);
    node->owner = me;
    node->in = call->in;
    node->out = call->out;
    node->kind = call->kind;
    node->dtype = call->dtype;
    node->count = call->count;
    node->peer = call->peer;
    node->tag = call->tag;
    atomic_init(&node->state, TPP_PENDING);
    return node;
}

static tpp__local_box *box_of(const tpp__local_node *node) {
    int32_t to = node->kind == TPP_COMM_SEND ? node->peer : node->owner->rank;
    return &node->owner->group->ranks[to].box;
}

static tpp_status start(tpp__local_rank *me, tpp__local_node *node) {
    tpp__local_box *box = box_of(node);
    bool send = node->kind == TPP_COMM_SEND;
    if (!tpp__local_enter(me))
        return tpp__local_failure(me);
    tpp__lock_take(&box->lock);
    tpp__local_node *partner = take_partner(send ? &box->recvs : &box->sends, node);
    if (!partner)
        append(send ? &box->sends : &box->recvs, node);
    tpp__lock_give(&box->lock);
    if (partner)
        meet(node, partner);
    tpp__local_leave(me);
    return TPP_OK;
}

tpp_status tpp__local_message(void *ctx, const tpp_comm_call *call, tpp_request *request) {
    return start(ctx, fill(ctx, call, request));
}

static tpp_status misfit(tpp__local_rank *me, const tpp__local_node *node) {
    bool send = node->kind == TPP_COMM_SEND;
    tpp__fail(TPP_ERR_MISMATCH, "rank %d %s %lld %s %s rank %d with tag %llu, which %s %lld %s",
              me->rank, send ? "sends" : "receives", (long long)node->count,
              tpp__dtype_name(node->dtype), send ? "to" : "from", node->peer,
              (unsigned long long)node->tag, send ? "receives" : "sends",
              (long long)node->met_count, tpp__dtype_name(node->met_dtype));
    tpp__local_fail(me->group, me->rank, TPP_ERR_MISMATCH, tpp_message());
    return TPP_ERR_MISMATCH;
}

tpp_status tpp__local_message_test(tpp__local_rank *me, tpp__local_node *node) {
    tpp_status state = atomic_load(&node->state);
    if (state == TPP_PENDING && atomic_load(&me->group->aborted)) {
        tpp__local_box *box = box_of(node);
        tpp__lock_take(&box->lock);
        bool back = take_back(node->kind == TPP_COMM_SEND ? &box->sends : &box->recvs, node);
        tpp__lock_give(&box->lock);
        if (back)
            return tpp__local_failure(me);
        state = atomic_load(&node->state); /* being copied: over soon */
    }
    return state < 0 ? misfit(me, node) : state;
}

static void forget_in(tpp__local_list *list, const tpp__local_rank *owner) {
    tpp__local_node *before = NULL;
    for (tpp__local_node *it = list->first; it;) {
        tpp__local_node *next = it->next;
        if (it->owner == owner)
            take(list, before);
        else
            before = it;
        it = next;
    }
}

void tpp__local_forget(tpp__local_rank *me) {
    for (int32_t r = 0; r < me->group->size; r++) {
        tpp__local_box *box = &me->group->ranks[r].box;
        tpp__lock_take(&box->lock);
        forget_in(&box->sends, me);
        if (r == me->rank)
            forget_in(&box->recvs, me);
        tpp__lock_give(&box->lock);
    }
}
