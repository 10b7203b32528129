/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMM_H
#define TPP_COMM_H

/**
 * @file comm.h
 * A comm is one rank's handle to a group of ranks that can send, receive and reduce. Three kinds
 * are built in: self (a group of one), local (n ranks as threads of this process), traced (counts
 * what passes through another comm). A host brings its own transport as a table of functions: send,
 * receive and test are enough, everything else has a fallback built from these.
 *
 *     tpp_comm *ranks[2];
 *     tpp_comm_local_create(ranks, 2, NULL);        // one handle per rank
 *     // in thread r:
 *     float x[4] = {1, 2, 3, 4};
 *     tpp_comm_all_reduce(ranks[r], x, x, 4, TPP_F32, TPP_SUM);   // all ranks: the same bits
 *     tpp_comm_destroy(ranks[r]);
 *
 * Order of sums. TPP_SUM adds in rank order: ((x0 + x1) + x2) + x3. TPP_SUM_TREE adds along a fixed
 * binary tree: (x0 + x1) + (x2 + x3); for n ranks the left part is the largest power of two below
 * n. Every rank gets the same bits, for every count, offset, repetition and order of arrival.
 * Of TPP_BF16, TPP_SUM keeps the sum in float32 and rounds it once, at the end; TPP_SUM_TREE rounds
 * each sum of two to bfloat16, so that a tree may go on over groups of groups.
 *
 * Starting and waiting. A call with _start returns at once and fills a request, which lives in the
 * caller's memory and must stay there, as must the buffers, until tpp_comm_wait or tpp_comm_test
 * says that it is over. Collectives of a comm are over in the order in which they were started:
 * waiting for a later one also finishes the earlier ones.
 *
 * Failures. Every wait has a deadline. A rank that passes it, or finds that the ranks disagree on a
 * collective (operation, count, type, reduction, root), aborts the group, and all of its calls,
 * here and on the other ranks, fail at once: with their own finding, or with TPP_ERR_ABORTED and a
 * sentence that names the rank at fault and what it found. When a call or a request has failed, no
 * other rank of a local group touches its buffers any more. Abort may be called from any thread.
 * After that a comm can only be destroyed. A call whose arguments break a rule (TPP_ERR_INVALID,
 * TPP_ERR_OVERFLOW) has done nothing, and the group goes on.
 *
 * Threads: a handle is used by one thread at a time (abort excepted); different handles of a group
 * by different threads. No call allocates except create, split and traced; a local group's
 * allocator is called by whichever thread splits it or destroys its last handle.
 */

#include <tpp/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tpp_comm tpp_comm;

/** How elements are combined. */
typedef int32_t tpp_reduce;
enum {
    TPP_SUM = 1,      /**< in rank order */
    TPP_SUM_TREE = 2, /**< along a fixed binary tree over the ranks */
    TPP_MAX = 3       /**< largest; NaN if any is NaN */
};

/** Kind of an operation, for counts, the history and tables of functions. */
typedef int32_t tpp_comm_kind;
enum {
    TPP_COMM_SEND = 1,
    TPP_COMM_RECV = 2,
    TPP_COMM_ALL_REDUCE = 3,
    TPP_COMM_ALL_GATHER = 4,
    TPP_COMM_BROADCAST = 5,
    TPP_COMM_BARRIER = 6,
    TPP_COMM_REDUCE_SCATTER = 7
};
#define TPP_COMM_KINDS 8 /**< kinds are less than this */

/** An operation under way. Frozen: 128 bytes; the caller's memory, contents private. */
typedef struct tpp_request {
    tpp_comm *comm;        /**< set by the call that started it; NULL: nothing is under way */
    uint64_t reserved[15]; /**< the comm's own notes */
} tpp_request;

/** Options of a local group. */
typedef struct tpp_comm_local_desc {
    uint32_t size;
    uint32_t flags;                 /**< 0 */
    const tpp_allocator *allocator; /**< NULL: malloc */
    double timeout;                 /**< deadline of a wait in seconds; 0: 60 s; negative: none */
    int32_t spins;                  /**< polls before a wait sleeps in the kernel; 0: 200 */
    uint32_t reserved0;             /**< 0 */
} tpp_comm_local_desc;

/** What one operation is, as a table's function sees it. */
typedef struct tpp_comm_call {
    uint32_t size;
    uint32_t flags;     /**< 0 */
    tpp_comm_kind kind; /**< which operation */
    tpp_dtype dtype;    /**< type of the elements */
    tpp_reduce reduce;  /**< of all_reduce and reduce_scatter */
    int32_t peer;       /**< rank of the other side of a message, or the root of a broadcast */
    uint64_t tag;       /**< of a message: only messages with equal tags meet; the last 2^16 tags
                           are those of built collectives */
    int64_t count;      /**< elements (all_gather: that each rank gives; reduce_scatter: gets) */
    const void *in;     /**< what this rank gives */
    void *out;          /**< where the result goes; may equal `in` for all_reduce, and lie in it, as
                           this rank's part, for reduce_scatter */
} tpp_comm_call;

