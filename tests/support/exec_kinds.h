/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_EXEC_KINDS_H
#define TPP_SUPPORT_EXEC_KINDS_H

#include <tpp/schedule.h>

/* Shapes of schedules: p and m from 1 on, chunks for kinds that have any number of them. */
typedef struct exec_shapes {
    int32_t ranks, micros, chunks; /* at most */
    int32_t depth;                 /* stages of the model, at most; 0: any */
    int32_t every; /* only each such shape of a kind, beginning with the last; 0: 1 */
} exec_shapes;

/* Call fn with a finished schedule of every built-in kind in every shape that it takes, overlapped
 * pairs also apart (TPP_SCHEDULE_UNFUSED). Fails the test when a kind takes none, or when a
 * description is refused with anything but TPP_ERR_INVALID. */
void exec_kinds_each(const exec_shapes *shapes,
                     void (*fn)(const tpp_schedule *s, const tpp_schedule_desc *d, void *arg),
                     void *arg);

#endif
