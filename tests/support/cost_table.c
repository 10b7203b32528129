/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/cost_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Cut a line at its commas; returns what follows it. */
static char *cut(cost_table *table, char *line, int32_t row) {
    int32_t column = 0;
    table->cells[row][column++] = line;
    for (; *line && *line != '\n'; line++) {
        if (*line != ',')
            continue;
        *line = 0;
        assert_true(column < COST_COLUMNS);
        table->cells[row][column++] = line + 1;
    }
    char *next = *line ? line + 1 : line;
    *line = 0;
    if (row == 0)
        table->columns = column;
    assert_int_equal(column, table->columns);
    return next;
}

void cost_table_read(cost_table *table, const char *name) {
    const char *source = getenv("TPP_SOURCE_DIR");
    char path[512];
    snprintf(path, sizeof path, "%s/tests/data/cost/%s", source ? source : ".", name);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s is not there; run with TPP_SOURCE_DIR", path);
    size_t n = fread(table->text, 1, sizeof table->text, file);
    fclose(file);
    assert_true(n < sizeof table->text);
    table->text[n] = 0;
    table->rows = -1;
    for (char *line = table->text; *line;) {
        assert_true(table->rows < COST_ROWS);
        line = cut(table, line, ++table->rows);
    }
}

const char *cost_cell(const cost_table *table, int32_t row, const char *column) {
    assert_true(row >= 0 && row < table->rows);
    for (int32_t i = 0; i < table->columns; i++) {
        if (strcmp(table->cells[0][i], column) == 0)
            return table->cells[row + 1][i];
    }
    fail_msg("no column '%s'", column);
    return "";
}

double cost_number(const cost_table *table, int32_t row, const char *column) {
    const char *cell = cost_cell(table, row, column);
    char *end = NULL;
    double value = strtod(cell, &end);
    if (end == cell || *end)
        fail_msg("%s of row %d is no number: '%s'", column, (int)row, cell);
    return value;
}

int32_t cost_integer(const cost_table *table, int32_t row, const char *column) {
    double value = cost_number(table, row, column);
    assert_true(value == (int32_t)value);
    return (int32_t)value;
}

int32_t cost_row(const cost_table *table, const char *key) {
    for (int32_t i = 0; i < table->rows; i++) {
        if (strcmp(table->cells[i + 1][0], key) == 0)
            return i;
    }
    fail_msg("no row '%s'", key);
    return -1;
}
