/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm_impl.h"

#include "base/alloc.h"
#include "base/check.h"

typedef struct traced {
    tpp_comm comm;
    tpp_comm *inner;
    tpp_comm_count counts[TPP_COMM_KINDS];
} traced;

static tpp_status traced_start(void *ctx, const tpp_comm_call *call, tpp_request *request) {
    traced *me = ctx;
    tpp_status status = tpp__comm_start(me->inner, call, request);
    if (status < 0)
        return status;
    tpp_comm_count *count = &me->counts[call->kind];
    count->calls++;
    count->elements += call->count;
    count->bytes += call->count * tpp__dtype_bytes(call->dtype);
    return status;
}

static tpp_status traced_test(void *ctx, tpp_request *request) {
    traced *me = ctx;
    return tpp__comm_test(me->inner, request);
}

static tpp_status traced_wait(void *ctx, tpp_request *request, double deadline) {
    traced *me = ctx;
    return tpp__comm_wait(me->inner, request, deadline);
}

static tpp_status traced_split(void *ctx, int32_t color, int32_t key, tpp_comm **out) {
    traced *me = ctx;
    return tpp_comm_split(me->inner, out, color, key);
}

static void traced_abort(void *ctx) {
    traced *me = ctx;
    tpp_comm_abort(me->inner);
}

static bool traced_full(void *ctx) {
    traced *me = ctx;
    return me->inner->full && me->inner->full(me->inner->ctx);
}

static const tpp_comm_ops traced_ops = {
    .size = sizeof traced_ops,
    .send = traced_start,
    .recv = traced_start,
    .test = traced_test,
    .wait = traced_wait,
    .collective = traced_start,
    .split = traced_split,
    .abort = traced_abort,
};

tpp_status tpp_comm_traced_create(tpp_comm **out, tpp_comm *inner, const tpp_allocator *allocator) {
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a handle");
    *out = NULL;
    if (!inner)
        return tpp__fail(TPP_ERR_INVALID, "inner is NULL; it must be a handle");
    tpp_allocator memory;
    tpp_status status = tpp__allocator_read(&memory, allocator);
    if (status < 0)
        return status;
    traced *me = tpp__alloc(&memory, sizeof *me);
    if (!me)
        return TPP_ERR_NO_MEMORY;
    tpp__comm_init(&me->comm, &traced_ops, me, inner->rank, inner->size, inner->timeout);
    if (!inner->ops.wait)
        me->comm.ops.wait = NULL; /* whoever waits must test its other requests too, as on inner */
    me->comm.allocator = memory;
    me->comm.bytes = sizeof *me; /* comm is the first member: destroy frees all */
    me->comm.full = traced_full;
    me->inner = inner;
    *out = &me->comm;
    return TPP_OK;
}

static tpp_status check_traced(const tpp_comm *comm) {
    if (!comm)
        return tpp__fail(TPP_ERR_INVALID, "comm is NULL; it must be a handle");
    if (comm->ops.send != traced_start)
        return tpp__fail(TPP_ERR_UNSUPPORTED,
                         "comm is not a traced comm; make one with tpp_comm_traced_create");
    return TPP_OK;
}

tpp_status tpp_comm_traced_get(const tpp_comm *comm, tpp_comm_kind kind, tpp_comm_count *out) {
    tpp_status status = check_traced(comm);
    if (status < 0)
        return status;
    if (kind < TPP_COMM_SEND || kind > TPP_COMM_REDUCE_SCATTER)
        return tpp__fail(TPP_ERR_INVALID,
                         "kind = %d is unknown; valid: TPP_COMM_SEND .. TPP_COMM_REDUCE_SCATTER",
                         kind);
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a tpp_comm_count");
    const traced *me = comm->ctx;
    *out = me->counts[kind];
    return TPP_OK;
}

tpp_status tpp_comm_traced_reset(tpp_comm *comm) {
    tpp_status status = check_traced(comm);
    if (status < 0)
        return status;
    traced *me = comm->ctx;
    for (int32_t k = 0; k < TPP_COMM_KINDS; k++)
        me->counts[k] = (tpp_comm_count){0};
    return TPP_OK;
}
