/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "say.h"

enum { MOST_ROWS = 64, FIRST_VALUE = 256, LIST_BYTES = 512 };

static int starts_like_number(const char *text) {
    return isdigit((unsigned char)text[0]) || strchr("+-.", text[0]);
}

static int parse_int(const struct option_row *row, const char *text, int32_t *out) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || !starts_like_number(text)) {
        return usage_error("--%s %s is not a whole number; accepted: %.0f to %.0f", row->name, text,
                           row->least, row->most);
    }
    if (errno || (double)value < row->least || (double)value > row->most) {
        return usage_error("--%s %s is out of range; accepted: %.0f to %.0f", row->name, text,
                           row->least, row->most);
    }
    *out = (int32_t)value;
    return 0;
}

static int parse_seed(const struct option_row *row, const char *text, uint64_t *out) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end || errno || !isdigit((unsigned char)text[0])) {
        return usage_error("--%s %s is not a whole number; accepted: 0 to %" PRIu64, row->name,
                           text, UINT64_MAX);
    }
    *out = value;
    return 0;
}

static int parse_real(const struct option_row *row, const char *text, double *out) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !starts_like_number(text) || !isfinite(value)) {
        return usage_error("--%s %s is not a finite number; accepted: %g to %g", row->name, text,
                           row->least, row->most);
    }
    if (value < row->least || value > row->most) {
        return usage_error("--%s %s is out of range; accepted: %g to %g", row->name, text,
                           row->least, row->most);
    }
    *out = value;
    return 0;
}

static int parse_choice(const struct option_row *row, const char *text, int32_t *out) {
    char accepted[256] = "";
    for (const struct option_choice *c = row->choices; c->name; c++) {
        if (strcasecmp(c->name, text) == 0) {
            *out = c->value;
            return 0;
        }
        if (!c->alias) {
            size_t used = strlen(accepted);
            snprintf(accepted + used, sizeof accepted - used, "%s%s", used ? ", " : "", c->name);
        }
    }
    return usage_error("--%s %s is not known; accepted: %s", row->name, text, accepted);
}

static int add_text(const struct option_row *row, const char *text, struct option_list *list) {
    if (list->count == OPTION_TEXTS) {
        return usage_error("--%s is given more than %d times", row->name, OPTION_TEXTS);
    }
    list->texts[list->count++] = text;
    return 0;
}

static int parse_value(const struct option_row *row, const char *text, char *field) {
    switch (row->type) {
    case OPTION_INT:
        return parse_int(row, text, (int32_t *)(void *)field);
    case OPTION_SEED:
        return parse_seed(row, text, (uint64_t *)(void *)field);
    case OPTION_REAL:
        return parse_real(row, text, (double *)(void *)field);
    case OPTION_CHOICE:
        return parse_choice(row, text, (int32_t *)(void *)field);
    case OPTION_FILE:
        if (!text[0]) {
            return usage_error("--%s needs the name of a file, not an empty text", row->name);
        }
        *(const char **)(void *)field = text;
        return 0;
    case OPTION_LIST:
        return add_text(row, text, (struct option_list *)(void *)field);
    default:
        *(int32_t *)(void *)field = 1;
        return 0;
    }
}

/* How many letters have to be changed, added or removed to get from one name to the other. */
static int distance(const char *a, const char *b) {
    int row[MOST_ROWS];
    int length = (int)strlen(b);
    if (length >= MOST_ROWS) {
        return length;
    }
    for (int j = 0; j <= length; j++) {
        row[j] = j;
    }
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= length; j++) {
            int changed = diagonal + (a[i - 1] != b[j - 1]);
            int added = (row[j - 1] < row[j] ? row[j - 1] : row[j]) + 1;
            diagonal = row[j];
            row[j] = changed < added ? changed : added;
        }
    }
    return row[length];
}

