/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/comm_shuffle.h"

#include "comm/comm_impl.h"
#include "support/comm_threads.h"

#include <stdlib.h>

enum { MOST = 1024 };

typedef enum item_state { FREE = 0, KEPT, POSTED, OVER } item_state;

typedef struct item {
    item_state state;
    int32_t hold; /* tests that are still told that it is not over */
    tpp_status result;
    uint64_t order;
    tpp_comm_call call;
    tpp_request inner;
} item;

typedef struct shuffle {
    tpp_comm *inner;
    comm_random random;
    uint64_t orders;
    int32_t used; /* items 0 .. used - 1 are not all free */
    item items[MOST];
} shuffle;

static bool is_message(const item *it) {
    return it->call.kind == TPP_COMM_SEND || it->call.kind == TPP_COMM_RECV;
}

static void post(shuffle *me, item *it) {
    tpp_status status = tpp__comm_start(me->inner, &it->call, &it->inner);
    it->state = status < 0 || !it->inner.comm ? OVER : POSTED;
    it->result = status;
    it->hold = (int32_t)comm_random_below(&me->random, 4);
}

/* An older message of the same key waits: this one must not pass it. */
static bool is_behind(const shuffle *me, const item *it) {
    for (int32_t i = 0; i < me->used; i++) {
        const item *other = &me->items[i];
        if (other->state == KEPT && other->order < it->order && other->call.kind == it->call.kind &&
            other->call.peer == it->call.peer && other->call.tag == it->call.tag)
            return true;
    }
    return false;
}

static void progress(shuffle *me) {
    int32_t first = me->used > 0 ? (int32_t)comm_random_below(&me->random, me->used) : 0;
    for (int32_t i = 0; i < me->used; i++) {
        item *it = &me->items[(first + i) % me->used];
        if (it->state == KEPT && comm_random_below(&me->random, 2) && !is_behind(me, it))
            post(me, it);
        if (it->state != POSTED)
            continue;
        it->result = tpp__comm_test(me->inner, &it->inner);
        if (it->result <= 0)
            it->state = OVER;
    }
}

static tpp_status shuffle_start(void *ctx, const tpp_comm_call *call, tpp_request *request) {
    shuffle *me = ctx;
    int32_t at = 0;
    while (at < MOST && me->items[at].state != FREE)
        at++;
    if (at == MOST)
        return TPP_ERR_COMM;
    item *it = &me->items[at];
    me->used = at + 1 > me->used ? at + 1 : me->used;
    it->state = KEPT;
    it->order = me->orders++;
    it->call = *call;
    request->reserved[0] = (uint64_t)at;
    if (!is_message(it))
        post(me, it); /* the order of collectives is part of their contract */
    return TPP_OK;
}

static tpp_status shuffle_test(void *ctx, tpp_request *request) {
    shuffle *me = ctx;
    item *it = &me->items[request->reserved[0]];
    progress(me);
    if (it->state != OVER || (it->result == TPP_OK && it->hold-- > 0))
        return TPP_PENDING;
    it->state = FREE;
    while (me->used > 0 && me->items[me->used - 1].state == FREE)
        me->used--;
    return it->result;
}

static void shuffle_abort(void *ctx) {
    shuffle *me = ctx;
    tpp_comm_abort(me->inner);
}

static void shuffle_destroy(void *ctx) {
    shuffle *me = ctx;
    for (int32_t i = 0; i < me->used; i++) {
        if (me->items[i].state == POSTED)
            tpp_comm_wait(&me->items[i].inner);
    }
    free(me);
}

tpp_status comm_shuffle_create(tpp_comm **out, tpp_comm *inner, uint64_t seed) {
    static const tpp_comm_ops ops = {
        .size = sizeof ops,
        .send = shuffle_start,
        .recv = shuffle_start,
        .test = shuffle_test,
        .collective = shuffle_start,
        .abort = shuffle_abort,
        .destroy = shuffle_destroy,
    };
    shuffle *me = calloc(1, sizeof *me);
    if (!me)
        return TPP_ERR_NO_MEMORY;
    me->inner = inner;
    me->random.state = seed * 77 + (uint64_t)tpp_comm_rank(inner);
    tpp_status status =
        tpp_comm_create(out, &ops, me, inner->rank, inner->size, inner->timeout, NULL);
    if (status < 0)
        free(me);
    return status;
}
