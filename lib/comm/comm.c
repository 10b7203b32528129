/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm_impl.h"

#include "base/alloc.h"
#include "base/check.h"

/* The public door: every argument is checked here and nowhere else. */

tpp_status tpp_comm_create(tpp_comm **out, const tpp_comm_ops *ops, void *ctx, int32_t rank,
                           int32_t size, double timeout, const tpp_allocator *allocator) {
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a handle");
    *out = NULL;
    tpp_comm_ops table;
    tpp_allocator memory;
    tpp_status status = tpp__sized_read(&table, sizeof table, 0, ops, "ops");
    if (status < 0)
        return status;
    if (!table.send || !table.recv || !table.test)
        return tpp__fail(TPP_ERR_INVALID, "ops.%s is NULL; send, recv and test must be set",
                         !table.send ? "send" : (!table.recv ? "recv" : "test"));
    if (size < 1)
        return tpp__fail(TPP_ERR_INVALID, "size = %d; it must be at least 1", size);
    if (rank < 0 || rank >= size)
        return tpp__fail(TPP_ERR_INVALID, "rank = %d is not in 0 .. %d (size = %d)", rank, size - 1,
                         size);
    if (timeout != timeout)
        return tpp__fail(TPP_ERR_INVALID,
                         "timeout is not a number; it must be seconds, 0 or negative");
    status = tpp__allocator_read(&memory, allocator);
    if (status < 0)
        return status;
    int64_t buffer = table.collective ? 0 : TPP__COMM_CHUNK;
    int64_t head = (int64_t)((sizeof(tpp_comm) + TPP__ALIGN - 1) / TPP__ALIGN * TPP__ALIGN);
    tpp_comm *comm = tpp__alloc(&memory, head + buffer);
    if (!comm)
        return TPP_ERR_NO_MEMORY;
    tpp__comm_init(comm, &table, ctx, rank, size, timeout);
    comm->allocator = memory;
    comm->bytes = head + buffer;
    comm->buffer = buffer > 0 ? (char *)comm + head : NULL;
    *out = comm;
    return TPP_OK;
}

void tpp_comm_destroy(tpp_comm *comm) {
    if (!comm)
        return;
    tpp_allocator memory = comm->allocator;
    int64_t bytes = comm->bytes; /* 0: the handle is gone after ops.destroy */
    if (comm->ops.destroy)
        comm->ops.destroy(comm->ctx);
    if (bytes > 0)
        tpp__free(&memory, comm, bytes);
}

int32_t tpp_comm_rank(const tpp_comm *comm) {
    return comm->rank;
}

int32_t tpp_comm_size(const tpp_comm *comm) {
    return comm->size;
}

static tpp_status check_handles(const tpp_comm *comm, const tpp_request *request) {
    if (!comm)
        return tpp__fail(TPP_ERR_INVALID, "comm is NULL; it must be a handle");
    if (!request)
        return tpp__fail(TPP_ERR_INVALID, "request is NULL; it must point to a tpp_request");
    return TPP_OK;
}

/* `parts` times count elements must be a number of bytes. */
static tpp_status check_count(int64_t count, tpp_dtype dtype, int32_t parts) {
    int64_t width = tpp__dtype_bytes(dtype), bytes;
    if (width == 0)
        return tpp__fail(
            TPP_ERR_INVALID,
            "dtype = %d is unknown; valid: TPP_F32, TPP_F64, TPP_BF16, TPP_I32, TPP_I64", dtype);
    if (count < 0)
        return tpp__fail(TPP_ERR_INVALID, "count = %lld is negative; it must be >= 0",
                         (long long)count);
    if (!tpp__mul(count, width * parts, &bytes))
        return tpp__fail(TPP_ERR_OVERFLOW,
                         "count = %lld elements of %s times %d parts do not fit into 64 bits",
                         (long long)count, tpp__dtype_name(dtype), parts);
    return TPP_OK;
}

static tpp_status check_buffer(const void *buffer, int64_t count, const char *name) {
    if (!buffer && count > 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "%s is NULL; it may be NULL only when count is 0, and count = %lld", name,
                         (long long)count);
    return TPP_OK;
}

static bool overlap(const void *a, int64_t a_bytes, const void *b, int64_t b_bytes) {
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return a_bytes > 0 && b_bytes > 0 && x < y + (uint64_t)b_bytes && y < x + (uint64_t)a_bytes;
}