/**
 * A transport. send, recv and test are required; each other slot may be NULL and is then built from
 * them. Collective slots may block; send and recv must not (post the message, return, finish in
 * test). `call` lives only during the function: what test needs goes into request->reserved. ctx knows
 * which rank it is; call->peer is the other one. When abort is set, test and wait must fail soon
 * afterwards with TPP_ERR_ABORTED.
 *
 * Ranks that disagree on a built collective: another number of bytes is TPP_ERR_MISMATCH, another kind,
 * type or reduction ends with the deadline (a local group names both calls at once).
 */
typedef struct tpp_comm_ops {
    uint32_t size;
    uint32_t flags; /**< 0 */
    /** Post a message; `request->reserved` is yours. Messages of equal (source, tag) stay in
     * order. */
    tpp_status (*send)(void *ctx, const tpp_comm_call *call, tpp_request *request);
    /** Post a receive. Its count is that of the message, else TPP_ERR_MISMATCH. */
    tpp_status (*recv)(void *ctx, const tpp_comm_call *call, tpp_request *request);
    /** TPP_OK when the operation is over, TPP_PENDING when not. Called until it is over, then
     * never again. */
    tpp_status (*test)(void *ctx, tpp_request *request);
    /** Block until it is over or the deadline (monotonic seconds, 0: none) passes (of
     * CLOCK_MONOTONIC), which is TPP_PENDING; NULL: test in a loop that gives the core away. */
    tpp_status (*wait)(void *ctx, tpp_request *request, double deadline);
    /** Start a collective; test tells when it is over, also when this call has done all of it. Of a
     * kind that it does not know: TPP_ERR_UNSUPPORTED.
     * NULL: built from send and recv, and over when start returns. */
    tpp_status (*collective)(void *ctx, const tpp_comm_call *call, tpp_request *request);
    /** Make the sub-group of those with the same colour, ordered by key; NULL:
     * TPP_ERR_UNSUPPORTED. */
    tpp_status (*split)(void *ctx, int32_t color, int32_t key, tpp_comm **out);
    /** Make all calls of the group fail soon, on every rank; any thread; NULL: only this handle
     * fails. */
    void (*abort)(void *ctx);
    /** Free ctx; NULL: nothing to free. */
    void (*destroy)(void *ctx);
} tpp_comm_ops;

/** How often an operation was started through a traced comm, and how much it carried. */
typedef struct tpp_comm_count {
    int64_t calls;    /**< operations started */
    int64_t elements; /**< sum of their counts */
    int64_t bytes;    /**< sum of count * element size */
    int64_t reserved; /**< 0 */
} tpp_comm_count;

/**
 * A group of one rank: collectives copy, a message to itself is an error.
 *
 * @param out       receives the handle.
 * @param allocator NULL: malloc.
 * @return TPP_OK; TPP_ERR_INVALID (out is NULL); TPP_ERR_NO_MEMORY.
 *
 * Memory: destroy with tpp_comm_destroy. Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_comm_self_create(tpp_comm **out, const tpp_allocator *allocator);

/**
 * A group of n ranks that are threads of this process.
 *
 * @param out  receives n handles, out[r] for rank r.
 * @param n    ranks, 1 .. 1024.
 * @param desc options; NULL: the defaults.
 * @return TPP_OK; TPP_ERR_INVALID (n out of range, out NULL, a field of desc); TPP_ERR_TOO_NEW;
 *         TPP_ERR_NO_MEMORY.
 *
 * A send is over when its receive has copied it: nothing is buffered, memory does not grow.
 * A wait polls `spins` times, then sleeps: more ranks than cores cost no more than the switches.
 *
 * Memory: destroy every handle; the group's memory goes with the last one. Threads: any. Since:
 * 0.1.
 */
TPP_API tpp_status tpp_comm_local_create(tpp_comm **out, int32_t n,
                                         const tpp_comm_local_desc *desc);

/**
 * A comm that passes everything on to `inner` and counts it.
 *
 * @param out   receives the handle: same rank, same size.
 * @param inner stays the caller's and must outlive `out`.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_NO_MEMORY.
 *
 * Splitting it gives a sub-group of `inner`, which is not traced.
 * Memory: destroy with tpp_comm_destroy (inner is left alone). Threads: as `inner`. Since: 0.1.
 */
TPP_API tpp_status tpp_comm_traced_create(tpp_comm **out, tpp_comm *inner,
                                          const tpp_allocator *allocator);