/* Rows whose name begins with `start`: "--seq, --seed". */
static int begun_by(char out[LIST_BYTES], const struct option_row *rows, const char *start) {
    int count = 0;
    int used = 0;
    out[0] = 0;
    for (const struct option_row *row = rows; !options_end(row); row++) {
        if (option_dashed(row) && strncmp(row->name, start, strlen(start)) == 0 &&
            used < LIST_BYTES - MOST_ROWS) {
            used += snprintf(out + used, (size_t)(LIST_BYTES - used), "%s--%s", count ? ", " : "",
                             row->name);
            count++;
        }
    }
    return count;
}

static const char *nearest_name(const struct option_row *rows, const char *name) {
    const char *nearest = NULL;
    int best = 3; /* more than two letters apart is another word */
    for (const struct option_row *row = rows; !options_end(row); row++) {
        int d = option_dashed(row) ? distance(name, row->name) : best;
        if (d < best && d < (int)strlen(name)) { /* not every letter is another one */
            best = d;
            nearest = row->name;
        }
    }
    return nearest;
}

static int unknown_option(const struct option_row *rows, const char *text) {
    char name[MOST_ROWS];
    char several[LIST_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    const char *bare = name + strspn(name, "-");
    if (strncmp(name, "--", 2) == 0 && begun_by(several, rows, bare) > 1) {
        return usage_error("option %s is short for several: %s", name, several);
    }
    const char *nearest = nearest_name(rows, bare);
    if (nearest) {
        return usage_error("unknown option %s; did you mean --%s? --help lists all options", name,
                           nearest);
    }
    return usage_error("unknown option %s; --help lists all options", name);
}

static const char *failed_option(const struct option_row *rows) {
    return optopt >= FIRST_VALUE ? rows[optopt - FIRST_VALUE].name : "out";
}

/* Which row has this name; -1: none. */
static int row_named(const struct option_row *rows, const char *name) {
    for (int i = 0; !options_end(&rows[i]); i++) {
        if (option_dashed(&rows[i]) && strcmp(rows[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* What stands alone, after the options were moved before it. */
static int parse_arguments(const struct option_row *rows, void *config, int argc, char **argv) {
    for (const struct option_row *row = rows; !options_end(row) && optind < argc; row++) {
        if (row->type == OPTION_ARGUMENT) {
            *(const char **)(void *)((char *)config + row->offset) = argv[optind++];
        }
    }
    if (optind < argc) {
        return usage_error("%s stands alone; every argument here belongs to an option, see --help",
                           argv[optind]);
    }
    return 0;
}

int options_parse(const struct option_row *rows, void *config, int argc, char **argv) {
    struct option longs[MOST_ROWS + 1] = {{0}};
    for (int i = 0, n = 0; !options_end(&rows[i]) && n < MOST_ROWS; i++) {
        if (option_dashed(&rows[i])) {
            int has = rows[i].type == OPTION_FLAG ? no_argument : required_argument;
            longs[n++] = (struct option){rows[i].name, has, NULL, FIRST_VALUE + i};
        }
    }
    const char *letters = row_named(rows, "out") < 0 ? ":h" : ":ho:";
    opterr = 0;
    optind = 1;
    for (;;) {
        int at = optind;
        int c = getopt_long(argc, argv, letters, longs, NULL);
        if (c == -1) {
            break;
        }
        c = c == 'h' ? FIRST_VALUE + row_named(rows, "help") : c;
        c = c == 'o' ? FIRST_VALUE + row_named(rows, "out") : c;
        if (c == ':') {
            return usage_error("--%s needs a value; --help tells which", failed_option(rows));
        }
        if (c == '?' && optopt >= FIRST_VALUE) {
            return usage_error("--%s takes no value; --help tells what it does",
                               failed_option(rows));
        }
        if (c == '?') {
            return unknown_option(rows, argv[optind > at ? optind - 1 : at]);
        }
        const struct option_row *row = &rows[c - FIRST_VALUE];
        int code = parse_value(row, optarg, (char *)config + row->offset);
        if (code) {
            return code;
        }
    }
    return parse_arguments(rows, config, argc, argv);
}
