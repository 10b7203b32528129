/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_SCHED_JUDGE_H
#define TPP_SUPPORT_SCHED_JUDGE_H

#include <tpp/schedule.h>

/* Runs a lowered schedule, action by action, with real queues of message tags between ranks: what a
 * channel does is done, nothing is proved. Which rank goes next is drawn, for the outcome must not
 * depend on it. Shares nothing with the library's check. */

enum { JUDGE_RANKS = 8, JUDGE_CELLS = 1024, JUDGE_QUEUE = 2048 };

typedef enum judge_verdict {
    JUDGE_RIGHT,
    JUDGE_WRONG_ORDER,   /* an action ran before what it needs, or over a result not sent yet */
    JUDGE_WRONG_MESSAGE, /* a FIFO delivered another message than the receive wanted */
    JUDGE_STUCK
} judge_verdict;

/* Of a schedule of at most so many ranks, stages * micro-batches and messages; complete. */
judge_verdict sched_judge(const tpp_schedule *schedule, tpp_channel channel, int32_t capacity,
                          uint32_t seed);

#endif
