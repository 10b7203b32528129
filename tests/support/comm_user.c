/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/comm_user.h"

#include "comm/comm_impl.h"

#include <stdlib.h>

enum { MOST = 64 };

/* A request has no room for another, so the inner ones lie here. */
typedef struct user {
    tpp_comm *inner;
    int64_t calls;
    int64_t refuse_at;
    tpp_status refusal;
    tpp_request requests[MOST];
} user;

static tpp_request *free_request(user *me) {
    for (int32_t i = 0; i < MOST; i++) {
        if (!me->requests[i].comm)
            return &me->requests[i];
    }
    return NULL;
}

static tpp_status user_start(void *ctx, const tpp_comm_call *call, tpp_request *request) {
    user *me = ctx;
    if (++me->calls >= me->refuse_at && me->refuse_at > 0) {
        tpp_message_set("the user's transport refuses");
        return me->refusal;
    }
    tpp_request *inner = free_request(me);
    if (!inner)
        return TPP_ERR_COMM;
    request->reserved[0] = (uint64_t)(inner - me->requests);
    if (call->kind == TPP_COMM_SEND)
        return tpp_comm_send_start(me->inner, call->in, call->count, call->dtype, call->peer,
                                   call->tag, inner);
    return tpp_comm_recv_start(me->inner, call->out, call->count, call->dtype, call->peer,
                               call->tag, inner);
}

static tpp_status user_test(void *ctx, tpp_request *request) {
    user *me = ctx;
    return tpp_comm_test(&me->requests[request->reserved[0]]);
}

static void user_abort(void *ctx) {
    user *me = ctx;
    tpp_comm_abort(me->inner);
}

static void user_destroy(void *ctx) {
    user *me = ctx;
    for (int32_t i = 0; i < MOST; i++)
        tpp_comm_wait(&me->requests[i]);
    free(me);
}

tpp_status comm_user_create(tpp_comm **out, tpp_comm *inner, double timeout) {
    static const tpp_comm_ops ops = {
        .size = sizeof ops,
        .send = user_start,
        .recv = user_start,
        .test = user_test,
        .abort = user_abort,
        .destroy = user_destroy,
    };
    user *me = calloc(1, sizeof *me);
    if (!me)
        return TPP_ERR_NO_MEMORY;
    me->inner = inner;
    tpp_status status =
        tpp_comm_create(out, &ops, me, tpp_comm_rank(inner), tpp_comm_size(inner), timeout, NULL);
    if (status < 0)
        free(me);
    return status;
}

void comm_user_refuse(tpp_comm *comm, int64_t call, tpp_status status) {
    user *me = comm->ctx;
    me->refuse_at = call > 0 ? me->calls + call : 0;
    me->refusal = status;
}

int32_t comm_user_under_way(const tpp_comm *comm) {
    const user *me = comm->ctx;
    int32_t n = 0;
    for (int32_t i = 0; i < MOST; i++)
        n += me->requests[i].comm != NULL;
    return n;
}
