/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "chart.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { COLUMNS = 60, LINES = 13 };

/* Where the numbers lie: line 0 is `top`, the last line is `bottom`. */
struct frame {
    int columns;
    double top, bottom;
    char cells[LINES][COLUMNS + 1];
    char labels[LINES][48];
};

static int line_of(const struct frame *frame, double value) {
    double share = (frame->top - value) / (frame->top - frame->bottom);
    return (int)(share * (LINES - 1) + 0.5);
}

static double column_mean(const struct history *history, int columns, int column) {
    return history_mean_loss(history, history->count * column / columns,
                             history->count * (column + 1) / columns);
}

static void set_range(struct frame *frame, const struct history *history,
                      const struct corpus *corpus) {
    frame->top = corpus->unigram;
    frame->bottom = corpus->bigram;
    for (int c = 0; c < frame->columns; c++) {
        double mean = column_mean(history, frame->columns, c);
        frame->top = fmax(frame->top, mean);
        frame->bottom = fmin(frame->bottom, mean);
    }
    frame->top += frame->top > frame->bottom ? 0 : 1;
}

static void draw_entropy(struct frame *frame, double value, const char *label) {
    int line = line_of(frame, value);
    memset(frame->cells[line], '-', (size_t)frame->columns);
    snprintf(frame->labels[line], sizeof frame->labels[line], "%s %.3f", label, value);
}

void chart_print(FILE *out, const struct history *history, const struct corpus *corpus) {
    struct frame frame;
    memset(&frame, 0, sizeof frame);
    frame.columns = history->count < COLUMNS ? (int)history->count : COLUMNS;
    if (frame.columns == 0) {
        return;
    }
    set_range(&frame, history, corpus);
    for (int line = 0; line < LINES; line++) {
        memset(frame.cells[line], ' ', (size_t)frame.columns);
    }
    draw_entropy(&frame, corpus->unigram, "unigram entropy");
    draw_entropy(&frame, corpus->bigram, "bigram entropy");
    for (int c = 0; c < frame.columns; c++) {
        frame.cells[line_of(&frame, column_mean(history, frame.columns, c))][c] = '*';
    }
    for (int line = 0; line < LINES; line++) {
        double value = frame.top - (frame.top - frame.bottom) * line / (LINES - 1);
        fprintf(out, "  %6.3f |%s|%s%s\n", value, frame.cells[line],
                frame.labels[line][0] ? " " : "", frame.labels[line]);
    }
    fprintf(out, "          1%*" PRId64 " steps\n", frame.columns - 1, history->count);
}
