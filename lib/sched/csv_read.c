/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "sched/assemble.h"
#include "sched/csv_cells.h"

#include <stdio.h>

/* Reads PyTorch's CSV: a row per rank, an action or nothing in each cell. */
typedef struct reader {
    const char *text;
    int64_t bytes;
    tpp__csv csv;
    uint32_t flags;
    bool in_row;
} reader;

static void where(void *ctx, char *out, size_t bytes) {
    const tpp__csv *csv = &((const reader *)ctx)->csv;
    snprintf(out, bytes, "row %lld, column %lld", (long long)csv->row, (long long)csv->column);
}

static void quote_cell(const tpp__csv *csv, char *out, int bytes) {
    tpp__scan_quote(csv->cell, csv->cell + csv->used, false, out, bytes);
}

static tpp_status refuse(const tpp__csv *csv, const char *from, const char *expected) {
    char cell[64], found[64], in[80] = "";
    const char *end = csv->cell + csv->used;
    quote_cell(csv, cell, sizeof cell);
    if (from > csv->cell)
        snprintf(in, sizeof in, "in %s ", cell);
    while (from < end && *from == ' ')
        from++;
    if (!tpp__scan_quote(from, end, false, found, sizeof found))
        snprintf(found, sizeof found, csv->longer ? "more" : "the end of the cell");
    return tpp__fail(TPP_ERR_PARSE, "row %lld, column %lld: %sfound %s, expected %s",
                     (long long)csv->row, (long long)csv->column, in, found, expected);
}

static tpp_status refuse_sharding(const tpp__csv *csv, const char *name) {
    char cell[64];
    quote_cell(csv, cell, sizeof cell);
    return tpp__fail(TPP_ERR_PARSE,
                     "row %lld, column %lld: %s: %s shards parameters, which a schedule does not "
                     "tell of; the flag TPP_CSV_SKIP_SHARDING leaves it out",
                     (long long)csv->row, (long long)csv->column, cell, name);
}

/* The atom in the cell just read. */
static int32_t read_cell(const reader *in, tpp__sched_atom *out) {
    tpp__scan scan = {.at = in->csv.cell, .end = in->csv.cell + in->csv.used, .csv = true};
    if (!tpp__scan_atom(&scan, out))
        return refuse(&in->csv, scan.bad, scan.expected);
    if (scan.at < scan.end || in->csv.longer)
        return refuse(&in->csv, scan.at, "the end of the cell");
    if (out->sharding && !(in->flags & TPP_CSV_SKIP_SHARDING))
        return refuse_sharding(&in->csv, out->sharding);
    return TPP__SCHED_ATOM;
}

static int32_t next(void *ctx, tpp__sched_atom *out) {
    reader *in = ctx;
    for (;;) {
        if (in->in_row && in->csv.row_ended) {
            in->in_row = false;
            return TPP__SCHED_ROW_END;
        }
        if (!in->in_row && tpp__csv_at_end(&in->csv))
            return TPP__SCHED_TEXT_END;
        if (!in->in_row && tpp__csv_empty_row(&in->csv))
            return TPP__SCHED_ROW_END;
        tpp__csv_next(&in->csv);
        in->in_row = true;
        if (in->csv.open_quote)
            return tpp__fail(TPP_ERR_PARSE,
                             "row %lld, column %lld: found the end of the text, expected a "
                             "closing '\"'",
                             (long long)in->csv.row, (long long)in->csv.column);
        if (in->csv.used > 0) /* else an idle slot */
            return read_cell(in, out);
    }
}

static void rewind_text(void *ctx) {
    reader *in = ctx;
    in->csv = tpp__csv_of(in->text, in->bytes);
    in->in_row = false;
}

tpp_status tpp_schedule_parse_csv(tpp_schedule **out, const char *text, int64_t bytes,
                                  uint32_t flags, const tpp_allocator *allocator) {
    tpp_status status = tpp__sched_check_text(out, text, bytes);
    if (status < 0)
        return status;
    if (flags & ~(uint32_t)(TPP_CSV_SKIP_SHARDING | TPP_CSV_TWO_WAY))
        return tpp__fail(TPP_ERR_INVALID,
                         "flags = %u; valid: 0, or of 4 (SKIP_SHARDING) and 8 (TWO_WAY)", flags);
    reader in = {.text = text, .bytes = bytes, .flags = flags};
    tpp__sched_source from = {rewind_text, next, where, &in, flags & TPP_CSV_TWO_WAY ? 2 : 1};
    return tpp__sched_assemble(out, &from, allocator);
}