/**
 * What has passed through a traced comm since it was made or reset.
 *
 * @param comm a traced comm.
 * @param kind TPP_COMM_SEND .. TPP_COMM_REDUCE_SCATTER.
 * @param out  receives the counts.
 * @return TPP_OK; TPP_ERR_INVALID (unknown kind); TPP_ERR_UNSUPPORTED (comm is not traced).
 *
 * Threads: the thread that uses comm. Since: 0.1.
 */
TPP_API tpp_status tpp_comm_traced_get(const tpp_comm *comm, tpp_comm_kind kind,
                                       tpp_comm_count *out);

/**
 * Set all counts of a traced comm to zero.
 *
 * @return TPP_OK; TPP_ERR_UNSUPPORTED (comm is not traced). Threads: the thread that uses comm.
 *         Since: 0.1.
 */
TPP_API tpp_status tpp_comm_traced_reset(tpp_comm *comm);

/**
 * A comm over the caller's transport.
 *
 * @param out       receives the handle.
 * @param ops       the table, copied; send, recv and test must be set.
 * @param ctx       first argument of every function of the table.
 * @param rank,size this rank, 0 <= rank < size.
 * @param timeout   deadline of a wait in seconds; 0: 60 s; negative: none.
 * @param allocator NULL: malloc.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_TOO_NEW; TPP_ERR_NO_MEMORY.
 *
 * Memory: destroy calls ops->destroy(ctx); when create fails, ctx stays the caller's. Since: 0.1.
 */
TPP_API tpp_status tpp_comm_create(tpp_comm **out, const tpp_comm_ops *ops, void *ctx, int32_t rank,
                                   int32_t size, double timeout, const tpp_allocator *allocator);

/**
 * The sub-group of the ranks that give the same colour, ordered by key, then by rank. Collective.
 *
 * @param comm  every rank of the group calls it.
 * @param out   receives this rank's handle in its sub-group; NULL when color is negative.
 * @param color >= 0; negative: this rank is in no sub-group.
 * @param key   order within the sub-group.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_NO_MEMORY; TPP_ERR_UNSUPPORTED (the transport cannot); a
 *         comm failure.
 *
 * When memory is lacking for one sub-group, all ranks get TPP_ERR_NO_MEMORY, and the group goes on.
 * Aborting a local group also aborts the groups split from it, not the other way round. They may
 * outlive it.
 * Comm: one collective of the group. Memory: destroy with tpp_comm_destroy. Since: 0.1.
 */
TPP_API tpp_status tpp_comm_split(tpp_comm *comm, tpp_comm **out, int32_t color, int32_t key);

/** This rank, 0 .. size - 1. Cannot fail. Since: 0.1. */
TPP_API int32_t tpp_comm_rank(const tpp_comm *comm);

/** Number of ranks. Cannot fail. Since: 0.1. */
TPP_API int32_t tpp_comm_size(const tpp_comm *comm);

/**
 * Post a message to `peer`. Returns at once; over when the buffer may be used again.
 *
 * @param in    count elements, unchanged until the request is over.
 * @param count >= 0; an empty message is a message.
 * @param peer  a rank other than this one.
 * @param tag   the receive with the same tag gets it; equal tags stay in order. The last 2^16 tags
 *              belong to built collectives.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_OVERFLOW; a comm failure.
 *
 * Comm: one message. Since: 0.1.
 */
TPP_API tpp_status tpp_comm_send_start(tpp_comm *comm, const void *in, int64_t count,
                                       tpp_dtype dtype, int32_t peer, uint64_t tag,
                                       tpp_request *request);

/**
 * Post a receive from `peer`. Over when `out` holds the message.
 *
 * @param out count elements; a message of another size or type is TPP_ERR_MISMATCH on both ranks.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_OVERFLOW; a comm failure.
 *
 * Comm: one message. Since: 0.1.
 */
TPP_API tpp_status tpp_comm_recv_start(tpp_comm *comm, void *out, int64_t count, tpp_dtype dtype,
                                       int32_t peer, uint64_t tag, tpp_request *request);

/**
 * Start a reduction over all ranks; every rank gets the result.
 *
 * @param in,out count elements each; out may equal in, else they must not overlap; may be NULL when
 *         count is 0.
 * @param dtype  TPP_F32, TPP_F64, TPP_I32 or TPP_I64.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_OVERFLOW; a comm failure.
 *
 * At most 16 collectives of a comm may be under way, else TPP_ERR_INVALID. A local group works on
 * it when ranks test or wait. Comm: one all-reduce of count elements. Since: 0.1.
 */
