/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched_impl.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

/* The text is read twice: once to count and to know the largest stage and micro-batch, once to
 * fill. */

typedef struct reader {
    const char *at;
    const char *end;
    const char *line_start;
    int64_t line; /* from 1 */
    bool done;    /* the last action was followed by the end of the text */
} reader;

static reader reader_of(const char *text, int64_t bytes) {
    return (reader){text, text + bytes, text, 1, false};
}

/* --- Refusals --- */

/* What stands at `from`, up to the next blank or line end, short and printable. */
static void quote(const reader *in, const char *from, char *out, int bytes) {
    int n = 0;
    if (from == in->end)
        n = snprintf(out, (size_t)bytes, "the end of the text");
    else if (*from == '\n' || *from == '\r')
        n = snprintf(out, (size_t)bytes, "the end of the line");
    if (n > 0)
        return;
    out[n++] = '\'';
    do {
        out[n++] = *from >= ' ' && *from <= '~' ? *from : '?';
        from++;
    } while (n < bytes - 2 && from<in->end && * from> ' ');
    out[n++] = '\'';
    out[n] = 0;
}

static tpp_status refuse(const reader *in, const char *from, const char *expected) {
    char found[40];
    quote(in, from, found, sizeof found);
    return tpp__fail(TPP_ERR_PARSE, "line %lld, column %lld: found %s, expected %s",
                     (long long)in->line, (long long)(from - in->line_start) + 1, found, expected);
}

/* --- One action --- */

static bool is_digit(const reader *in, const char *at) {
    return at < in->end && *at >= '0' && *at <= '9';
}

/* A number below 2^20, written in one way only, so that reading and writing are inverses. */
static tpp_status read_number(reader *in, const char *what, int32_t *out) {
    const char *start = in->at;
    int32_t value = 0;
    for (; is_digit(in, in->at) && value < TPP__SCHED_MAX_STAGES; in->at++)
        value = 10 * value + (*in->at - '0');
    if (in->at == start || value >= TPP__SCHED_MAX_STAGES || (*start == '0' && in->at > start + 1))
        return refuse(in, start, what);
    *out = value;
    return TPP_OK;
}

static tpp_status read_op(reader *in, uint8_t *out) {
    static const uint8_t ops[] = {TPP_OP_F,      TPP_OP_B,      TPP_OP_I,      TPP_OP_W,
                                  TPP_OP_SEND_F, TPP_OP_RECV_F, TPP_OP_SEND_B, TPP_OP_RECV_B};
    const char *start = in->at, *stop = start;
    while (stop < in->end && ((*stop >= 'A' && *stop <= 'Z') || *stop == '_'))
        stop++;
    size_t length = (size_t)(stop - start);
    for (size_t i = 0; i < sizeof ops; i++) {
        const char *name = tpp__op_name(ops[i]);
        if (strlen(name) == length && memcmp(name, start, length) == 0) {
            in->at = stop;
            *out = ops[i];
            return TPP_OK;
        }
    }
    return refuse(in, start, "an operation (F, B, I, W, SEND_F, RECV_F, SEND_B or RECV_B)");
}

static tpp_status read_action(reader *in, tpp_action *out) {
    *out = (tpp_action){.peer = -1, .slot = -1};
    tpp_status status = read_number(in, "a stage, 0 .. 1048575 without leading zeros", &out->stage);
    if (status == TPP_OK)
        status = read_op(in, &out->op);
    if (status == TPP_OK)
        status = read_number(in, "a micro-batch, 0 .. 1048575 without leading zeros", &out->micro);
    return status;
}

/* --- From one action to the next --- */

static bool at_line_end(const reader *in) {
    return in->at < in->end &&
           (*in->at == '\n' || (*in->at == '\r' && in->at + 1 < in->end && in->at[1] == '\n'));
}

static void pass_line_end(reader *in) {
    in->at += *in->at == '\r' ? 2 : 1;
    in->line_start = in->at;
    in->line++;
}

/* True when only line ends are left; they are passed. */
static bool at_text_end(reader *in) {
    reader ahead = *in;
    while (at_line_end(&ahead))
        pass_line_end(&ahead);
    if (ahead.at < ahead.end)
        return false;
    *in = ahead;
    return true;
}

