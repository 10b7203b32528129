/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "trace/svg.h"

#include "base/check.h"

#include <math.h>
#include <stdio.h>

#define TITLE_FONT 15.0
#define ROWS_HEIGHT 672.0 /* more rows than fit at full height become lower */

static tpp_status check_range(const char *name, double value, double least, double most) {
    if (value >= least && value <= most)
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID, "desc.%s = %g; valid: %g .. %g, or 0 for the default", name,
                     value, least, most);
}

static tpp_status check_sizes(tpp__svg *svg) {
    tpp_trace_svg_desc *desc = &svg->desc;
    if (desc->width == 0)
        desc->width = 1200;
    if (desc->row_height == 0)
        desc->row_height =
            fmin(svg->view.fused ? 38 : 28, fmax(9, ROWS_HEIGHT / tpp_trace_rows(svg->trace)));
    tpp_status status = check_range("width", desc->width, 200, 20000);
    if (status == TPP_OK)
        status = check_range("row_height", desc->row_height, 4, 200);
    return status;
}

static tpp_status check_chunks(tpp__svg *svg) {
    int32_t found = svg->view.chunks;
    if (svg->desc.chunks == 0)
        svg->desc.chunks = found;
    if (svg->desc.chunks >= found)
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID,
                     "desc.chunks = %d, but the trace has chunks up to %d; valid: "
                     "at least %d, or 0 to find it",
                     (int)svg->desc.chunks, (int)found - 1, (int)found);
}

static tpp_status check_window(tpp__svg *svg) {
    tpp_trace_svg_desc *desc = &svg->desc;
    if (desc->start == 0 && desc->end == 0) {
        desc->start = svg->view.first;
        desc->end = svg->view.last;
        if (desc->start == desc->end)
            return tpp__fail(TPP_ERR_INVALID,
                             "trace: all its events are at %g and take no time; set "
                             "desc.start and desc.end",
                             desc->start);
    }
    if (!isfinite(desc->start) || !isfinite(desc->end) || desc->end <= desc->start)
        return tpp__fail(TPP_ERR_INVALID, "desc.start = %g, desc.end = %g; end must be after start",
                         desc->start, desc->end);
    return TPP_OK;
}

/* Chooses how times are written; refuses those that the digits of a double cannot tell apart. */
static tpp_status choose_unit(tpp__svg *svg) {
    tpp_trace_svg_desc *desc = &svg->desc;
    double span = desc->end - desc->start;
    svg->origin = svg->view.first;
    svg->scale = 1;
    if (!desc->unit) {
        svg->scale = span >= 1 ? 1 : span >= 1e-3 ? 1e3 : 1e6;
        desc->unit = span >= 1 ? "s" : span >= 1e-3 ? "ms" : "\xc2\xb5s";
    }
    span *= svg->scale;
    double largest =
        fmax(fabs(desc->start - svg->origin), fabs(desc->end - svg->origin)) * svg->scale;
    if (!(span >= 1e-6) || !(largest <= 1e15) || largest / span > 1e9)
        return tpp__fail(
            TPP_ERR_INVALID,
            "desc.start = %g, desc.end = %g (counted from the first event: up to %g); the "
            "drawn time must be at least 1e-6 and 1e-9 of that, and that at most 1e15",
            desc->start, desc->end, largest);
    double places = 5 - floor(log10(span));
    svg->most = (int)fmin(9, fmax(0, places));
    return TPP_OK;
}

static tpp_status check(tpp__svg *svg, const tpp_trace *trace, const tpp_trace_svg_desc *desc) {
    const tpp_trace_svg_desc defaults = {.size = sizeof defaults};
    tpp_status status =
        tpp__sized_read(&svg->desc, sizeof svg->desc, 0, desc ? desc : &defaults, "desc");
    if (status < 0)
        return status;
    if (!trace)
        return tpp__fail(TPP_ERR_INVALID, "trace is NULL");
    svg->trace = trace;
    svg->view = tpp__trace_look(trace);
    if (svg->view.count == 0)
        return tpp__fail(TPP_ERR_INVALID, "trace has no events; a picture needs at least one");
    status = tpp__trace_lanes(trace, svg->desc.lanes, "desc.lanes", &svg->desc.lanes);
    if (status == TPP_OK)
        status = check_sizes(svg);
    if (status == TPP_OK)
        status = check_chunks(svg);
    if (status == TPP_OK)
        status = check_window(svg);
    return status == TPP_OK ? choose_unit(svg) : status;
}

