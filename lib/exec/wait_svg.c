/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <tpp/deadlock.h>

/* All rows stand with the action they wait at in the same column; what the row before waits for is
 * shown too, behind dots when it is far off. */

enum {
    ROWS = 24,
    BEFORE = 4, /* actions shown before the one a rank stands at, and after it */
    AFTER = 4,
    CELL = 84,
    HIGH = 26,
    PITCH = 62,
    LEFT = 84,
    TOP = 64,
    COLUMNS = BEFORE + 1 + AFTER + 2 /* dots, and an action far off */
};

typedef struct drawing {
    const tpp_schedule *schedule;
    tpp_wait waits[ROWS];
    int64_t target[ROWS]; /* index of the action that the row before waits for */
    int32_t rows, all;
    tpp__text text;
} drawing;

static int32_t column_x(int64_t column) {
    return LEFT + (int32_t)column * CELL;
}

static int32_t row_y(int32_t row) {
    return TOP + row * PITCH;
}

/* Column of an action of a row. */
static int64_t column_of(const tpp_wait *wait, int64_t index) {
    int64_t column = BEFORE + index - wait->at;
    return column < BEFORE + 1 + AFTER ? column : COLUMNS - 1;
}

static void cell(drawing *d, int32_t row, int64_t index, const tpp_action *a) {
    const tpp_wait *wait = &d->waits[row];
    const char *kind = index < wait->at ? "done" : index == wait->at ? "here" : "never";
    int32_t x = column_x(column_of(wait, index)), y = row_y(row);
    tpp__text_f(&d->text,
                "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\"/>"
                "<text class=\"%s\" x=\"%d\" y=\"%d\">%d%s%d</text>\n",
                kind, x + 2, y, CELL - 4, HIGH, kind, x + CELL / 2, y + 17, a->stage,
                tpp_op_name(a->op), a->micro);
}

static void row(drawing *d, int32_t r) {
    const tpp_wait *wait = &d->waits[r];
    int64_t count;
    const tpp_action *a = tpp_schedule_actions(d->schedule, wait->rank, &count);
    tpp__text_f(&d->text, "<text class=\"rank\" x=\"%d\" y=\"%d\">rank %d</text>\n", LEFT - 10,
                row_y(r) + 17, wait->rank);
    int64_t first = wait->at > BEFORE ? wait->at - BEFORE : 0;
    for (int64_t i = first; i < count && i <= wait->at + AFTER; i++)
        cell(d, r, i, &a[i]);
    if (first > 0)
        tpp__text_f(&d->text, "<text class=\"dots\" x=\"%d\" y=\"%d\">&#8230;</text>\n", LEFT - 2,
                    row_y(r) + 17);
    if (d->target[r] <= wait->at + AFTER)
        return;
    tpp__text_f(&d->text, "<text class=\"dots\" x=\"%d\" y=\"%d\">&#8230;</text>\n",
                column_x(COLUMNS - 2) + CELL / 2, row_y(r) + 17);
    cell(d, r, d->target[r], &a[d->target[r]]);
}

/* From what a row stands at to what it waits for, in the next row; from the last one around. */
static void arrow(drawing *d, int32_t r) {
    int32_t to = (r + 1) % d->rows;
    int32_t x0 = column_x(BEFORE) + CELL / 2, y0 = row_y(r) + HIGH;
    int32_t x1 = column_x(column_of(&d->waits[to], d->target[to])) + CELL / 2, y1 = row_y(to) - 3;
    if (to > r) {
        tpp__text_f(&d->text, "<path class=\"wait\" d=\"M%d %dC%d %d %d %d %d %d\"/>\n", x0, y0, x0,
                    y0 + 22, x1, y1 - 22, x1, y1);
        return;
    }
    int32_t side = column_x(COLUMNS) + 14, low = y0 + 14, high = y1 - 14;
    tpp__text_f(&d->text,
                "<path class=\"wait\" d=\"M%d %dV%dH%dQ%d %d %d %dV%dQ%d %d %d %dH%dV%d\"/>\n", x0,
                y0, low, side - 8, side, low, side, low - 8, high + 8, side, high, side - 8, high,
                x1, y1);
}

static const char *const reasons[] = {
    [TPP_WAIT_MESSAGE] = "has not sent it",
    [TPP_WAIT_RECEIVER] = "has not come to receive it",
    [TPP_WAIT_CHANNEL] = "has not emptied the channel",
    [TPP_WAIT_SLOT] = "has not received what lies in the slot",
};

