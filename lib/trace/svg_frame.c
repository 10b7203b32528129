/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "trace/svg.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- Axis --- */

typedef struct ticks {
    double step; /* 1, 2 or 5 times a power of ten, in shown time */
    int decimals;
} ticks;

/* Characters of the longest label. */
static int label_chars(double largest, int decimals) {
    int whole = largest < 10 ? 1 : (int)floor(log10(largest)) + 1;
    return whole + (decimals > 0 ? decimals + 1 : 0);
}

/* The smallest round step whose labels do not touch. */
static ticks choose_ticks(const tpp__svg *svg, double from, double to) {
    static const double mantissas[] = {1, 2, 5};
    double pixels = (svg->right - svg->left) / (to - from);
    int power = (int)floor(log10((to - from) / 1000));
    for (;; power++) {
        int decimals = power < 0 ? -power : 0;
        int chars = label_chars(fmax(fabs(from), fabs(to)), decimals) + (from < 0);
        double need = fmax(50, tpp__svg_width(chars, TPP__SVG_FONT) + 16);
        for (int i = 0; i < 3; i++) {
            double step = mantissas[i] * pow(10, power);
            if (step * pixels >= need || step > to - from)
                return (ticks){step, decimals};
        }
    }
}

static void tick(tpp__svg *svg, double x, double value, int decimals) {
    tpp__text_s(&svg->text, "<path d=\"M");
    tpp__svg_number(&svg->text, x, 2);
    tpp__text_s(&svg->text, " ");
    tpp__svg_number(&svg->text, svg->bottom, 2);
    tpp__text_s(&svg->text, "v5\" stroke=\"#444\"/><text class=\"tick\" x=\"");
    tpp__svg_number(&svg->text, x, 2);
    tpp__text_s(&svg->text, "\" y=\"");
    tpp__svg_number(&svg->text, svg->bottom + 18, 2);
    tpp__text_s(&svg->text, "\">");
    tpp__text_fixed(&svg->text, value, decimals);
    tpp__text_s(&svg->text, "</text>\n");
}

static void axis_name(tpp__svg *svg) {
    tpp__text_s(&svg->text, "<text x=\"");
    tpp__svg_number(&svg->text, (svg->left + svg->right) / 2, 2);
    tpp__text_s(&svg->text, "\" y=\"");
    tpp__svg_number(&svg->text, svg->bottom + 36, 2);
    tpp__text_s(&svg->text, "\">time");
    if (*svg->desc.unit) {
        tpp__text_s(&svg->text, " (");
        tpp__svg_escaped(&svg->text, svg->desc.unit, SIZE_MAX);
        tpp__text_s(&svg->text, ")");
    }
    tpp__text_s(&svg->text, "</text>\n");
}

void tpp__svg_axis(tpp__svg *svg) {
    double from = (svg->desc.start - svg->origin) * svg->scale;
    double to = (svg->desc.end - svg->origin) * svg->scale;
    ticks t = choose_ticks(svg, from, to);
    tpp__text_s(&svg->text, "<g text-anchor=\"middle\">\n<path d=\"M");
    tpp__svg_number(&svg->text, svg->left, 2);
    tpp__text_s(&svg->text, " ");
    tpp__svg_number(&svg->text, svg->bottom, 2);
    tpp__text_s(&svg->text, "H");
    tpp__svg_number(&svg->text, svg->right, 2);
    tpp__text_s(&svg->text, "\" stroke=\"#444\"/>\n");
    double slack = 1e-9 * (to - from); /* a tick at the very end must not fall to rounding */
    for (double i = ceil((from - slack) / t.step); i * t.step <= to + slack; i++) {
        double share = (i * t.step - from) / (to - from);
        tick(svg, svg->left + share * (svg->right - svg->left), i * t.step, t.decimals);
    }
    axis_name(svg);
    tpp__text_s(&svg->text, "</g>\n");
}

/* --- Legend --- */

/* Entries stand side by side and go on in the next line when there is no room. */
typedef struct flow {
    double x;
    double y;
    bool draw;
} flow;

#define SWATCH 14.0
#define MOST_SWATCHES 8

static void swatch(tpp__svg *svg, double x, double y, double width, double height) {
    tpp__text_s(&svg->text, "<rect x=\"");
    tpp__svg_number(&svg->text, x, 2);
    tpp__text_s(&svg->text, "\" y=\"");
    tpp__svg_number(&svg->text, y, 2);
    tpp__text_s(&svg->text, "\" width=\"");
    tpp__svg_number(&svg->text, width, 2);
    tpp__text_s(&svg->text, "\" height=\"");
    tpp__svg_number(&svg->text, height, 2);
    tpp__text_s(&svg->text, "\"");
}

/* Moves to the next line if `width` has no room in this one. */
static void make_room(const tpp__svg *svg, flow *at, double width) {
    if (at->x > TPP__SVG_PAD && at->x + width > svg->desc.width - TPP__SVG_PAD) {
        at->x = TPP__SVG_PAD;
        at->y += TPP__SVG_LINE + 2;
    }
}

static void entry_text(tpp__svg *svg, double x, double y, const char *name) {
    tpp__text_s(&svg->text, "<text x=\"");
    tpp__svg_number(&svg->text, x, 2);
    tpp__text_s(&svg->text, "\" y=\"");
    tpp__svg_number(&svg->text, y + 11.5, 2);
    tpp__text_f(&svg->text, "\">%s</text>\n", name);
}