/* After an action: a blank and the line goes on, or its end; *ranks counts the lines that ended. */
static tpp_status read_separator(reader *in, int32_t *ranks) {
    in->done = at_text_end(in);
    if (in->done || at_line_end(in)) {
        if (!in->done)
            pass_line_end(in);
        ++*ranks;
        return TPP_OK;
    }
    if (*in->at != ' ')
        return refuse(in, in->at, "a blank or the end of the line");
    in->at++;
    return TPP_OK;
}

/* --- The two passes --- */

typedef struct extent {
    int32_t ranks, stages, micros;
    int64_t actions, messages;
} extent;

static tpp_status measure(const char *text, int64_t bytes, extent *out) {
    reader in = reader_of(text, bytes);
    tpp_action a;
    tpp_status status;
    do {
        if (out->ranks == TPP__SCHED_MAX_STAGES)
            return refuse(&in, in.at, "no more than 1048576 ranks");
        status = read_action(&in, &a);
        if (status == TPP_OK)
            status = read_separator(&in, &out->ranks);
        if (status < 0)
            return status;
        out->stages = a.stage >= out->stages ? a.stage + 1 : out->stages;
        out->micros = a.micro >= out->micros ? a.micro + 1 : out->micros;
        out->actions++;
        out->messages += tpp__sched_is_message(a.op);
    } while (!in.done);
    return TPP_OK;
}

static tpp_status fill_actions(tpp_schedule *s, const char *text, int64_t bytes) {
    reader in = reader_of(text, bytes);
    int32_t rank = 0;
    for (int32_t i = 0; i < s->stages; i++)
        s->rank_of[i] = -1;
    for (tpp_action *a = s->actions; !in.done; a++) {
        reader before = in;
        int32_t here = rank;
        tpp_status status = read_action(&in, a);
        if (status == TPP_OK)
            status = read_separator(&in, &rank);
        if (status < 0)
            return status;
        s->first[here + 1] = a + 1 - s->actions;
        int32_t *owner = s->rank_of + a->stage;
        if (*owner >= 0 && *owner != here)
            return tpp__fail(
                TPP_ERR_SCHEDULE,
                "line %lld, column %lld: stage %d is on rank %d already, so not on rank %d",
                (long long)before.line, (long long)(before.at - before.line_start) + 1, a->stage,
                *owner, here);
        *owner = here;
    }
    return TPP_OK;
}

static tpp_status place(tpp_schedule *s) {
    for (int32_t i = 0; i < s->stages; i++) {
        if (s->rank_of[i] < 0)
            return tpp__fail(TPP_ERR_SCHEDULE, "stage %d is on no rank, but stage %d is there", i,
                             s->stages - 1);
    }
    tpp_status status = tpp__sched_place(s);
    if (status < 0)
        return status;
    for (int64_t i = 0; i < s->first[s->ranks]; i++)
        tpp__sched_address(s, s->actions + i);
    return TPP_OK;
}

/* A text with messages is lowered; what is wrong in it is found by the check. */
static tpp_status build(tpp_schedule *s, const char *text, int64_t bytes, const extent *e) {
    tpp_status status = tpp__sched_reserve(s, e->actions);
    if (status == TPP_OK)
        status = fill_actions(s, text, bytes);
    if (status == TPP_OK)
        status = place(s);
    if (status < 0)
        return status;
    tpp__sched_traits(s);
    if (e->messages == 0)
        return TPP_OK;
    s->state = TPP__SCHED_LOWERED;
    s->messages = e->messages / 2;
    if (e->actions >=
        (int64_t)s->stages * s->micros) /* else incomplete, and not worth its tables */
        tpp__sched_slots(s, &status);
    return status;
}

tpp_status tpp_schedule_parse(tpp_schedule **out, const char *text, int64_t bytes,
                              const tpp_allocator *allocator) {
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a schedule pointer");
    *out = NULL;
    if (!text || bytes < 0)
        return tpp__fail(TPP_ERR_INVALID, "text is %s and bytes = %lld; valid: text and its length",
                         text ? "there" : "NULL", (long long)bytes);
    extent e = {0};
    tpp_allocator kept;
    tpp_schedule *s = NULL;
    tpp_status status = tpp__allocator_read(&kept, allocator);
    if (status == TPP_OK)
        status = measure(text, bytes, &e);
    if (status == TPP_OK)
        status = tpp__sched_new(&s, &kept, e.ranks, e.stages, e.micros);
    if (status == TPP_OK)
        status = build(s, text, bytes, &e);
    if (status < 0) {
        tpp_schedule_destroy(s);
        return status;
    }
    *out = s;
    return TPP_OK;
}
