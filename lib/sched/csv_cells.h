/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SCHED_CSV_CELLS_H
#define TPP_SCHED_CSV_CELLS_H

#include <stdbool.h>
#include <stdint.h>

/* Cells of a CSV text as Python's csv module cuts them: a comma ends a cell, LF, CR LF or CR a row;
 * a cell that begins with a quote goes on to the next single one, and two quotes in it are one.
 * Blanks around a cell's text are dropped. */

/* More than the longest action has; the rest of a cell is counted, not kept. */
#define TPP__CSV_KEPT 120

typedef struct tpp__csv {
    const char *at;
    const char *end;
    int64_t row, column; /* of the cell read last, from 1 */
    bool row_ended;      /* that cell was the last of its row */
    bool open_quote;     /* the text ended within its quotes */
    int32_t used;        /* kept characters */
    bool longer;         /* than what is kept */
    char cell[TPP__CSV_KEPT];
} tpp__csv;

/* A byte order mark at the beginning is passed. */
tpp__csv tpp__csv_of(const char *text, int64_t bytes);

/* True when nothing but blank lines is left. */
bool tpp__csv_at_end(const tpp__csv *csv);

/* True, and it is passed, when an empty line stands here: a row without cells. */
bool tpp__csv_empty_row(tpp__csv *csv);

/* Read the next cell. */
void tpp__csv_next(tpp__csv *csv);

#endif
