/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "trace/svg.h"

#include "base/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define LEAST_FONT 5.5 /* nobody reads smaller digits */

/* The part of an event that lies in the drawn time; false when it lies outside. */
static bool clip(const tpp__svg *svg, const tpp_event *event, double *start, double *end) {
    *start = fmax(event->start, svg->desc.start);
    *end = fmin(event->end, svg->desc.end);
    return *start < *end || (event->start == event->end && *start == *end);
}

static double x_of(const tpp__svg *svg, double time) {
    double share = (time - svg->desc.start) / (svg->desc.end - svg->desc.start);
    return round((svg->left + share * (svg->right - svg->left)) * 100) / 100;
}

static double bar_height(const tpp__svg *svg) {
    return svg->pitch * 0.86;
}

/* The halves of an overlapped pair share the bar, F above. */
static double cell_height(const tpp__svg *svg, const tpp_event *event) {
    return bar_height(svg) / (event->flags & TPP_EVENT_FUSED ? 2 : 1);
}

static double cell_top(const tpp__svg *svg, const tpp_event *event) {
    return tpp__trace_is_second(event) ? cell_height(svg, event) : 0;
}

static double cell_font(const tpp__svg *svg, const tpp_event *event) {
    return fmin(11, cell_height(svg, event) * 0.8);
}

double tpp__svg_idle(const tpp__svg *svg, int32_t row) {
    double busy = 0;
    int64_t count;
    const tpp_event *events = tpp_trace_events(svg->trace, row, &count);
    for (int64_t i = 0; i < count; i++) {
        double start, end;
        if (!tpp__trace_is_wait(events[i].op) && !tpp__trace_is_second(&events[i]) &&
            clip(svg, &events[i], &start, &end))
            busy += end - start;
    }
    return fmax(0, 1 - busy / (svg->desc.end - svg->desc.start));
}

/* The micro-batch of a cell as text; its length, or 0 when the cell has no room for it. */
static int number_of(const tpp__svg *svg, const tpp_event *event, char out[16]) {
    double start, end;
    double font = cell_font(svg, event);
    if (event->micro < 0 || tpp__trace_is_wait(event->op) || font < LEAST_FONT ||
        !clip(svg, event, &start, &end))
        return 0;
    int digits = snprintf(out, 16, "%d", (int)event->micro);
    double need = digits * font * 0.64 + 2.2; /* about 8 pixels a digit at full size */
    /* Of the times: with rounded edges, cells of one width would not get the same answer. */
    double width = (end - start) / (svg->desc.end - svg->desc.start) * (svg->right - svg->left);
    return width >= need ? digits : 0;
}

bool tpp__svg_is_numbered(const tpp__svg *svg) {
    for (int32_t r = 0; r < tpp_trace_rows(svg->trace); r++) {
        int64_t count;
        const tpp_event *events = tpp_trace_events(svg->trace, r, &count);
        for (int64_t i = 0; i < count; i++) {
            char digits[16];
            if (number_of(svg, &events[i], digits) > 0)
                return true;
        }
    }
    return false;
}

static void attribute(tpp__svg *svg, const char *name, double value) {
    tpp__text_f(&svg->text, " %s=\"", name);
    tpp__svg_number(&svg->text, value, 2);
    tpp__text_s(&svg->text, "\"");
}

static void tooltip(tpp__svg *svg, const tpp_event *event) {
    tpp__text *text = &svg->text;
    tpp__text_f(text, "<title>%s", tpp_op_name(event->op));
    if (event->op != TPP_OP_STEP) {
        tpp__text_f(text, ", stage %d", (int)event->stage);
        if (svg->desc.chunks > 1)
            tpp__text_f(text, " (chunk %d)", (int)event->chunk);
        tpp__text_f(text, ", micro-batch %d", (int)event->micro);
    }
    if (event->step > 0)
        tpp__text_f(text, ", step %" PRIu64, event->step);
    tpp__text_s(text, tpp__trace_is_wait(event->op) ? ": waited from " : ": ");
    tpp__svg_number(text, (event->start - svg->origin) * svg->scale, svg->most);
    tpp__text_s(text, " to ");
    tpp__svg_number(text, (event->end - svg->origin) * svg->scale, svg->most);
    tpp__text_s(text, *svg->desc.unit ? " " : "");
    tpp__svg_escaped(text, svg->desc.unit, SIZE_MAX);
    if (tpp__trace_is_wait(event->op) && event->peer >= 0)
        tpp__text_f(text, " for rank %d", (int)event->peer);
    tpp__text_s(text, "</title>");
}

