/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_COST_TABLE_H
#define TPP_SUPPORT_COST_TABLE_H

/* Tables of papers, in tests/data/cost: a line of names, then rows of cells, without quotes. */

#include <stdint.h>

enum { COST_COLUMNS = 20, COST_ROWS = 64, COST_BYTES = 8192 };

typedef struct cost_table {
    char text[COST_BYTES];
    const char *cells[COST_ROWS + 1][COST_COLUMNS]; /* row 0: names */
    int32_t rows, columns;                          /* without the names */
} cost_table;

/* Reads tests/data/cost/<name>; fails the test if it cannot. */
void cost_table_read(cost_table *table, const char *name);

/* A cell as it is printed, and as a number; fails the test if there is no such column. */
const char *cost_cell(const cost_table *table, int32_t row, const char *column);
double cost_number(const cost_table *table, int32_t row, const char *column);
int32_t cost_integer(const cost_table *table, int32_t row, const char *column);

/* The row whose first cell is `key`; fails the test if there is none. */
int32_t cost_row(const cost_table *table, const char *key);

#endif
