/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/csv_cells.h"

#include <string.h>

tpp__csv tpp__csv_of(const char *text, int64_t bytes) {
    static const char mark[] = "\xef\xbb\xbf"; /* spreadsheets write one */
    bool marked = bytes >= 3 && memcmp(text, mark, 3) == 0;
    return (tpp__csv){.at = text + (marked ? 3 : 0), .end = text + bytes, .row_ended = true};
}

static bool at_line_end(const tpp__csv *csv) {
    return csv->at < csv->end && (*csv->at == '\n' || *csv->at == '\r');
}

static void pass_line_end(tpp__csv *csv) {
    bool two = *csv->at == '\r' && csv->at + 1 < csv->end && csv->at[1] == '\n';
    csv->at += two ? 2 : 1;
}

bool tpp__csv_at_end(const tpp__csv *csv) {
    tpp__csv ahead = *csv;
    while (at_line_end(&ahead))
        pass_line_end(&ahead);
    return csv->row_ended && ahead.at == ahead.end;
}

bool tpp__csv_empty_row(tpp__csv *csv) {
    if (!csv->row_ended || !at_line_end(csv))
        return false;
    pass_line_end(csv);
    csv->row++;
    return true;
}

/* --- One cell --- */

static bool is_blank(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* `blanks`: of the cell, since its last other character; they are kept once another follows. */
static void keep(tpp__csv *csv, char c, int32_t *blanks) {
    if (is_blank(c)) {
        *blanks += csv->used > 0;
        return;
    }
    for (; *blanks > 0; --*blanks) {
        if (csv->used < TPP__CSV_KEPT)
            csv->cell[csv->used++] = ' ';
    }
    csv->longer = csv->longer || csv->used == TPP__CSV_KEPT;
    if (csv->used < TPP__CSV_KEPT)
        csv->cell[csv->used++] = c;
}

/* From behind the opening quote to behind the closing one. */
static void read_quoted(tpp__csv *csv, int32_t *blanks) {
    for (; csv->at < csv->end; csv->at++) {
        bool quote = *csv->at == '"';
        if (quote && !(csv->at + 1 < csv->end && csv->at[1] == '"')) {
            csv->at++;
            return;
        }
        csv->at += quote;
        keep(csv, *csv->at, blanks);
    }
    csv->open_quote = true;
}

void tpp__csv_next(tpp__csv *csv) {
    int32_t blanks = 0;
    csv->column = csv->row_ended ? 1 : csv->column + 1;
    csv->row += csv->row_ended;
    csv->used = 0;
    csv->longer = false;
    if (csv->at < csv->end && *csv->at == '"') {
        csv->at++;
        read_quoted(csv, &blanks);
    }
    for (; csv->at < csv->end && *csv->at != ',' && !at_line_end(csv); csv->at++)
        keep(csv, *csv->at, &blanks);
    csv->row_ended = csv->at == csv->end || *csv->at != ',';
    if (csv->at == csv->end)
        return;
    if (*csv->at == ',')
        csv->at++;
    else
        pass_line_end(csv);
}
