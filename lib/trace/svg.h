/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TRACE_SVG_H
#define TPP_TRACE_SVG_H

#include "base/text.h"
#include "trace/view.h"

#include <stddef.h>

/* A picture on its way to the sink: what is drawn, and where everything stands (in pixels). */
typedef struct tpp__svg {
    const tpp_trace *trace;
    tpp_trace_svg_desc desc; /* without defaults: every field says what is drawn */
    tpp__trace_view view;
    tpp__text text;
    double origin; /* the moment that the axis calls 0 */
    double scale;  /* shown time = (time - origin) * scale */
    int most;      /* most decimals of a shown time */
    double left;   /* the time area: desc.start .. desc.end */
    double right;
    double top; /* the rows */
    double bottom;
    double pitch; /* from one row to the next */
    double apart; /* additional room between pipeline ranks that have lanes */
    double mean;  /* idle share of all rows */
} tpp__svg;

/* Distances that several parts agree on. */
#define TPP__SVG_PAD 12.0
#define TPP__SVG_FONT 12.0
#define TPP__SVG_LINE 18.0

/* svg_text.c: characters and numbers. */

/* Rough width of `chars` characters, on the safe side for the usual sans-serif fonts. */
double tpp__svg_width(int64_t chars, double font);

/* At most `bytes` bytes of a caller's string as XML; what XML forbids becomes a space or '?'. */
void tpp__svg_escaped(tpp__text *text, const char *string, size_t bytes);

/* A number without trailing zeros. */
void tpp__svg_number(tpp__text *text, double value, int most);

/* Lines of text from y down, broken at spaces; returns their number. Only counts unless `draw`. */
int tpp__svg_lines(tpp__svg *svg, const char *string, double y, double font, const char *attributes,
                   bool draw);

/* svg_color.c */

typedef struct tpp__svg_paint {
    uint32_t fill; /* 0xRRGGBB */
    bool light;    /* text on it is black, not white */
} tpp__svg_paint;

/* Shade 0 .. shades - 1 of an operation. */
tpp__svg_paint tpp__svg_paint_of(tpp_op op, int32_t shade, int32_t shades);

/* How many shades there are: directions if there are two, else chunks; that of an event. */
int32_t tpp__svg_shades(const tpp__svg *svg);
tpp__svg_paint tpp__svg_paint_event(const tpp__svg *svg, const tpp_event *event);

/* svg_rows.c */

/* Share of the drawn time in which the row computes nothing. */
double tpp__svg_idle(const tpp__svg *svg, int32_t row);

/* Upper edge of a row. */
double tpp__svg_row_y(const tpp__svg *svg, int32_t row);

/* True when at least one cell has room for its number. */
bool tpp__svg_is_numbered(const tpp__svg *svg);

void tpp__svg_row(tpp__svg *svg, int32_t row);

/* svg_frame.c */

void tpp__svg_axis(tpp__svg *svg);

/* From y down; both return the height, and only measure unless `draw`. */
double tpp__svg_legend(tpp__svg *svg, double y, bool draw);
double tpp__svg_caption(tpp__svg *svg, double y, bool draw);

#endif