static void head(drawing *d) {
    int32_t width = column_x(COLUMNS) + 28, high = row_y(d->rows) + 34 + 18 * d->rows;
    tpp__text_f(&d->text,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                "viewBox=\"0 0 %d %d\" font-family=\"Helvetica, Arial, sans-serif\" "
                "font-size=\"12\">\n",
                width, high, width, high);
    tpp__text_s(&d->text,
                "<style>.done{fill:#d5e8d4}text.done{fill:#333}.here{fill:#b3261e}"
                "text.here{fill:#fff;font-weight:bold}.never{fill:#eee;stroke:#999;"
                "stroke-dasharray:3 2}text.never{fill:#555;stroke:none}text{text-anchor:middle}"
                "text.rank{text-anchor:end;fill:#000}text.dots{fill:#555}"
                ".wait{fill:none;stroke:#b3261e;stroke-width:1.6;marker-end:url(#tip)}"
                "text.word{text-anchor:start;fill:#333}.title{text-anchor:start;font-size:15px;"
                "font-weight:bold}</style>\n"
                "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" "
                "markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" "
                "fill=\"#b3261e\"/></marker></defs>\n"
                "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
    tpp__text_f(&d->text, "<text class=\"title\" x=\"12\" y=\"24\">%d ranks wait for each other",
                d->all);
    if (d->rows < d->all)
        tpp__text_f(&d->text, "; %d are drawn", d->rows);
    tpp__text_s(&d->text, "</text>\n");
}

/* Below the rows, a line for each: what it waits for and why. */
static void words(drawing *d) {
    for (int32_t r = 0; r < d->rows; r++) {
        const tpp_wait *wait = &d->waits[r];
        const tpp_action *a = tpp_schedule_actions(d->schedule, wait->rank, NULL) + wait->at;
        tpp__text_f(&d->text,
                    "<text class=\"word\" x=\"12\" y=\"%d\">rank %d stands at %d%s%d: rank %d %s",
                    row_y(d->rows) + 20 + 18 * r, wait->rank, a->stage, tpp_op_name(a->op),
                    a->micro, wait->peer, reasons[wait->reason]);
        if (wait->until_op != 0)
            tpp__text_f(&d->text, " (%d%s%d)", wait->until_stage, tpp_op_name(wait->until_op),
                        wait->until_micro);
        tpp__text_s(&d->text, "</text>\n");
    }
}

/* What each row is waited for: an action still to come, or the one that it stands at. */
static void find_targets(drawing *d) {
    for (int32_t r = 0; r < d->rows; r++) {
        int32_t to = (r + 1) % d->rows;
        const tpp_wait *wait = &d->waits[r], *peer = &d->waits[to];
        int64_t count;
        const tpp_action *a = tpp_schedule_actions(d->schedule, peer->rank, &count);
        d->target[to] = peer->at;
        for (int64_t i = peer->at; i < count && wait->peer == peer->rank; i++) {
            if (a[i].op == wait->until_op && a[i].stage == wait->until_stage &&
                a[i].micro == wait->until_micro) {
                d->target[to] = i;
                break;
            }
        }
    }
}

tpp_status tpp_schedule_write_wait_svg(const tpp_schedule *schedule, tpp_channel channel,
                                       int32_t capacity, tpp_write_fn write, void *ctx) {
    drawing d = {.schedule = schedule};
    if (!write)
        return tpp__fail(TPP_ERR_INVALID, "write is NULL; it must be the sink");
    tpp_status status = tpp_schedule_wait_cycle(schedule, channel, capacity, d.waits, ROWS, &d.all);
    if (status < 0)
        return status;
    if (d.all == 0)
        return tpp__fail(TPP_ERR_INVALID, "no ranks wait for each other; there is nothing to draw");
    d.rows = d.all < ROWS ? d.all : ROWS;
    find_targets(&d);
    tpp__text_begin(&d.text, write, ctx);
    head(&d);
    for (int32_t r = 0; r < d.rows; r++)
        row(&d, r);
    for (int32_t r = 0; r < (d.rows < d.all ? d.rows - 1 : d.rows); r++)
        arrow(&d, r);
    words(&d);
    tpp__text_s(&d.text, "</svg>\n");
    return tpp__text_end(&d.text);
}
