/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMM_IMPL_H
#define TPP_COMM_IMPL_H

#include "base/bf16.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <tpp/comm.h>

/* Life of a call: a public function of comm.c checks its arguments and describes the operation
 * in a tpp_comm_call; tpp__comm_start notes it in the history and hands it to the transport's
 * table, or to fallback.c where the table has no collectives; tpp_comm_test and _wait ask the
 * table until it is over. The first failure sticks to the handle and aborts the group. */

#define TPP__COMM_SPLIT 8 /* a tpp_comm_kind that only the history and local groups see */
#define TPP__COMM_HISTORY 256
#define TPP__COMM_TIMEOUT 60.0
#define TPP__COMM_CHUNK 16384 /* bytes of the buffer that built collectives go through */

/* Tags of built collectives: the last 2^16, this one less what the collective is. So ranks that call
 * different ones never meet, and run into their deadline instead of mixing up numbers. */
#define TPP__COMM_TAG UINT64_MAX

typedef struct tpp__comm_note {
    tpp_comm_kind kind;
    tpp_dtype dtype;
    int64_t count;
    uint64_t tag; /* of a collective: its number */
    int32_t peer; /* -1: has none */
    uint32_t reserved0;
} tpp__comm_note;

struct tpp_comm {
    tpp_comm_ops ops;
    void *ctx;
    int32_t rank;
    int32_t size;
    double timeout;          /* seconds; <= 0: none */
    bool (*full)(void *ctx); /* true: no further collective may be started now; NULL: never */
    char *buffer;            /* TPP__COMM_CHUNK bytes for built collectives; NULL: not needed */
    tpp_request parts[2]; /* of a built collective; here because a failed one may be left behind */
    int64_t bytes;        /* of this struct and its buffer; 0: part of ctx, freed with it */
    tpp_allocator allocator; /* that the struct came from */
    atomic_int failed;       /* first failure, a tpp_status; 0: none */
    uint64_t operations;     /* started since create */
    uint64_t collectives;    /* of these */
    tpp__comm_note history[TPP__COMM_HISTORY];
};

/* Fill a zeroed handle. The table is complete apart from its optional slots. */
void tpp__comm_init(tpp_comm *comm, const tpp_comm_ops *ops, void *ctx, int32_t rank, int32_t size,
                    double timeout);

/* What the public calls do after their checks; a decorator calls these on the comm it wraps, so
 * that the request keeps the outer comm. An operation that is over when start returns sets
 * request->comm to NULL. */
tpp_status tpp__comm_start(tpp_comm *comm, const tpp_comm_call *call, tpp_request *request);
tpp_status tpp__comm_test(tpp_comm *comm, tpp_request *request);
/* deadline: monotonic seconds, 0: none. */
tpp_status tpp__comm_wait(tpp_comm *comm, tpp_request *request, double deadline);
/* The moment at which a wait that begins now is late. */
double tpp__comm_deadline(const tpp_comm *comm);
void tpp__comm_note_add(tpp_comm *comm, const tpp_comm_call *call);
/* Make `status` the handle's failure, unless it has one, and abort the group; returns status. */
tpp_status tpp__comm_broken(tpp_comm *comm, tpp_status status);
/* TPP_OK, or this handle's earlier failure with a sentence. */
tpp_status tpp__comm_usable(tpp_comm *comm);

/* Name of a kind, such as "all_reduce"; of a reduction, such as "TPP_SUM". */
const char *tpp__comm_kind_name(tpp_comm_kind kind);
const char *tpp__comm_reduce_name(tpp_reduce reduce);

/* A collective out of send and recv (fallback.c); blocks. */
tpp_status tpp__comm_fallback(tpp_comm *comm, const tpp_comm_call *call);

/* acc[i] = acc[i] op b[i] (combine.c); acc and b do not overlap. */
void tpp__comm_combine(void *acc, const void *b, int64_t count, tpp_dtype dtype, tpp_reduce reduce);

/* The type in which a reduction in rank order goes from rank to rank: float32 for sums of bfloat16,
 * which are rounded once, at the end. */
tpp_dtype tpp__comm_sum_type(tpp_dtype dtype, tpp_reduce reduce);
void tpp__comm_add_bf16(float *sum, const tpp__bf16 *x, int64_t count);

/* The inputs and outputs of a reduction: pointers that lie `step` bytes apart, one per rank. */
typedef struct tpp__comm_fold {
    const void *const *in; /* the first rank's pointer */
    void *const *out;      /* the first pointer that gets the result */
    int64_t step;          /* bytes from one rank's pointer to the next, of both */
    int32_t ranks;         /* inputs */
    int32_t outs;          /* outputs */
    tpp_dtype dtype;
    tpp_reduce reduce;
    int64_t skip; /* outputs begin with what lies so many bytes into the inputs */
} tpp__comm_fold;

/* Combine elements begin .. end - 1 (of the outputs) of all inputs into all outputs. An output may be
 * the same elements of any input. */
void tpp__comm_fold_slice(const tpp__comm_fold *fold, int64_t begin, int64_t end);

#endif
