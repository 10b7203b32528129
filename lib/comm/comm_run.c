/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm_impl.h"

#include "base/check.h"
#include "base/thread.h"

#include <sched.h>
#include <time.h>

/* Starting, testing and waiting, for every transport. */

void tpp__comm_init(tpp_comm *comm, const tpp_comm_ops *ops, void *ctx, int32_t rank, int32_t size,
                    double timeout) {
    comm->ops = *ops;
    comm->ctx = ctx;
    comm->rank = rank;
    comm->size = size;
    comm->timeout = timeout == 0 ? TPP__COMM_TIMEOUT : timeout;
    atomic_init(&comm->failed, TPP_OK);
}

tpp_status tpp__comm_broken(tpp_comm *comm, tpp_status status) {
    int none = TPP_OK;
    atomic_compare_exchange_strong(&comm->failed, &none, status);
    if (comm->ops.abort)
        comm->ops.abort(comm->ctx);
    return status;
}

tpp_status tpp__comm_usable(tpp_comm *comm) {
    tpp_status failed = atomic_load(&comm->failed);
    if (failed == TPP_OK)
        return TPP_OK;
    return tpp__fail(failed, "the comm of rank %d has failed with %s; it can only be destroyed",
                     comm->rank, tpp_status_name(failed));
}

double tpp__comm_deadline(const tpp_comm *comm) {
    return comm->timeout > 0 ? tpp__now() + comm->timeout : 0;
}

static tpp_status hand_over(tpp_comm *comm, const tpp_comm_call *call, tpp_request *request) {
    if (call->kind == TPP_COMM_SEND)
        return comm->ops.send(comm->ctx, call, request);
    if (call->kind == TPP_COMM_RECV)
        return comm->ops.recv(comm->ctx, call, request);
    if (comm->ops.collective)
        return comm->ops.collective(comm->ctx, call, request);
    request->comm = NULL;
    return tpp__comm_fallback(comm, call);
}

tpp_status tpp__comm_start(tpp_comm *comm, const tpp_comm_call *call, tpp_request *request) {
    request->comm = NULL;
    tpp_status status = tpp__comm_usable(comm);
    if (status < 0)
        return status;
    bool message = call->kind == TPP_COMM_SEND || call->kind == TPP_COMM_RECV;
    if (!message && comm->full && comm->full(comm->ctx))
        return tpp__fail(TPP_ERR_INVALID,
                         "request: 16 collectives of rank %d are under way, the most there may be; "
                         "wait for one of them first",
                         comm->rank);
    tpp__comm_note_add(comm, call);
    request->comm = comm;
    status = hand_over(comm, call, request);
    if (status < 0) {
        request->comm = NULL;
        return tpp__comm_broken(comm, status);
    }
    if (request->comm)
        request->comm = comm; /* a decorator's inner comm has put itself there */
    return TPP_OK;
}

tpp_status tpp__comm_test(tpp_comm *comm, tpp_request *request) {
    /* A transport that can abort ends its requests itself: only it knows who else holds the
     * buffers. */
    tpp_status status = comm->ops.abort ? TPP_OK : tpp__comm_usable(comm);
    if (status == TPP_OK)
        status = comm->ops.test(comm->ctx, request);
    return status < 0 ? tpp__comm_broken(comm, status) : status;
}

/* For a transport that cannot block: poll, give the core away, then sleep for longer and longer. */
static tpp_status poll(tpp_comm *comm, tpp_request *request, double deadline) {
    struct timespec pause = {0, 1000};
    for (int32_t round = 0;; round++) {
        tpp_status status = tpp__comm_test(comm, request);
        if (status <= 0)
            return status;
        if (round < 100)
            continue;
        if (round < 200) {
            sched_yield();
            continue;
        }
        if (deadline > 0 && tpp__now() > deadline)
            return TPP_PENDING;
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 200000)
            pause.tv_nsec *= 2;
    }
}

static tpp_status block(tpp_comm *comm, tpp_request *request, double deadline) {
    if (!comm->ops.wait)
        return poll(comm, request, deadline);
    tpp_status status = comm->ops.abort ? TPP_OK : tpp__comm_usable(comm);
    return status < 0 ? status : comm->ops.wait(comm->ctx, request, deadline);
}

tpp_status tpp__comm_wait(tpp_comm *comm, tpp_request *request, double deadline) {
    tpp_status status = block(comm, request, deadline);
    if (status > 0)
        status = tpp__fail(TPP_ERR_TIMEOUT,
                           "rank %d of %d waited %lld ms for a request; it has started %llu "
                           "operations, tpp_comm_history tells the last",
                           comm->rank, comm->size, (long long)(1e3 * comm->timeout),
                           (unsigned long long)comm->operations);
    return status < 0 ? tpp__comm_broken(comm, status) : TPP_OK;
}

tpp_status tpp_comm_test(tpp_request *request) {
    if (!request)
        return tpp__fail(TPP_ERR_INVALID, "request is NULL; it must point to a tpp_request");
    if (!request->comm)
        return TPP_OK;
    tpp_status status = tpp__comm_test(request->comm, request);
    if (status <= 0)
        request->comm = NULL;
    return status <= 0 ? status : TPP_PENDING;
}

tpp_status tpp_comm_wait(tpp_request *request) {
    /* The clock is read only for what is not over yet. */
    tpp_status status = tpp_comm_test(request);
    if (status != TPP_PENDING)
        return status;
    status = tpp__comm_wait(request->comm, request, tpp__comm_deadline(request->comm));
    request->comm = NULL;
    return status;
}

void tpp_comm_abort(tpp_comm *comm) {
    if (comm)
        tpp__comm_broken(comm, TPP_ERR_ABORTED);
}
