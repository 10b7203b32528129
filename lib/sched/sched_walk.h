/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SCHED_WALK_H
#define TPP_SCHED_WALK_H

#include "sched/sched_impl.h"

/* What the dependency rule says of the actions of a stage, of every micro-batch alike: bits of what
 * must have happened to their own cell, and to one other. By op - TPP_OP_F. */
typedef struct tpp__sched_rule {
    int32_t other[TPP_OP_W]; /* from their cell to the other one; 0: none */
    uint8_t here[TPP_OP_W];
    uint8_t there[TPP_OP_W];
    bool far[2]; /* its output, its input gradient go to another rank */
} tpp__sched_rule;

/* All ranks of a lowered, complete schedule are followed at once, each until it ends or waits for
 * another; who makes a wait pass puts the waiter back on the list. A message wakes a rank at most
 * twice, so the time is linear in the actions. */
typedef struct tpp__sched_walk {
    const tpp_schedule *s;
    tpp_channel channel;
    bool quiet;             /* do not set the message when it fails */
    uint8_t *cells;         /* [stages * micros]: what has happened to a cell */
    tpp__sched_rule *rules; /* [stages] */
    int64_t *at;            /* [ranks]: place in actions */
    int32_t *waits_for;     /* [ranks]: a rank, or -1 */
    int32_t *ready;         /* stack of ranks that may go on */
    int32_t ready_count;
    int32_t capacity;    /* of a channel; of POSTED none, of RENDEZVOUS 0 */
    int32_t *channel_of; /* [2 * stages]: the channel of a stage's outputs, and of its gradients */
    int32_t *in_channel; /* [2 * stages]: messages in a channel */
    int64_t *slot_first; /* [ranks] */
    int32_t *writer; /* [slots of all ranks]: 1 + the cell whose result to be sent lies in a slot */
    int64_t bytes;
} tpp__sched_walk;

/* What has happened to a cell; the first three are 1 << TPP__SCHED_F, _I, _W. */
enum { DID_F = 1, DID_I = 2, DID_W = 4, SENT_F = 8, GOT_F = 16, SENT_B = 32, GOT_B = 64 };

static inline uint8_t *tpp__sched_cell_at(const tpp__sched_walk *w, int32_t stage, int32_t micro) {
    return w->cells + tpp__sched_cell(w->s, stage, micro);
}

/* walk_message.c: do a message, or wait. `op` of what is misplaced before: NULL, the backward. */
tpp_status tpp__sched_message(tpp__sched_walk *w, int32_t rank, const tpp_action *a);
tpp_status tpp__sched_misplaced(const tpp__sched_walk *w, const tpp_action *a, const char *op,
                                int32_t stage);
/* What `rank` did may be what `peer` waits for. */
void tpp__sched_wake(tpp__sched_walk *w, int32_t rank, int32_t peer);

/* More values of tpp_status, for walks only. */
enum { TPP__SCHED_STEPPED = 1, TPP__SCHED_WAITS = 2 };

tpp_status tpp__sched_walk_begin(tpp__sched_walk *w, const tpp_schedule *s, tpp_channel channel,
                                 int32_t capacity);
void tpp__sched_walk_end(tpp__sched_walk *w);

/* channel.c: fill channel_of [2 * stages] with numbers 0 .. 2 * stages - 1. */
tpp_status tpp__sched_channels(const tpp_schedule *s, tpp_channel channel, int32_t *channel_of);

/* Go on: TPP_OK when all ranks have ended, TPP__SCHED_WAITS when those that have not wait for each
 * other, TPP_ERR_SCHEDULE when an action stands before what it needs on its rank. */
tpp_status tpp__sched_walk_run(tpp__sched_walk *w);

/* The cell whose posted result, not yet received, keeps `rank` from its next action; else -1. */
int32_t tpp__sched_walk_unreceived(const tpp__sched_walk *w, int32_t rank);

/* Take the gradient that was sent from `cell` as received where its receiver stands now. */
void tpp__sched_walk_receive(tpp__sched_walk *w, int32_t cell);

#endif
