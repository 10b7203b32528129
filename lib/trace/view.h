/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TRACE_VIEW_H
#define TPP_TRACE_VIEW_H

#include <stdbool.h>
#include <tpp/trace.h>

/* What both writers must know of a trace before they write its first byte. */
typedef struct tpp__trace_view {
    int64_t count;  /* events of all rows */
    double first;   /* earliest start; 0 without events */
    double last;    /* latest end */
    int32_t chunks; /* largest chunk + 1, at least 1 */
    uint32_t ops;   /* bit `op` is set when the operation occurs */
    bool two_way;   /* there are events of direction 1 */
    bool fused;     /* there are halves of overlapped pairs */
} tpp__trace_view;

tpp__trace_view tpp__trace_look(const tpp_trace *trace);

/* The second half of an overlapped pair: its time is that of the first. */
bool tpp__trace_is_second(const tpp_event *event);

/* Waits are drawn apart from work. */
bool tpp__trace_is_wait(tpp_op op);

/* Lanes as the caller gave them (0: 1) into out; they must divide the rows. */
tpp_status tpp__trace_lanes(const tpp_trace *trace, int32_t lanes, const char *name, int32_t *out);

#endif
