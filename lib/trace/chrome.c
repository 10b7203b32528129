/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <tpp/trace.h>

#include "base/check.h"
#include "base/text.h"
#include "trace/view.h"

#include <inttypes.h>
#include <math.h>

typedef struct chrome {
    const tpp_trace *trace;
    tpp__text text;
    double scale; /* microseconds of one unit of the trace */
    int32_t lanes;
    bool two_way;
    bool later; /* an entry has been written: the next one needs a comma */
} chrome;

static void comma(chrome *c) {
    tpp__text_s(&c->text, c->later ? ",\n" : "\n");
    c->later = true;
}

static void meta_name(chrome *c, const char *what, int32_t rank, int32_t thread) {
    comma(c);
    tpp__text_f(&c->text,
                "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"args\":{\"name\":\"",
                (int)rank, (int)thread, what);
}

static void write_names(chrome *c, int32_t row) {
    int32_t rank = row / c->lanes;
    int32_t lane = row % c->lanes;
    if (lane == 0) {
        meta_name(c, "process_name", rank, 0);
        tpp__text_f(&c->text, "rank %d\"}}", (int)rank);
        comma(c);
        tpp__text_f(&c->text,
                    "{\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"name\":\"process_sort_index\","
                    "\"args\":{\"sort_index\":%d}}",
                    (int)rank, (int)rank);
    }
    for (int32_t wait = 0; wait < 2; wait++) {
        meta_name(c, "thread_name", rank, lane * 2 + wait);
        if (c->lanes > 1)
            tpp__text_f(&c->text, "tp %d ", (int)lane);
        tpp__text_f(&c->text, "%s\"}}", wait ? "waits" : "compute");
    }
}

static double rounded(double microseconds) {
    return round(microseconds * 1e3) / 1e3;
}

/* The duration is the difference of rounded times: touching events still touch, none overlap. */
static void write_event(chrome *c, const tpp_event *event) {
    bool wait = tpp__trace_is_wait(event->op);
    double start = rounded(event->start * c->scale);
    double end = rounded(event->end * c->scale);
    comma(c);
    tpp__text_f(&c->text,
                "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":", (int)(event->row / c->lanes),
                (int)(event->row % c->lanes * 2 + wait));
    tpp__text_fixed(&c->text, start, 3);
    tpp__text_s(&c->text, ",\"dur\":");
    tpp__text_fixed(&c->text, end - start, 3);
    tpp__text_f(&c->text, ",\"name\":\"%s", tpp_op_name(event->op));
    if (event->micro >= 0)
        tpp__text_f(&c->text, " %d", (int)event->micro);
    tpp__text_f(&c->text, "\",\"cat\":\"%s\"", wait ? "wait" : "compute");
    tpp__text_f(&c->text, ",\"args\":{\"stage\":%d,\"micro\":%d,\"chunk\":%d,\"step\":%" PRIu64,
                (int)event->stage, (int)event->micro, (int)event->chunk, event->step);
    if (c->two_way)
        tpp__text_f(&c->text, ",\"direction\":%d", (int)event->direction);
    if (event->flags & TPP_EVENT_FUSED)
        tpp__text_s(&c->text, ",\"overlapped\":true");
    if (wait)
        tpp__text_f(&c->text, ",\"peer\":%d", (int)event->peer);
    tpp__text_s(&c->text, "}}");
}

static tpp_status check(chrome *c, const tpp_trace *trace, double scale, int32_t lanes) {
    if (!trace)
        return tpp__fail(TPP_ERR_INVALID, "trace is NULL");
    if (!isfinite(scale) || scale < 0)
        return tpp__fail(
            TPP_ERR_INVALID,
            "scale = %g; it must be the microseconds of one unit of time, or 0 for seconds", scale);
    c->trace = trace;
    c->scale = scale == 0 ? 1e6 : scale;
    tpp_status status = tpp__trace_lanes(trace, lanes, "lanes", &c->lanes);
    if (status < 0)
        return status;
    tpp__trace_view view = tpp__trace_look(trace);
    c->two_way = view.two_way;
    double largest = fmax(fabs(view.first), fabs(view.last)) * c->scale;
    if (largest > 1e15)
        return tpp__fail(TPP_ERR_INVALID,
                         "scale = %g makes the trace's latest moment %g microseconds; at most 1e15",
                         c->scale, largest);
    return TPP_OK;
}

tpp_status tpp_trace_write_chrome(const tpp_trace *trace, double scale, int32_t lanes,
                                  tpp_write_fn write, void *ctx) {
    chrome c = {0};
    tpp_status status = check(&c, trace, scale, lanes);
    if (status < 0)
        return status;
    tpp__text_begin(&c.text, write, ctx);
    tpp__text_s(&c.text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    for (int32_t r = 0; r < tpp_trace_rows(trace); r++)
        write_names(&c, r);
    for (int32_t r = 0; r < tpp_trace_rows(trace) && c.text.status == TPP_OK; r++) {
        int64_t count;
        const tpp_event *events = tpp_trace_events(trace, r, &count);
        for (int64_t i = 0; i < count; i++)
            write_event(&c, &events[i]);
    }
    tpp__text_s(&c.text, "\n]}\n");
    return tpp__text_end(&c.text);
}