static tpp_status start_message(tpp_comm *comm, tpp_comm_call *call, tpp_request *request) {
    tpp_status status = check_handles(comm, request);
    if (status == TPP_OK)
        status = check_count(call->count, call->dtype, 1);
    if (status == TPP_OK && call->kind == TPP_COMM_SEND)
        status = check_buffer(call->in, call->count, "in");
    if (status == TPP_OK && call->kind == TPP_COMM_RECV)
        status = check_buffer(call->out, call->count, "out");
    if (status < 0)
        return status;
    if (call->peer < 0 || call->peer >= comm->size)
        return tpp__fail(TPP_ERR_INVALID, "peer = %d is not in 0 .. %d (size = %d)", call->peer,
                         comm->size - 1, comm->size);
    if (call->peer == comm->rank)
        return tpp__fail(TPP_ERR_INVALID,
                         "peer = %d is this rank itself; a message goes to another rank",
                         call->peer);
    return tpp__comm_start(comm, call, request);
}

tpp_status tpp_comm_send_start(tpp_comm *comm, const void *in, int64_t count, tpp_dtype dtype,
                               int32_t peer, uint64_t tag, tpp_request *request) {
    tpp_comm_call call = {.size = sizeof call,
                          .kind = TPP_COMM_SEND,
                          .dtype = dtype,
                          .peer = peer,
                          .tag = tag,
                          .count = count,
                          .in = in};
    return start_message(comm, &call, request);
}

tpp_status tpp_comm_recv_start(tpp_comm *comm, void *out, int64_t count, tpp_dtype dtype,
                               int32_t peer, uint64_t tag, tpp_request *request) {
    tpp_comm_call call = {.size = sizeof call,
                          .kind = TPP_COMM_RECV,
                          .dtype = dtype,
                          .peer = peer,
                          .tag = tag,
                          .count = count,
                          .out = out};
    return start_message(comm, &call, request);
}

static tpp_status check_reduce(tpp_reduce reduce) {
    if (reduce >= TPP_SUM && reduce <= TPP_MAX)
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID,
                     "reduce = %d is unknown; valid: TPP_SUM, TPP_SUM_TREE, TPP_MAX", reduce);
}

tpp_status tpp_comm_all_reduce_start(tpp_comm *comm, const void *in, void *out, int64_t count,
                                     tpp_dtype dtype, tpp_reduce reduce, tpp_request *request) {
    tpp_status status = check_handles(comm, request);
    if (status == TPP_OK)
        status = check_count(count, dtype, 1);
    if (status == TPP_OK)
        status = check_buffer(in, count, "in");
    if (status == TPP_OK)
        status = check_buffer(out, count, "out");
    if (status == TPP_OK)
        status = check_reduce(reduce);
    if (status < 0)
        return status;
    int64_t bytes = count * tpp__dtype_bytes(dtype);
    if (in != out && overlap(in, bytes, out, bytes))
        return tpp__fail(TPP_ERR_INVALID, "out overlaps in; it must equal in or lie apart from it");
    tpp_comm_call call = {.size = sizeof call,
                          .kind = TPP_COMM_ALL_REDUCE,
                          .dtype = dtype,
                          .reduce = reduce,
                          .count = count,
                          .in = in,
                          .out = out};
    return tpp__comm_start(comm, &call, request);
}

/* Checks of what is whole on one side and in parts on the other. */
static tpp_status check_parts(tpp_comm *comm, const void *in, const void *out, int64_t count,
                              tpp_dtype dtype, const tpp_request *request) {
    tpp_status status = check_handles(comm, request);
    if (status == TPP_OK)
        status = check_count(count, dtype, comm->size);
    if (status == TPP_OK)
        status = check_buffer(in, count, "in");
    return status == TPP_OK ? check_buffer(out, count, "out") : status;
}

tpp_status tpp_comm_reduce_scatter_start(tpp_comm *comm, const void *in, void *out, int64_t count,
                                         tpp_dtype dtype, tpp_reduce reduce, tpp_request *request) {
    tpp_status status = check_parts(comm, in, out, count, dtype, request);
    if (status == TPP_OK)
        status = check_reduce(reduce);
    if (status < 0)
        return status;
    int64_t bytes = count * tpp__dtype_bytes(dtype);
    if (overlap(in, bytes * comm->size, out, bytes) &&
        (const char *)out != (const char *)in + bytes * comm->rank)
        return tpp__fail(TPP_ERR_INVALID,
                         "out overlaps in; it must be this rank's part of in or lie apart");
    tpp_comm_call call = {.size = sizeof call,
                          .kind = TPP_COMM_REDUCE_SCATTER,
                          .dtype = dtype,
                          .reduce = reduce,
                          .count = count,
                          .in = in,
                          .out = out};
    return tpp__comm_start(comm, &call, request);
}

