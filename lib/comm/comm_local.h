/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMM_LOCAL_H
#define TPP_COMM_LOCAL_H

#include "base/alloc.h"
#include "base/thread.h"
#include "comm/comm_impl.h"

/* A local group is one piece of memory that all its handles share.
 *
 * Collectives. Number s of every rank has slot s % RING in each rank's ring. Starting one publishes
 * what this rank gives and counts `arrived`; the work happens in test and wait, in order, once all
 * have arrived: compare what the ranks said, then read the others' slots. Small inputs are copied
 * into the slot, so nobody has to wait for the readers. Large ones are worked on in place, each
 * rank writing its slice of every output, and then all wait until `finished`.
 *
 * A slot is free again in time without a further count: a rank has at most LIMIT collectives under
 * way, so no rank can be more than 2 * LIMIT = RING ahead of one that still reads.
 *
 * Abort. Who fails a group sets `aborted` and wakes everybody. A rank touches other ranks'
 * buffers only between enter and leave, and enter refuses once the group is aborted; a rank
 * gives its own buffers back only when nobody is inside (quiet). So a failed call never leaves a
 * peer with a dangling pointer. */

enum {
    TPP__LOCAL_LIMIT = 16,
    TPP__LOCAL_RING = 32,
    TPP__LOCAL_SMALL = 512,       /* bytes of an input that travel in the slot */
    TPP__LOCAL_MOST_RANKS = 1024, /* of tpp_comm_local_create */
    TPP__LOCAL_TEXT = 512         /* bytes of the sentence of a group's failure */
};

typedef struct tpp__local_group tpp__local_group;
typedef struct tpp__local_rank tpp__local_rank;

/* What one rank says and gives in one collective. */
typedef struct tpp__local_slot {
    _Alignas(64) tpp_comm_kind kind;
    tpp_dtype dtype;
    tpp_reduce reduce;
    int32_t peer;
    int64_t count;
    int64_t bytes;  /* of the input */
    const void *in; /* of a small input: the copy below; of split: the colour and key below */
    void *out;
    tpp__local_group *child; /* of split: what this rank made; NULL: no memory */
    uint64_t large;          /* collectives in this slot so far that were not small */
    bool leads;              /* of split: this rank is the lowest of its colour */
    _Alignas(8) char small[TPP__LOCAL_SMALL];
} tpp__local_slot;

/* Notes in tpp_request.reserved. While a message waits for its partner they are linked into a
 * mailbox. */
typedef struct __attribute__((may_alias)) tpp__local_node {
    struct tpp__local_node *next;
    tpp__local_rank *owner;
    const void *in; /* of a send */
    void *out;      /* of a receive */
    int64_t count;
    uint64_t tag;      /* of a collective: its number, from 0 */
    int64_t met_count; /* what the partner said, when the two do not fit */
    tpp_comm_kind kind;
    tpp_dtype dtype;
    int32_t peer;
    tpp_dtype met_dtype;
    atomic_int state; /* TPP_PENDING, TPP_OK or TPP_ERR_MISMATCH, of a message */
} tpp__local_node;

typedef struct tpp__local_list {
    tpp__local_node *first;
    tpp__local_node *last;
} tpp__local_list;

/* Messages to one rank that have no partner yet. */
typedef struct tpp__local_box {
    _Alignas(64) tpp__lock lock;
    tpp__local_list sends;
    tpp__local_list recvs;
} tpp__local_box;

/* Cut into cache lines by who writes and who reads. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct tpp__local_rank {
    tpp_comm comm;
    tpp__local_group *group;
    int32_t rank;
    uint64_t done; /* collectives that are over for this rank */
    /* Written by this rank alone, read by others to name who is missing. */
    _Alignas(64) atomic_uint_least64_t posted; /* collectives started */
    atomic_uint_least64_t worked;              /* collectives whose work this rank has done */
    atomic_int inside;                         /* other ranks' buffers are in use by this rank */
    _Alignas(64) tpp__spot spot;
    tpp__local_box box;
    tpp__local_slot ring[TPP__LOCAL_RING];
};

/* How many ranks have come, over all rounds of the ring; only large collectives count
 * `finished`. */
typedef struct tpp__local_meeting {
    _Alignas(64) atomic_uint_least64_t arrived;
    atomic_uint_least64_t finished;
} tpp__local_meeting;

struct tpp__local_group {
    tpp_allocator allocator;
    int64_t bytes;
    int32_t size;
    int32_t spins;
    _Alignas(64) atomic_int aborted;
    _Alignas(64) atomic_int users; /* handles and children that are not destroyed */
    tpp__lock lock;                /* of what follows */
    tpp__local_group *parent;
    tpp__local_group *children;
    tpp__local_group *sibling;
    tpp_status status; /* the failure that ended the group */
    int32_t culprit;   /* on which rank; -1: in the parent group */
    char text[TPP__LOCAL_TEXT];
    tpp__local_meeting meetings[TPP__LOCAL_RING];
    tpp__local_rank ranks[];
};

/* Life of a group (comm_local.c). The parent may be NULL; a child of a failed parent is born
 * failed. */
tpp__local_group *tpp__local_group_create(const tpp_allocator *allocator, int32_t size,
                                          double timeout, int32_t spins, tpp__local_group *parent);
void tpp__local_group_destroy(tpp__local_group *group); /* all handles at once */

/* Failure (comm_local_abort.c). */
void tpp__local_fail(tpp__local_group *group, int32_t culprit, tpp_status status, const char *text);
/* May this rank touch other ranks' buffers? If so, it must leave. */
bool tpp__local_enter(tpp__local_rank *me);
void tpp__local_leave(tpp__local_rank *me);
bool tpp__local_quiet(tpp__local_group *group); /* aborted, and nobody is inside */
/* What to say when one cannot go on: pending, or once quiet, the group's failure with its
 * sentence. */
tpp_status tpp__local_blocked(tpp__local_rank *me);
tpp_status tpp__local_failure(tpp__local_rank *me);
void tpp__local_wake_all(tpp__local_group *group);

/* Collectives (comm_local_coll.c). Numbers count from 0. */
tpp_status tpp__local_collective(void *ctx, const tpp_comm_call *call, tpp_request *request);
bool tpp__local_full(void *ctx);
tpp_status tpp__local_advance(tpp__local_rank *me, uint64_t number); /* until `number` is over */
bool tpp__local_can_advance(tpp__local_rank *me);
void tpp__local_missing(tpp__local_rank *me, char *text, int32_t bytes); /* whom `done` waits for */
tpp__local_slot *tpp__local_slot_of(tpp__local_group *group, int32_t rank, uint64_t number);

/* Messages (comm_local_p2p.c). */
tpp_status tpp__local_message(void *ctx, const tpp_comm_call *call, tpp_request *request);
tpp_status tpp__local_message_test(tpp__local_rank *me, tpp__local_node *node);
void tpp__local_forget(tpp__local_rank *me); /* take this rank's messages out of all mailboxes */

/* Sub-groups (comm_local_split.c). */
tpp_status tpp__local_split(void *ctx, int32_t color, int32_t key, tpp_comm **out);
void tpp__local_split_work(tpp__local_rank *me, uint64_t number);

/* Waiting (comm_local.c). */
tpp_status tpp__local_wait(void *ctx, tpp_request *request, double deadline);
tpp__local_node *tpp__local_node_of(tpp_request *request);

#endif