/* A swatch per shade (chunk or direction) with its number in it; some of them when there are many. */
static void op_swatches(tpp__svg *svg, tpp_op op, double x, double y, int count, double width) {
    int32_t shades = tpp__svg_shades(svg);
    for (int i = 0; i < count; i++, x += width) {
        int32_t shade = count == 1 ? 0 : (int32_t)((int64_t)i * (shades - 1) / (count - 1));
        tpp__svg_paint paint = tpp__svg_paint_of(op, shade, shades);
        swatch(svg, x, y, width, SWATCH);
        tpp__text_f(&svg->text, " fill=\"#%06x\"/>\n", paint.fill);
        if (shades == 1 || shades > MOST_SWATCHES || width < 9)
            continue;
        tpp__text_s(&svg->text, "<text text-anchor=\"middle\" font-size=\"9\" x=\"");
        tpp__svg_number(&svg->text, x + width / 2, 2);
        tpp__text_s(&svg->text, "\" y=\"");
        tpp__svg_number(&svg->text, y + 10.3, 2);
        tpp__text_f(&svg->text, "\" fill=\"%s\">%d</text>\n", paint.light ? "#111" : "#fff",
                    (int)shade);
    }
}

static void op_entry(tpp__svg *svg, flow *at, tpp_op op, const char *what) {
    int32_t shades = tpp__svg_shades(svg);
    const char *by = svg->view.two_way ? ", by direction" : ", by chunk";
    char name[96];
    if (shades > MOST_SWATCHES)
        snprintf(name, sizeof name, "%s, chunk 0 (dark) to %d", what, (int)shades - 1);
    else
        snprintf(name, sizeof name, "%s%s", what, shades > 1 ? by : "");
    int count = shades < MOST_SWATCHES ? shades : MOST_SWATCHES;
    double text = tpp__svg_width((int64_t)strlen(name), TPP__SVG_FONT);
    double room = svg->desc.width - 2 * TPP__SVG_PAD - text - 6;
    double width = fmax(3, fmin(SWATCH, room / count));
    make_room(svg, at, count * width + 6 + text);
    if (at->draw) {
        op_swatches(svg, op, at->x, at->y, count, width);
        entry_text(svg, at->x + count * width + 6, at->y, name);
    }
    at->x += count * width + 6 + text + 14;
}

static void fill_entry(tpp__svg *svg, flow *at, const char *fill, const char *name) {
    double width = 2 * SWATCH + 6 + tpp__svg_width((int64_t)strlen(name), TPP__SVG_FONT);
    make_room(svg, at, width);
    if (at->draw) {
        swatch(svg, at->x, at->y, 2 * SWATCH, SWATCH);
        tpp__text_f(&svg->text, " fill=\"%s\" stroke=\"#ccc\" stroke-width=\".5\"/>\n", fill);
        entry_text(svg, at->x + 2 * SWATCH + 6, at->y, name);
    }
    at->x += width + 14;
}

static void pair_entry(tpp__svg *svg, flow *at) {
    static const char name[] = "overlapped pair: F above, B below";
    double width = 2 * SWATCH + 6 + tpp__svg_width((int64_t)sizeof name - 1, TPP__SVG_FONT);
    make_room(svg, at, width);
    for (int i = 0; i < 2 && at->draw; i++) {
        tpp_op op = i == 0 ? TPP_OP_F : TPP_OP_B;
        swatch(svg, at->x, at->y + i * SWATCH / 2, 2 * SWATCH, SWATCH / 2);
        tpp__text_f(&svg->text, " fill=\"#%06x\" stroke=\"#fff\" stroke-width=\".5\"/>\n",
                    tpp__svg_paint_of(op, 0, tpp__svg_shades(svg)).fill);
    }
    if (at->draw)
        entry_text(svg, at->x + 2 * SWATCH + 6, at->y, name);
    at->x += width + 14;
}

double tpp__svg_legend(tpp__svg *svg, double y, bool draw) {
    static const struct {
        tpp_op op;
        const char *what;
    } ops[] = {{TPP_OP_F, "F: forward"},
               {TPP_OP_B, "B: backward"},
               {TPP_OP_I, "I: input gradient"},
               {TPP_OP_W, "W: weight gradient"}};
    flow at = {TPP__SVG_PAD, y, draw};
    for (int i = 0; i < 4; i++) {
        if (svg->view.ops & 1u << ops[i].op)
            op_entry(svg, &at, ops[i].op, ops[i].what);
    }
    if (svg->view.fused)
        pair_entry(svg, &at);
    if (svg->view.ops & 1u << TPP_OP_STEP) {
        char grey[16];
        snprintf(grey, sizeof grey, "#%06x", tpp__svg_paint_of(TPP_OP_STEP, 0, 1).fill);
        fill_entry(svg, &at, grey, "optimizer step");
    }
    fill_entry(svg, &at, "url(#tpp-idle)", "idle");
    if (svg->view.ops & (1u << TPP_OP_RECV_F | 1u << TPP_OP_RECV_B))
        fill_entry(svg, &at, "url(#tpp-wait)", "waiting for message");
    return at.y + SWATCH - y;
}

/* --- Caption --- */

double tpp__svg_caption(tpp__svg *svg, double y, bool draw) {
    char text[320];
    long long mean = llround(svg->mean * 1000);
    int used = snprintf(text, sizeof text,
                        "idle: share of the drawn time in which the rank computes nothing "
                        "(mean %lld.%lld%%).",
                        mean / 10, mean % 10);
    if (tpp__svg_is_numbered(svg))
        used +=
            snprintf(text + used, sizeof text - (size_t)used, " Numbers in cells: micro-batches.");
    int64_t dropped = tpp_trace_dropped(svg->trace);
    if (dropped > 0)
        snprintf(text + used, sizeof text - (size_t)used,
                 " Incomplete: %lld events found their row full.", (long long)dropped);
    int lines = tpp__svg_lines(svg, text, y, 11, "font-size=\"11\" fill=\"#555\"", draw);
    return lines * 11 * 1.35;
}
