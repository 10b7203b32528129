/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SCHED_BUILD_H
#define TPP_SCHED_BUILD_H

#include "sched/sched_impl.h"

/* The actions of a rank while a schedule is being built: until it is lowered they are here, one
 * array a rank, and not in schedule.actions. */
typedef struct tpp__sched_rank_row {
    tpp_action *actions;
    int64_t count;
    int64_t room;
} tpp__sched_rank_row;

int64_t tpp__sched_rows_count(const tpp_schedule *s);

/* Copy them to schedule.actions; what is built stays, so that tpp__sched_unflatten goes back. Both
 * do nothing for a schedule that is not being built. */
tpp_status tpp__sched_flatten(tpp_schedule *s);
void tpp__sched_unflatten(tpp_schedule *s);

/* Forget what is built. */
void tpp__sched_rows_free(tpp_schedule *s);

#endif