tpp_status tpp_comm_all_gather_start(tpp_comm *comm, const void *in, void *out, int64_t count,
                                     tpp_dtype dtype, tpp_request *request) {
    tpp_status status = check_parts(comm, in, out, count, dtype, request);
    if (status < 0)
        return status;
    int64_t bytes = count * tpp__dtype_bytes(dtype);
    if (overlap(in, bytes, out, bytes * comm->size) && in != (char *)out + bytes * comm->rank)
        return tpp__fail(TPP_ERR_INVALID,
                         "out overlaps in; in must be this rank's part of out or lie apart");
    tpp_comm_call call = {.size = sizeof call,
                          .kind = TPP_COMM_ALL_GATHER,
                          .dtype = dtype,
                          .count = count,
                          .in = in,
                          .out = out};
    return tpp__comm_start(comm, &call, request);
}

static tpp_status start_and_wait(tpp_comm *comm, const tpp_comm_call *call) {
    tpp_request request;
    tpp_status status = tpp__comm_start(comm, call, &request);
    return status < 0 ? status : tpp_comm_wait(&request);
}

tpp_status tpp_comm_all_reduce(tpp_comm *comm, const void *in, void *out, int64_t count,
                               tpp_dtype dtype, tpp_reduce reduce) {
    tpp_request request;
    tpp_status status = tpp_comm_all_reduce_start(comm, in, out, count, dtype, reduce, &request);
    return status < 0 ? status : tpp_comm_wait(&request);
}

tpp_status tpp_comm_reduce_scatter(tpp_comm *comm, const void *in, void *out, int64_t count,
                                   tpp_dtype dtype, tpp_reduce reduce) {
    tpp_request request;
    tpp_status status =
        tpp_comm_reduce_scatter_start(comm, in, out, count, dtype, reduce, &request);
    return status < 0 ? status : tpp_comm_wait(&request);
}

tpp_status tpp_comm_all_gather(tpp_comm *comm, const void *in, void *out, int64_t count,
                               tpp_dtype dtype) {
    tpp_request request;
    tpp_status status = tpp_comm_all_gather_start(comm, in, out, count, dtype, &request);
    return status < 0 ? status : tpp_comm_wait(&request);
}

tpp_status tpp_comm_broadcast(tpp_comm *comm, void *inout, int64_t count, tpp_dtype dtype,
                              int32_t root) {
    if (!comm)
        return tpp__fail(TPP_ERR_INVALID, "comm is NULL; it must be a handle");
    tpp_status status = check_count(count, dtype, 1);
    if (status == TPP_OK)
        status = check_buffer(inout, count, "inout");
    if (status < 0)
        return status;
    if (root < 0 || root >= comm->size)
        return tpp__fail(TPP_ERR_INVALID, "root = %d is not in 0 .. %d (size = %d)", root,
                         comm->size - 1, comm->size);
    tpp_comm_call call = {.size = sizeof call,
                          .kind = TPP_COMM_BROADCAST,
                          .dtype = dtype,
                          .peer = root,
                          .count = count,
                          .in = inout,
                          .out = inout};
    return start_and_wait(comm, &call);
}

tpp_status tpp_comm_barrier(tpp_comm *comm) {
    if (!comm)
        return tpp__fail(TPP_ERR_INVALID, "comm is NULL; it must be a handle");
    tpp_comm_call call = {.size = sizeof call, .kind = TPP_COMM_BARRIER};
    return start_and_wait(comm, &call);
}

tpp_status tpp_comm_split(tpp_comm *comm, tpp_comm **out, int32_t color, int32_t key) {
    if (!comm)
        return tpp__fail(TPP_ERR_INVALID, "comm is NULL; it must be a handle");
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a handle");
    *out = NULL;
    tpp_status status = tpp__comm_usable(comm);
    if (status < 0)
        return status;
    if (!comm->ops.split)
        return tpp__fail(TPP_ERR_UNSUPPORTED,
                         "ops.split is NULL: this transport cannot make sub-groups");
    tpp_comm_call call = {.size = sizeof call, .kind = TPP__COMM_SPLIT};
    tpp__comm_note_add(comm, &call);
    status = comm->ops.split(comm->ctx, color, key, out);
    /* Refusals of one's own argument or for lack of memory leave the group as it was. */
    bool refused = status <= TPP_ERR_INVALID && status > TPP_ERR_ABORTED;
    return status >= 0 ? TPP_OK : (refused ? status : tpp__comm_broken(comm, status));
}
