/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/action_scan.h"

#include "base/check.h"
#include "sched/sched_impl.h"

#include <string.h>

#define OVERLAP "OVERLAP_F_B"
#define PAIR "(0F3;7B1)" OVERLAP

static bool refuse(tpp__scan *in, const char *from, const char *expected) {
    in->bad = from;
    in->expected = expected;
    return false;
}

static bool is_digit(const tpp__scan *in) {
    return in->at < in->end && *in->at >= '0' && *in->at <= '9';
}

/* A number below 2^20, written in one way only, so that reading and writing are inverses. */
static bool scan_number(tpp__scan *in, const char *what, int32_t *out) {
    const char *start = in->at;
    int32_t value = 0;
    for (; is_digit(in) && value < TPP__SCHED_MAX_STAGES; in->at++)
        value = 10 * value + (*in->at - '0');
    if (in->at == start || value >= TPP__SCHED_MAX_STAGES || (*start == '0' && in->at > start + 1))
        return refuse(in, start, what);
    *out = value;
    return true;
}

static bool is_word(const tpp__scan *in, const char *stop, const char *word) {
    size_t length = (size_t)(stop - in->at);
    return strlen(word) == length && memcmp(word, in->at, length) == 0;
}

/* The end of the letters that stand here. */
static const char *word_end(const tpp__scan *in) {
    const char *stop = in->at;
    while (stop < in->end && ((*stop >= 'A' && *stop <= 'Z') || *stop == '_'))
        stop++;
    return stop;
}

static const char *sharding_name(const tpp__scan *in, const char *stop) {
    static const char *const names[] = {"UNSHARD", "RESHARD", "REDUCE_GRAD"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (is_word(in, stop, names[i]))
            return names[i];
    }
    return NULL;
}

/* An operation, or sharding: then *sharding is its name. */
static bool scan_op(tpp__scan *in, uint8_t *out, const char **sharding) {
    static const uint8_t ops[] = {TPP_OP_F,      TPP_OP_B,      TPP_OP_I,      TPP_OP_W,
                                  TPP_OP_SEND_F, TPP_OP_RECV_F, TPP_OP_SEND_B, TPP_OP_RECV_B};
    const char *stop = word_end(in);
    bool found = false;
    for (size_t i = 0; i < sizeof ops && !found; i++) {
        *out = ops[i];
        found = is_word(in, stop, tpp_op_name(ops[i]));
    }
    *sharding = in->csv && !found ? sharding_name(in, stop) : NULL;
    if (!found && !*sharding)
        return refuse(in, in->at, "an operation (F, B, I, W, SEND_F, RECV_F, SEND_B or RECV_B)");
    in->at = stop;
    return true;
}

static bool scan_action(tpp__scan *in, tpp_action *out, const char **sharding) {
    *out = (tpp_action){.peer = -1, .slot = -1};
    if (!scan_number(in, "a stage, 0 .. 1048575 without leading zeros", &out->stage) ||
        !scan_op(in, &out->op, sharding))
        return false;
    if (*sharding && !is_digit(in))
        return true;
    return scan_number(in, "a micro-batch, 0 .. 1048575 without leading zeros", &out->micro);
}

/* --- Pairs --- */

static void skip_blanks(tpp__scan *in) {
    while (in->csv && in->at < in->end && (*in->at == ' ' || *in->at == '\t'))
        in->at++;
}

static bool scan_half(tpp__scan *in, tpp_action *out, uint8_t op, const char *expected) {
    const char *sharding, *start = in->at;
    if (!scan_action(in, out, &sharding))
        return false;
    return out->op == op && !sharding ? true : refuse(in, start, expected);
}

static bool scan_char(tpp__scan *in, char c, const char *expected) {
    skip_blanks(in);
    if (in->at == in->end || *in->at != c)
        return refuse(in, in->at, expected);
    in->at++;
    return true;
}

/* From behind the "(". */
static bool scan_pair(tpp__scan *in, tpp__sched_atom *out) {
    skip_blanks(in);
    if (!scan_half(in, &out->actions[0], TPP_OP_F, "an F, as in " PAIR) ||
        !scan_char(in, ';', "';', as in " PAIR))
        return false;
    skip_blanks(in);
    if (!scan_half(in, &out->actions[1], TPP_OP_B, "a B, as in " PAIR) ||
        !scan_char(in, ')', "')', as in " PAIR))
        return false;
    const char *stop = word_end(in);
    if (!is_word(in, stop, OVERLAP))
        return refuse(in, in->at, OVERLAP);
    in->at = stop;
    out->actions[0].flags = TPP_ACTION_FUSED;
    out->count = 2;
    return true;
}

bool tpp__scan_atom(tpp__scan *in, tpp__sched_atom *out) {
    out->sharding = NULL;
    if (in->at < in->end && *in->at == '(') {
        in->at++;
        return scan_pair(in, out);
    }
    if (!scan_action(in, &out->actions[0], &out->sharding))
        return false;
    out->count = out->sharding ? 0 : 1;
    return true;
}

/* --- What is said and written --- */

bool tpp__scan_quote(const char *from, const char *end, bool word, char *out, int bytes) {
    if (from == end || *from == '\n' || *from == '\r')
        return false;
    int n = 0;
    out[n++] = '\'';
    do {
        out[n++] = *from >= ' ' && *from <= '~' ? *from : '?';
        from++;
    } while (n < bytes - 2 && from < end && (!word || *from < 0 || *from > ' '));
    out[n++] = '\'';
    out[n] = 0;
    return true;
}

int tpp__sched_put_atom(tpp__text *text, const tpp_action *a, int64_t left) {
    const tpp_action *b = a + 1;
    if (!(a->flags & TPP_ACTION_FUSED) || left < 2) {
        tpp__text_f(text, "%d%s%d", a->stage, tpp_op_name(a->op), a->micro);
        return 1;
    }
    tpp__text_f(text, "(%dF%d;%dB%d)" OVERLAP, a->stage, a->micro, b->stage, b->micro);
    return 2;
}
