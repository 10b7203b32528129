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
    int64_t *slot_first; /* [ranks] */
    int32_t *writer; /* [slots of all ranks]: 1 + the cell whose result to be sent lies in a slot */
    int64_t bytes;
} tpp__sched_walk;

/* More values of tpp_status, for walks only. */
enum { TPP__SCHED_STEPPED = 1, TPP__SCHED_WAITS = 2 };

tpp_status tpp__sched_walk_begin(tpp__sched_walk *w, const tpp_schedule *s, tpp_channel channel);
void tpp__sched_walk_end(tpp__sched_walk *w);

/* Go on: TPP_OK when all ranks have ended, TPP__SCHED_WAITS when those that have not wait for each
 * other, TPP_ERR_SCHEDULE when an action stands before what it needs on its rank. */
tpp_status tpp__sched_walk_run(tpp__sched_walk *w);

/* The cell whose posted result, not yet received, keeps `rank` from its next action; else -1. */
int32_t tpp__sched_walk_unreceived(const tpp__sched_walk *w, int32_t rank);

/* Take the gradient that was sent from `cell` as received where its receiver stands now. */
void tpp__sched_walk_receive(tpp__sched_walk *w, int32_t cell);

#endif