/* A white edge parts cells of one colour; of cells a few pixels wide it would leave nothing. */
static void cell(tpp__svg *svg, const tpp_event *event) {
    double start, end;
    if (!clip(svg, event, &start, &end))
        return;
    double x = x_of(svg, start);
    double width = x_of(svg, end) - x;
    bool wait = tpp__trace_is_wait(event->op);
    tpp__text_f(&svg->text, "<rect class=\"cell %s\"", tpp_op_name(event->op));
    attribute(svg, "x", x);
    attribute(svg, "width", width);
    if (tpp__trace_is_second(event))
        attribute(svg, "y", cell_top(svg, event));
    attribute(svg, "height", cell_height(svg, event));
    if (wait)
        tpp__text_s(&svg->text, " fill=\"url(#tpp-wait)\"");
    else
        tpp__text_f(&svg->text, " fill=\"#%06x\"", tpp__svg_paint_event(svg, event).fill);
    if (!wait && width >= 4)
        tpp__text_s(&svg->text, " stroke=\"#fff\"");
    tpp__text_s(&svg->text, ">");
    tooltip(svg, event);
    tpp__text_s(&svg->text, "</rect>\n");
}

static void cells(tpp__svg *svg, int32_t row, bool waits) {
    int64_t count;
    const tpp_event *events = tpp_trace_events(svg->trace, row, &count);
    for (int64_t i = 0; i < count && svg->text.status == TPP_OK; i++) {
        if (tpp__trace_is_wait(events[i].op) == waits)
            cell(svg, &events[i]);
    }
}

static void numbers(tpp__svg *svg, int32_t row) {
    int64_t count;
    const tpp_event *events = tpp_trace_events(svg->trace, row, &count);
    tpp__text_s(&svg->text, "<g text-anchor=\"middle\" pointer-events=\"none\"");
    attribute(svg, "font-size", fmin(11, bar_height(svg) * 0.8));
    tpp__text_s(&svg->text, ">\n");
    for (int64_t i = 0; i < count && svg->text.status == TPP_OK; i++) {
        const tpp_event *event = &events[i];
        char digits[16];
        double start, end;
        if (!clip(svg, event, &start, &end) || number_of(svg, event, digits) == 0)
            continue;
        tpp__text_s(&svg->text, "<text");
        attribute(svg, "x", (x_of(svg, start) + x_of(svg, end)) / 2);
        double font = cell_font(svg, event);
        attribute(svg, "y", cell_top(svg, event) + cell_height(svg, event) / 2 + font * 0.36);
        if (event->flags & TPP_EVENT_FUSED)
            attribute(svg, "font-size", font);
        bool light = tpp__svg_paint_event(svg, event).light;
        tpp__text_f(&svg->text, "%s>%s</text>\n", light ? "" : " fill=\"#fff\"", digits);
    }
    tpp__text_s(&svg->text, "</g>\n");
}

/* The row's name on the left, its idle share on the right. */
static void margins(tpp__svg *svg, int32_t row) {
    int32_t lanes = svg->desc.lanes;
    double font = fmin(TPP__SVG_FONT, svg->pitch * 0.8);
    double y = bar_height(svg) / 2 + font * 0.36;
    tpp__text_s(&svg->text, "<g text-anchor=\"end\"");
    attribute(svg, "font-size", font);
    tpp__text_s(&svg->text, "><text");
    attribute(svg, "x", svg->left - 8);
    attribute(svg, "y", y);
    tpp__text_f(&svg->text, ">rank %d", (int)(row / lanes));
    if (lanes > 1)
        tpp__text_f(&svg->text, " tp %d", (int)(row % lanes));
    tpp__text_s(&svg->text, "</text><text class=\"idle\"");
    attribute(svg, "x", svg->desc.width - TPP__SVG_PAD);
    attribute(svg, "y", y);
    tpp__text_s(&svg->text, ">");
    tpp__text_fixed(&svg->text, tpp__svg_idle(svg, row) * 100, 1);
    tpp__text_s(&svg->text, "%</text></g>\n");
}

double tpp__svg_row_y(const tpp__svg *svg, int32_t row) {
    int32_t rank = row / svg->desc.lanes;
    return svg->top + row * svg->pitch + rank * svg->apart;
}

void tpp__svg_row(tpp__svg *svg, int32_t row) {
    tpp__text_s(&svg->text, "<g transform=\"translate(0 ");
    tpp__svg_number(&svg->text, tpp__svg_row_y(svg, row), 2);
    tpp__text_s(&svg->text, ")\">\n");
    margins(svg, row);
    tpp__text_s(&svg->text, "<rect fill=\"url(#tpp-idle)\"");
    attribute(svg, "x", svg->left);
    attribute(svg, "width", svg->right - svg->left);
    attribute(svg, "height", bar_height(svg));
    tpp__text_s(&svg->text, "/>\n");
    cells(svg, row, true);
    cells(svg, row, false);
    numbers(svg, row);
    tpp__text_s(&svg->text, "</g>\n");
}