TPP_API tpp_status tpp_comm_all_reduce_start(tpp_comm *comm, const void *in, void *out,
                                             int64_t count, tpp_dtype dtype, tpp_reduce reduce,
                                             tpp_request *request);

/** tpp_comm_all_reduce_start and tpp_comm_wait in one. Since: 0.1. */
TPP_API tpp_status tpp_comm_all_reduce(tpp_comm *comm, const void *in, void *out, int64_t count,
                                       tpp_dtype dtype, tpp_reduce reduce);

/**
 * Start a reduction of which every rank gets its part: rank r elements r * count ..
 * (r + 1) * count - 1, with the bits that an all-reduce gives.
 *
 * @param in    size * count elements.
 * @param out   count elements; must not overlap `in`, except that it may be this rank's own part of
 *         `in`, whose other parts are then left alone.
 * @param dtype,reduce as in tpp_comm_all_reduce_start.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_OVERFLOW; a comm failure.
 *
 * Comm: one reduce-scatter of count elements. Since: 0.1.
 */
TPP_API tpp_status tpp_comm_reduce_scatter_start(tpp_comm *comm, const void *in, void *out,
                                                 int64_t count, tpp_dtype dtype, tpp_reduce reduce,
                                                 tpp_request *request);

/** tpp_comm_reduce_scatter_start and tpp_comm_wait in one. Since: 0.1. */
TPP_API tpp_status tpp_comm_reduce_scatter(tpp_comm *comm, const void *in, void *out, int64_t count,
                                           tpp_dtype dtype, tpp_reduce reduce);

/**
 * Start to gather `count` elements of every rank, in rank order, on every rank.
 *
 * @param in  count elements. @param out size * count elements; must not overlap `in`, except that
 *            `in` may be this rank's own part of out.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_OVERFLOW; a comm failure.
 *
 * Comm: one all-gather. Since: 0.1.
 */
TPP_API tpp_status tpp_comm_all_gather_start(tpp_comm *comm, const void *in, void *out,
                                             int64_t count, tpp_dtype dtype, tpp_request *request);

/** tpp_comm_all_gather_start and tpp_comm_wait in one. Since: 0.1. */
TPP_API tpp_status tpp_comm_all_gather(tpp_comm *comm, const void *in, void *out, int64_t count,
                                       tpp_dtype dtype);

/**
 * Copy the root's `count` elements to every rank.
 *
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_OVERFLOW; a comm failure. Comm: one broadcast. Since:
 * 0.1.
 */
TPP_API tpp_status tpp_comm_broadcast(tpp_comm *comm, void *inout, int64_t count, tpp_dtype dtype,
                                      int32_t root);

/**
 * Return when all ranks have entered.
 *
 * @return TPP_OK; a comm failure. Comm: one barrier. Since: 0.1.
 */
TPP_API tpp_status tpp_comm_barrier(tpp_comm *comm);

/**
 * Ask once whether an operation is over. Never blocks.
 *
 * @return TPP_OK (over, the request is empty); TPP_PENDING; a comm failure (over). An empty request
 *         is TPP_OK.
 * Since: 0.1.
 */
TPP_API tpp_status tpp_comm_test(tpp_request *request);

/**
 * Block until an operation is over.
 *
 * @return TPP_OK; TPP_ERR_TIMEOUT (the group is then aborted); TPP_ERR_ABORTED; TPP_ERR_MISMATCH;
 * TPP_ERR_COMM. An empty request is TPP_OK at once. Since: 0.1.
 */
TPP_API tpp_status tpp_comm_wait(tpp_request *request);

/**
 * Make every waiting and every later call of the group fail with TPP_ERR_ABORTED (what is over
 * already stays TPP_OK). Twice is fine; NULL is fine.
 *
 * Threads: any, at any time before destroy. Since: 0.1.
 */
TPP_API void tpp_comm_abort(tpp_comm *comm);

/**
 * Write the last 256 operations of this rank, one per line, oldest first: number, kind, count,
 * type, peer (or root), tag; "-" for what it has not. A collective has # and its number among the
 * collectives in the place of a tag: the number by which all ranks, and messages of failure, know
 * it.
 *
 *     41 all_reduce 4096 float32 - #7
 *     42 send 1024 float32 1 3
 *
 * @param write the sink. @return TPP_OK; what the sink returned. Threads: the thread that uses
 *         comm. Since: 0.1.
 */
TPP_API tpp_status tpp_comm_history(const tpp_comm *comm, tpp_write_fn write, void *ctx);

/**
 * Free a handle; NULL is fine. Requests under way must be over, or the group aborted.
 *
 * Threads: no other call on this handle at the same time. Since: 0.1.
 */
TPP_API void tpp_comm_destroy(tpp_comm *comm);

#ifdef __cplusplus
}
#endif

#endif
