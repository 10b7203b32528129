/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "sched/assemble.h"

#include <stdio.h>
#include <string.h>

/* Reads the text form: a line per rank. */
typedef struct reader {
    tpp__scan scan;
    const char *begin; /* of the first rank's line */
    int64_t begin_line;
    const char *line_start;
    int64_t line;     /* from 1 */
    const char *atom; /* the last one read */
    bool in_row, done;
} reader;

static tpp_status refuse(const reader *in, const char *from, const char *expected) {
    char found[40];
    if (!tpp__scan_quote(from, in->scan.end, true, found, sizeof found))
        snprintf(found, sizeof found, "the end of the %s", from == in->scan.end ? "text" : "line");
    return tpp__fail(TPP_ERR_PARSE, "line %lld, column %lld: found %s, expected %s",
                     (long long)in->line, (long long)(from - in->line_start) + 1, found, expected);
}

static bool at_line_end(const tpp__scan *in) {
    return in->at < in->end &&
           (*in->at == '\n' || (*in->at == '\r' && in->at + 1 < in->end && in->at[1] == '\n'));
}

static void pass_line_end(reader *in) {
    in->scan.at += *in->scan.at == '\r' ? 2 : 1;
    in->line_start = in->scan.at;
    in->line++;
}

/* True when only line ends are left; they are passed. */
static bool at_text_end(reader *in) {
    reader ahead = *in;
    while (at_line_end(&ahead.scan))
        pass_line_end(&ahead);
    if (ahead.scan.at < ahead.scan.end)
        return false;
    *in = ahead;
    return true;
}

static int32_t end_row(reader *in) {
    in->done = at_text_end(in);
    if (!in->done)
        pass_line_end(in);
    in->in_row = false;
    return TPP__SCHED_ROW_END;
}

static int32_t next_atom(reader *in, tpp__sched_atom *out) {
    in->atom = in->scan.at;
    if (!tpp__scan_atom(&in->scan, out))
        return refuse(in, in->scan.bad, in->scan.expected);
    in->in_row = true;
    return TPP__SCHED_ATOM;
}

/* A "-" alone on its line: a rank without actions. */
static bool at_nothing(const reader *in) {
    tpp__scan ahead = in->scan;
    if (ahead.at == ahead.end || *ahead.at++ != '-')
        return false;
    return ahead.at == ahead.end || at_line_end(&ahead);
}

static int32_t next(void *ctx, tpp__sched_atom *out) {
    reader *in = ctx;
    if (in->done)
        return TPP__SCHED_TEXT_END;
    if (!in->in_row && at_nothing(in)) {
        in->scan.at++;
        return end_row(in);
    }
    if (!in->in_row)
        return next_atom(in, out);
    if (in->scan.at == in->scan.end || at_line_end(&in->scan))
        return end_row(in);
    if (*in->scan.at != ' ')
        return refuse(in, in->scan.at, "a blank or the end of the line");
    in->scan.at++;
    return next_atom(in, out);
}

static void rewind_text(void *ctx) {
    reader *in = ctx;
    in->scan.at = in->line_start = in->begin;
    in->line = in->begin_line;
    in->in_row = in->done = false;
}

static void where(void *ctx, char *out, size_t bytes) {
    const reader *in = ctx;
    snprintf(out, bytes, "line %lld, column %lld", (long long)in->line,
             (long long)(in->atom - in->line_start) + 1);
}

/* The optional first line "directions 2"; sets where the ranks' lines begin. */
static tpp_status read_directions(reader *in, int32_t *directions) {
    static const char word[] = "directions ";
    const size_t length = sizeof word - 1;
    *directions = 1;
    if ((size_t)(in->scan.end - in->scan.at) >= length && memcmp(in->scan.at, word, length) == 0) {
        in->scan.at += length;
        const char *number = in->scan.at;
        if (number < in->scan.end && *number == '2')
            *directions = *in->scan.at++ - '0';
        if (*directions != 2 || !at_line_end(&in->scan))
            return refuse(in, number, "2 and the end of the line");
        pass_line_end(in);
    }
    in->begin = in->scan.at;
    in->begin_line = in->line;
    return TPP_OK;
}

tpp_status tpp_schedule_parse(tpp_schedule **out, const char *text, int64_t bytes,
                              const tpp_allocator *allocator) {
    tpp_status status = tpp__sched_check_text(out, text, bytes);
    if (status < 0)
        return status;
    reader in = {.scan = {.at = text, .end = text + bytes}, .line_start = text, .line = 1};
    tpp__sched_source from = {rewind_text, next, where, &in, 1};
    status = read_directions(&in, &from.directions);
    return status < 0 ? status : tpp__sched_assemble(out, &from, allocator);
}
