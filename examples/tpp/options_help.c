/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <inttypes.h>
#include <string.h>

int options_end(const struct option_row *row) {
    return row->type != OPTION_HEADING && !row->name;
}

int option_dashed(const struct option_row *row) {
    return row->type != OPTION_HEADING && row->type != OPTION_ARGUMENT;
}

const char *option_choice_name(const struct option_choice *choices, int32_t value) {
    while (choices->name && choices->value != value) {
        choices++;
    }
    return choices->name;
}

/* " (default 4)", or nothing. */
static void default_text(char *out, size_t bytes, const struct option_row *row, const char *field) {
    out[0] = 0;
    if (row->type == OPTION_INT) {
        int32_t value = *(const int32_t *)(const void *)field;
        if (value >= row->least) {
            snprintf(out, bytes, " (default %" PRId32 ")", value);
        }
    } else if (row->type == OPTION_REAL) {
        double value = *(const double *)(const void *)field;
        if (value >= row->least) {
            snprintf(out, bytes, " (default %g)", value);
        }
    } else if (row->type == OPTION_SEED) {
        snprintf(out, bytes, " (default %" PRIu64 ")", *(const uint64_t *)(const void *)field);
    } else if (row->type == OPTION_CHOICE) {
        int32_t value = *(const int32_t *)(const void *)field;
        const char *name = option_choice_name(row->choices, value);
        if (name) {
            snprintf(out, bytes, " (default %s)", name);
        }
    }
}

/* Words, broken before column 80 and continued below the first. */
static void print_words(FILE *out, const char *text, int indent) {
    int column = indent;
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (column > indent && column + 1 + length > 79) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        }
        column += fprintf(out, "%s%.*s", column > indent ? " " : "", length, text);
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

void options_print(FILE *out, const struct option_row *rows, const void *defaults) {
    for (const struct option_row *row = rows; !options_end(row); row++) {
        if (row->type == OPTION_HEADING) {
            fprintf(out, "\n%s:\n", row->help);
            continue;
        }
        char left[48];
        char standard[64];
        char text[512];
        const char *dashes = strcmp(row->name, "out") == 0 ? "-o, --" : "--";
        snprintf(left, sizeof left, "%s%s%s%s", option_dashed(row) ? dashes : "", row->name,
                 row->value ? " " : "", row->value ? row->value : "");
        default_text(standard, sizeof standard, row, (const char *)defaults + row->offset);
        snprintf(text, sizeof text, "%s%s", row->help, standard);
        fprintf(out, "  %-22s ", left);
        print_words(out, text, 25);
    }
}
