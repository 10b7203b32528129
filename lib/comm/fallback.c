/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm_impl.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

/* Collectives out of send and receive, for a transport that has no others. They give the same
 * bits as the local group: sums go along the chain of ranks, or along the tree, never in order
 * of arrival. */

typedef struct walk {
    tpp_comm *comm;
    const tpp_comm_call *call;
    int64_t width;     /* of an element of the call */
    tpp_dtype dtype;   /* of messages */
    tpp_status status; /* the first failure; later steps do nothing */
} walk;

/* Those of a pair of ranks happen in the same order on both. */
static uint64_t tag_of(const tpp_comm_call *call) {
    return TPP__COMM_TAG - (uint64_t)(call->kind + 16 * call->reduce + 256 * call->dtype);
}

static void post(walk *w, tpp_comm_call *part, int32_t peer, int64_t count, tpp_request *request) {
    request->comm = NULL;
    if (w->status < 0)
        return;
    tpp_comm *comm = w->comm;
    part->size = sizeof *part;
    part->dtype = w->dtype ? w->dtype : TPP_I32;
    part->peer = peer;
    part->tag = tag_of(w->call);
    part->count = count;
    request->comm = comm;
    tpp_status status = part->kind == TPP_COMM_SEND ? comm->ops.send(comm->ctx, part, request)
                                                    : comm->ops.recv(comm->ctx, part, request);
    if (status < 0) {
        request->comm = NULL;
        w->status = tpp__comm_broken(comm, status);
    }
}

static void post_send(walk *w, int32_t peer, const void *in, int64_t count, tpp_request *request) {
    tpp_comm_call part = {.kind = TPP_COMM_SEND, .in = in};
    post(w, &part, peer, count, request);
}

static void post_recv(walk *w, int32_t peer, void *out, int64_t count, tpp_request *request) {
    tpp_comm_call part = {.kind = TPP_COMM_RECV, .out = out};
    post(w, &part, peer, count, request);
}

static tpp_status finish(walk *w, int32_t peer, tpp_request *request) {
    tpp_comm *comm = w->comm;
    tpp_status status = tpp__comm_test(comm, request);
    if (status > 0)
        status = tpp__comm_wait(comm, request, tpp__comm_deadline(comm));
    request->comm = NULL;
    if (status == TPP_ERR_TIMEOUT)
        tpp__fail(status,
                  "rank %d waited %lld ms in %s %llu for a message with rank %d; is it in the same "
                  "collective, with the same type and reduction?",
                  comm->rank, (long long)(1e3 * comm->timeout), tpp__comm_kind_name(w->call->kind),
                  (unsigned long long)comm->collectives, peer);
    return status;
}

static void end(walk *w, int32_t peer, tpp_request *request) {
    if (!request->comm)
        return;
    if (w->status == TPP_OK) {
        w->status = finish(w, peer, request);
        return;
    }
    /* The group is aborted, but what is under way still uses our buffers. Without an abort it would
     * not end either. The sentence of the first failure is the one to keep. */
    char sentence[TPP__MESSAGE];
    if (!w->comm->ops.abort)
        return;
    snprintf(sentence, sizeof sentence, "%s", tpp_message());
    finish(w, peer, request);
    tpp_message_set(sentence);
}

static void send(walk *w, int32_t peer, const void *in, int64_t count) {
    post_send(w, peer, in, count, &w->comm->parts[0]);
    end(w, peer, &w->comm->parts[0]);
}

static void recv(walk *w, int32_t peer, void *out, int64_t count) {
    post_recv(w, peer, out, count, &w->comm->parts[0]);
    end(w, peer, &w->comm->parts[0]);
}

/* Send to one rank and receive from another at the same time. */
static void pass(walk *w, int32_t to, const void *in, int32_t from, void *out, int64_t count) {
    post_send(w, to, in, count, &w->comm->parts[0]);
    post_recv(w, from, out, count, &w->comm->parts[1]);
    end(w, to, &w->comm->parts[0]);
    end(w, from, &w->comm->parts[1]);
}

/* Element i of a buffer, which is NULL only when it has none. */
static const char *in_at(const walk *w, int64_t i) {
    return i > 0 ? (const char *)w->call->in + i * w->width : w->call->in;
}

static char *out_at(const walk *w, int64_t i) {
    return i > 0 ? (char *)w->call->out + i * w->width : w->call->out;
}

static void copy(const walk *w, void *to, const void *from, int64_t count) {
    if (count > 0 && to != from)
        memcpy(to, from, (size_t)(count * w->width));
}

/* Along a binomial tree whose first node is the root. */
static void broadcast(walk *w, int32_t root) {
    const int64_t size = w->comm->size;
    const int64_t place = (w->comm->rank - root + size) % size;
    int64_t step = 1;
    while (step < size && !(place & step))
        step *= 2;
    if (step < size)
        recv(w, (int32_t)((place - step + root) % size), w->call->out, w->call->count);
    for (step /= 2; step > 0; step /= 2) {
        if (place + step < size)
            send(w, (int32_t)((place + step + root) % size), w->call->out, w->call->count);
    }
}

/* Where a chunk of a reduction goes: to its place in the output of the rank where it ends, from which
 * it is broadcast, or on to its owner. */
static void deliver(walk *w, const void *sum, int64_t at, int64_t count) {
    if (w->call->kind == TPP_COMM_ALL_REDUCE) {
        copy(w, out_at(w, at), sum, count);
        return;
    }
    int32_t owner = w->call->count > 0 ? (int32_t)(at / w->call->count) : 0;
    w->dtype = w->call->dtype;
    if (owner == w->comm->rank)
        copy(w, out_at(w, at - owner * w->call->count), sum, count);
    else
        send(w, owner, sum, count);
}

