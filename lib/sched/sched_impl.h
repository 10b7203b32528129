/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SCHED_IMPL_H
#define TPP_SCHED_IMPL_H

#include "base/alloc.h"

#include <stdbool.h>
#include <stddef.h>
#include <tpp/schedule.h>

/* A cell is a (stage, micro-batch): stage * micros + micro. Cells fit int32_t, and so do tags
 * uint32_t. */
#define TPP__SCHED_MAX_STAGES (1 << 20)
#define TPP__SCHED_MAX_MICROS (1 << 20)
#define TPP__SCHED_MAX_CHUNKS (1 << 16)

typedef int32_t tpp__sched_state;
enum { TPP__SCHED_ORDERED = 0, TPP__SCHED_LOWERED = 1, TPP__SCHED_FINISHED = 2 };

struct tpp_schedule {
    tpp_allocator allocator;
    tpp__sched_state state;
    int32_t ranks;
    int32_t chunks; /* most stages of any rank */
    int32_t stages;
    int32_t micros;
    int32_t directions;               /* 1 or 2 */
    int32_t depth;                    /* stages of a direction */
    bool forward_only, halves, fused; /* what tpp__sched_traits found */
    int32_t slots;
    int64_t linger; /* forward-only: F of its rank that the slot of an F outlives */
    int64_t messages;
    int32_t *rank_of;     /* [stages] */
    int32_t *chunk_of;    /* [stages] */
    int32_t *stages_at;   /* [stages]: the stages of rank 0 in rising order, then of rank 1, ... */
    int32_t *stage_first; /* [ranks + 1]: where a rank begins in stages_at */
    int32_t *rank_slots;  /* [ranks] */
    int32_t *rank_peak;   /* [ranks] */
    int64_t *first;       /* [ranks + 1]: where a rank begins in actions */
    tpp_action *actions;  /* all ranks, one after the other */
    int64_t room;         /* actions allocated */
    struct tpp__sched_rank_row *rows; /* [ranks]: while it is being built, instead of these */
    int64_t bytes;                    /* of this struct and the arrays above, one block */
};

/* An empty schedule: rank_of is to be filled, then tpp__sched_place called. */
tpp_status tpp__sched_new(tpp_schedule **out, const tpp_allocator *allocator, int32_t ranks,
                          int32_t stages, int32_t micros);

/* Make its stages two pipelines of half as many; they must be an even number. */
static inline void tpp__sched_two_way(tpp_schedule *s) {
    s->directions = 2;
    s->depth = s->stages / 2;
}

/* See what kinds of actions there are. */
void tpp__sched_traits(tpp_schedule *s);

/* Derive chunk_of, stages_at, stage_first and chunks from rank_of. */
tpp_status tpp__sched_place(tpp_schedule *s);

/* New room for `count` actions; on failure all is as before, on success the old room is the
 * caller's. */
tpp_status tpp__sched_reserve(tpp_schedule *s, int64_t count);

static inline int32_t tpp__sched_cell(const tpp_schedule *s, int32_t stage, int32_t micro) {
    return stage * s->micros + micro;
}

static inline bool tpp__sched_is_message(int32_t op) {
    return op >= TPP_OP_SEND_F;
}

/* The stage at the other end of a message. */
static inline int32_t tpp__sched_other(int32_t op, int32_t stage) {
    return op == TPP_OP_SEND_F || op == TPP_OP_RECV_B ? stage + 1 : stage - 1;
}

/* True when there is a stage `other`, stage - 1 or stage + 1 or the stage itself, in the direction of
 * `stage`. */
static inline bool tpp__sched_beside(const tpp_schedule *s, int32_t stage, int32_t other) {
    return other >= 0 && other < s->stages && (stage < s->depth) == (other < s->depth);
}

/* True when there is such a stage and what passes between them is a message. */
static inline bool tpp__sched_far(const tpp_schedule *s, int32_t stage, int32_t other) {
    return tpp__sched_beside(s, stage, other) && s->rank_of[stage] != s->rank_of[other];
}

