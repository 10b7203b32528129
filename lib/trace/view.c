/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "trace/view.h"

#include "base/check.h"

#include <math.h>

static void include(tpp__trace_view *view, const tpp_event *event) {
    view->first = view->count == 0 ? event->start : fmin(view->first, event->start);
    view->last = view->count == 0 ? event->end : fmax(view->last, event->end);
    if (event->chunk >= view->chunks)
        view->chunks = event->chunk < INT32_MAX ? event->chunk + 1 : INT32_MAX;
    view->ops |= 1u << event->op;
    view->two_way = view->two_way || event->direction == 1;
    view->fused = view->fused || event->flags & TPP_EVENT_FUSED;
    view->count++;
}

tpp__trace_view tpp__trace_look(const tpp_trace *trace) {
    tpp__trace_view view = {.chunks = 1};
    for (int32_t r = 0; r < tpp_trace_rows(trace); r++) {
        int64_t count;
        const tpp_event *events = tpp_trace_events(trace, r, &count);
        for (int64_t i = 0; i < count; i++)
            include(&view, &events[i]);
    }
    return view;
}

bool tpp__trace_is_second(const tpp_event *event) {
    return event->flags & TPP_EVENT_FUSED && event->op == TPP_OP_B;
}

bool tpp__trace_is_wait(tpp_op op) {
    return op == TPP_OP_RECV_F || op == TPP_OP_RECV_B;
}

tpp_status tpp__trace_lanes(const tpp_trace *trace, int32_t lanes, const char *name, int32_t *out) {
    int32_t rows = tpp_trace_rows(trace);
    *out = lanes == 0 ? 1 : lanes;
    if (lanes >= 0 && rows % *out == 0)
        return TPP_OK;
    char valid[200];
    tpp__divisors(rows, valid, sizeof valid);
    return tpp__fail(TPP_ERR_INVALID, "%s = %d does not divide the trace's %d rows; valid: %s",
                     name, (int)lanes, (int)rows, valid);
}