/* One chunk of the sum so far comes from the rank below, and goes on with this rank's part
 * added. */
static void chain_chunk(walk *w, int64_t at, int64_t count) {
    tpp_comm *comm = w->comm;
    const void *sum = in_at(w, at);
    if (comm->rank > 0) {
        recv(w, comm->rank - 1, comm->buffer, count);
        tpp__comm_combine(comm->buffer, in_at(w, at), count, w->call->dtype, w->call->reduce);
        sum = comm->buffer;
    }
    if (comm->rank < comm->size - 1)
        send(w, comm->rank + 1, sum, count);
    else
        deliver(w, sum, at, count);
}

/* Sums of bfloat16 in rank order, likewise: messages are of float32. */
static void chain_chunk_bf16(walk *w, int64_t at, int64_t count) {
    tpp_comm *comm = w->comm;
    float *sum = (float *)(void *)comm->buffer;
    tpp__bf16 *rounded = (tpp__bf16 *)(void *)(comm->buffer + TPP__COMM_CHUNK / 2);
    const tpp__bf16 *in = (const tpp__bf16 *)(const void *)in_at(w, at);
    if (comm->rank > 0) {
        recv(w, comm->rank - 1, sum, count);
        tpp__comm_add_bf16(sum, in, count);
    } else {
        tpp__bf16_widen(count, in, sum);
    }
    if (comm->rank < comm->size - 1) {
        send(w, comm->rank + 1, sum, count);
        return;
    }
    tpp__bf16_narrow(count, sum, rounded);
    deliver(w, rounded, at, count);
}

/* The lower rank of each pair collects; a pair's ranks lie 1, 2, 4 ... apart. */
static void tree_chunk(walk *w, int64_t at, int64_t count) {
    tpp_comm *comm = w->comm;
    char *sum = comm->buffer;
    char *other = comm->buffer + TPP__COMM_CHUNK / 2;
    copy(w, sum, in_at(w, at), count);
    for (int64_t step = 1; step < comm->size; step *= 2) {
        if (comm->rank & step) {
            send(w, (int32_t)(comm->rank - step), sum, count);
            return;
        }
        if (comm->rank + step >= comm->size)
            continue;
        recv(w, (int32_t)(comm->rank + step), other, count);
        tpp__comm_combine(sum, other, count, w->call->dtype, w->call->reduce);
    }
    deliver(w, sum, at, count);
}

/* The rank where chunks of a reduction end. */
static int32_t end_of(const walk *w) {
    return w->call->reduce == TPP_SUM_TREE ? 0 : w->comm->size - 1;
}

/* Elements begin .. begin + total - 1 of all inputs, chunk by chunk. */
static void reduce(walk *w, int64_t begin, int64_t total) {
    const tpp_dtype type = tpp__comm_sum_type(w->call->dtype, w->call->reduce);
    const int64_t most = TPP__COMM_CHUNK / 2 / tpp__dtype_bytes(type);
    const int32_t owner = w->call->count > 0 ? (int32_t)(begin / w->call->count) : 0;
    int64_t at = 0;
    do { /* nothing to reduce is still one empty message: ranks that disagree must not go on */
        int64_t count = total - at < most ? total - at : most;
        w->dtype = type;
        if (w->call->reduce == TPP_SUM_TREE)
            tree_chunk(w, begin + at, count);
        else if (type != w->call->dtype)
            chain_chunk_bf16(w, begin + at, count);
        else
            chain_chunk(w, begin + at, count);
        w->dtype = w->call->dtype;
        if (w->call->kind == TPP_COMM_REDUCE_SCATTER && owner == w->comm->rank &&
            owner != end_of(w))
            recv(w, end_of(w), out_at(w, at), count);
        at += most;
    } while (at < total && w->status == TPP_OK);
}

static void all_reduce(walk *w) {
    reduce(w, 0, w->call->count);
    broadcast(w, end_of(w));
}

static void reduce_scatter(walk *w) {
    const int64_t count = w->call->count;
    reduce(w, 0, count);
    for (int64_t rank = 1; rank < w->comm->size && count > 0; rank++)
        reduce(w, rank * count, count);
}

/* In a ring: every step passes on the part that came last. */
static void all_gather(walk *w) {
    const int64_t rank = w->comm->rank, size = w->comm->size, count = w->call->count;
    const int32_t to = (int32_t)((rank + 1) % size), from = (int32_t)((rank + size - 1) % size);
    copy(w, out_at(w, rank * count), w->call->in, count);
    int64_t mine = rank;
    for (int64_t step = 1; step < size; step++) {
        int64_t next = (mine + size - 1) % size;
        pass(w, to, out_at(w, mine * count), from, out_at(w, next * count), count);
        mine = next;
    }
}

/* In step k a rank hears of 2^k more ranks. */
static void barrier(walk *w) {
    const int64_t rank = w->comm->rank, size = w->comm->size;
    for (int64_t step = 1; step < size; step *= 2)
        pass(w, (int32_t)((rank + step) % size), NULL, (int32_t)((rank - step + size) % size), NULL,
             0);
}

tpp_status tpp__comm_fallback(tpp_comm *comm, const tpp_comm_call *call) {
    walk w = {comm, call, tpp__dtype_bytes(call->dtype), call->dtype, TPP_OK};
    switch (call->kind) {
    case TPP_COMM_ALL_REDUCE:
        all_reduce(&w);
        break;
    case TPP_COMM_ALL_GATHER:
        all_gather(&w);
        break;
    case TPP_COMM_REDUCE_SCATTER:
        reduce_scatter(&w);
        break;
    case TPP_COMM_BROADCAST:
        broadcast(&w, call->peer);
        break;
    default:
        barrier(&w);
        break;
    }
    return w.status;
}