/* True when there is such a stage, on the same rank. */
static inline bool tpp__sched_near(const tpp_schedule *s, int32_t stage, int32_t other) {
    return tpp__sched_beside(s, stage, other) && s->rank_of[stage] == s->rank_of[other];
}

/* The first micro-batch of a direction; of direction 1 + the last: their number. There are 1 or 2
 * directions, and a shift is quicker than a division. */
static inline int32_t tpp__sched_micro_first(const tpp_schedule *s, int32_t direction) {
    return (int32_t)(((int64_t)direction * s->micros + s->directions - 1) >> (s->directions - 1));
}

static inline int32_t tpp__sched_direction(const tpp_schedule *s, int32_t stage) {
    return stage < s->depth ? 0 : 1;
}

/* Who is at the other end of an action, and under which tag; -1 and 0 for compute, and for a
 * message beyond the first or the last stage, which the check refuses. */
typedef struct tpp__sched_ends {
    int32_t peer;
    uint32_t tag;
} tpp__sched_ends;

static inline tpp__sched_ends tpp__sched_ends_of(const tpp_schedule *s, const tpp_action *a) {
    if (!tpp__sched_is_message(a->op))
        return (tpp__sched_ends){-1, 0};
    int32_t other = tpp__sched_other(a->op, a->stage);
    if (!tpp__sched_beside(s, a->stage, other))
        return (tpp__sched_ends){-1, 0};
    bool sends = a->op == TPP_OP_SEND_F || a->op == TPP_OP_SEND_B;
    uint32_t backward = a->op >= TPP_OP_SEND_B ? 1 : 0;
    int32_t cell = tpp__sched_cell(s, sends ? a->stage : other, a->micro);
    return (tpp__sched_ends){s->rank_of[other], 2 * (uint32_t)cell + backward};
}

/* Set chunk, peer and tag of an action whose op, stage and micro are set. */
static inline void tpp__sched_address(const tpp_schedule *s, tpp_action *a) {
    tpp__sched_ends ends = tpp__sched_ends_of(s, a);
    a->chunk = (uint16_t)s->chunk_of[a->stage];
    a->peer = ends.peer;
    a->tag = ends.tag;
}

/* Set the slots of all actions, and slots and peaks of the schedule. Returns the first action that
 * no slot can be given to (its F does not stand before it), whose slot is -1; NULL when there is
 * none. Fails (NULL and *status) only for want of memory. */
const tpp_action *tpp__sched_slots(tpp_schedule *s, tpp_status *status);

/* Of a schedule with messages: without a backward nothing tells that an output was received, and a
 * slot that is used again too soon can make ranks wait for each other in a ring. Give slots so that
 * it does not. */
tpp_status tpp__sched_linger(tpp_schedule *s);

/* Move receives of gradients of a schedule just lowered to earlier places, where it would deadlock
 * else. */
tpp_status tpp__sched_receive_early(tpp_schedule *s);

/* Each cell has what it must have, on its rank, once: an F, a B or an I and a W, and once lowered
 * the messages. Says nothing about order. */
tpp_status tpp__sched_complete(const tpp_schedule *s);

/* Follow all ranks until they end or wait for each other. The schedule must be complete. */
tpp_status tpp__sched_prove(const tpp_schedule *s, tpp_channel channel, int32_t capacity);

/* Messages of each channel are received in the order in which they are sent. The schedule must be
 * complete. */
tpp_status tpp__sched_fifo_order(const tpp_schedule *s, tpp_channel channel);

static inline bool tpp__sched_is_fifo(tpp_channel channel) {
    return channel == TPP_CHANNEL_FIFO_PAIR || channel == TPP_CHANNEL_FIFO_KIND;
}

/* Lowered, complete, and channel and capacity are some. */
tpp_status tpp__sched_check_ready(const tpp_schedule *s, tpp_channel channel, int32_t capacity);

#endif