static double title_height(tpp__svg *svg, bool draw) {
    if (!svg->desc.title)
        return 0;
    int lines = tpp__svg_lines(svg, svg->desc.title, TPP__SVG_PAD, TITLE_FONT,
                               "font-size=\"15\" font-weight=\"bold\"", draw);
    return lines > 0 ? lines * TITLE_FONT * 1.35 + 4 : 0;
}

static int digits(int32_t number) {
    return snprintf(NULL, 0, "%d", (int)number);
}

static void place(tpp__svg *svg) {
    int32_t rows = tpp_trace_rows(svg->trace);
    int32_t lanes = svg->desc.lanes;
    int64_t chars = 5 + digits(rows / lanes - 1) + (lanes > 1 ? 4 + digits(lanes - 1) : 0);
    svg->pitch = svg->desc.row_height;
    svg->apart = lanes > 1 ? fmin(6, svg->pitch * 0.3) : 0;
    double font = fmin(TPP__SVG_FONT, svg->pitch * 0.8);
    svg->left = ceil(TPP__SVG_PAD + tpp__svg_width(chars, font) + 8);
    svg->right = floor(svg->desc.width - TPP__SVG_PAD - tpp__svg_width(6, TPP__SVG_FONT) - 4);
    svg->top = TPP__SVG_PAD + title_height(svg, false) + 16;
    svg->bottom = tpp__svg_row_y(svg, rows - 1) + svg->pitch + 2;
    double sum = 0;
    for (int32_t r = 0; r < rows; r++)
        sum += tpp__svg_idle(svg, r);
    svg->mean = sum / rows;
}

static void pattern(tpp__svg *svg, const char *id, const char *back, const char *line, int angle) {
    tpp__text_f(&svg->text,
                "<pattern id=\"%s\" patternUnits=\"userSpaceOnUse\" width=\"5\" height=\"5\" "
                "patternTransform=\"rotate(%d)\"><rect width=\"5\" height=\"5\" fill=\"%s\"/>"
                "<path d=\"M0 2.5H5\" stroke=\"%s\"/></pattern>\n",
                id, angle, back, line);
}

static void begin(tpp__svg *svg, double height) {
    tpp__text *text = &svg->text;
    tpp__text_s(text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg "
                      "xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"");
    tpp__svg_number(text, svg->desc.width, 2);
    tpp__text_s(text, "\" height=\"");
    tpp__svg_number(text, height, 2);
    tpp__text_s(text, "\" viewBox=\"0 0 ");
    tpp__svg_number(text, svg->desc.width, 2);
    tpp__text_s(text, " ");
    tpp__svg_number(text, height, 2);
    tpp__text_s(text, "\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\" "
                      "font-size=\"12\" fill=\"#111\">\n<title>");
    const char *title = svg->desc.title;
    tpp__svg_escaped(text, title && *title ? title : "Pipeline trace", SIZE_MAX);
    tpp__text_s(text, "</title>\n<defs>\n");
    pattern(svg, "tpp-idle", "#f7f7f7", "#d4d4d4", -45);
    pattern(svg, "tpp-wait", "#f5eedc", "#e2d3ad", 45);
    tpp__text_s(text, "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
}

static void idle_heading(tpp__svg *svg) {
    tpp__text_s(&svg->text, "<text text-anchor=\"end\" x=\"");
    tpp__svg_number(&svg->text, svg->desc.width - TPP__SVG_PAD, 2);
    tpp__text_s(&svg->text, "\" y=\"");
    tpp__svg_number(&svg->text, svg->top - 6, 2);
    tpp__text_s(&svg->text, "\">idle</text>\n");
}

static void draw(tpp__svg *svg) {
    double legend = svg->bottom + 50;
    double caption = legend + tpp__svg_legend(svg, legend, false) + 10;
    begin(svg, ceil(caption + tpp__svg_caption(svg, caption, false) + TPP__SVG_PAD));
    title_height(svg, true);
    idle_heading(svg);
    for (int32_t r = 0; r < tpp_trace_rows(svg->trace) && svg->text.status == TPP_OK; r++)
        tpp__svg_row(svg, r);
    tpp__svg_axis(svg);
    tpp__svg_legend(svg, legend, true);
    tpp__svg_caption(svg, caption, true);
    tpp__text_s(&svg->text, "</svg>\n");
}

tpp_status tpp_trace_write_svg(const tpp_trace *trace, const tpp_trace_svg_desc *desc,
                               tpp_write_fn write, void *ctx) {
    tpp__svg svg = {0};
    tpp_status status = check(&svg, trace, desc);
    if (status < 0)
        return status;
    tpp__text_begin(&svg.text, write, ctx);
    if (svg.text.status < 0)
        return svg.text.status;
    place(&svg);
    draw(&svg);
    return tpp__text_end(&svg.text);
}
