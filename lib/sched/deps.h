/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SCHED_DEPS_H
#define TPP_SCHED_DEPS_H

#include <tpp/schedule.h>

/* THE dependency rule, in one place: the checker, the simulator and the executors call it.
 *
 *   F(s, i)         needs F(s-1, i)
 *   B(s, i), I(s, i) need F(s, i) and I(s+1, i)
 *   W(s, i)         needs I(s, i)
 *
 * where s-1 and s+1 are of the same direction: of two-way schedules, stages 0 .. depth - 1 and depth
 * .. stages - 1 are a pipeline each.
 *
 * It speaks of results, not of operations: B makes the results I and W at once. */
enum { TPP__SCHED_F = 0, TPP__SCHED_I = 1, TPP__SCHED_W = 2, TPP__SCHED_RESULTS = 3 };

typedef struct tpp__sched_need {
    int32_t kind; /* TPP__SCHED_F, _I or _W */
    int32_t stage;
    int32_t micro;
} tpp__sched_need;

/* The results that must exist before compute action `a` may start; returns their number, 0 .. 2.
 * For B and I the first is the F of the same stage. Messages need nothing here: 0. */
int tpp__sched_needs(int32_t depth, int32_t stages, const tpp_action *a, tpp__sched_need out[2]);

/* The results that exist once compute action `a` has ended: 1, or 2 (I and W) for B; 0 for a
 * message. */
int tpp__sched_makes(const tpp_action *a, tpp__sched_need out[2]);

/* Place of a result in a table of TPP__SCHED_RESULTS * stages * micros entries. */
static inline int64_t tpp__sched_index(int32_t stages, int32_t micros, tpp__sched_need need) {
    return ((int64_t)need.kind * stages + need.stage) * micros + need.micro;
}

#endif
