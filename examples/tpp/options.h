/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_OPTIONS_H
#define TPP_PROGRAM_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Long options as one table per command: it parses the command line and prints the help. */

enum option_type {
    OPTION_HEADING, /* only help: a title */
    OPTION_FLAG,    /* int32_t, set to 1 */
    OPTION_INT,     /* int32_t */
    OPTION_SEED,    /* uint64_t */
    OPTION_REAL,    /* double, finite */
    OPTION_CHOICE,  /* int32_t, one of choices */
    OPTION_FILE,    /* const char *, not empty */
    OPTION_LIST,    /* struct option_list, given as often as wanted */
    OPTION_ARGUMENT /* const char *, what stands alone on the command line; one row at most */
};

enum { OPTION_TEXTS = 64 }; /* at most, of one option */

struct option_list {
    const char *texts[OPTION_TEXTS];
    int32_t count;
};

struct option_choice {
    const char *name; /* upper and lower case are the same; NULL ends the list */
    int32_t value;
    int alias; /* accepted, but not listed */
};

struct option_row {
    enum option_type type;
    const char *name;  /* without dashes; of an argument what stands for it in the help */
    const char *value; /* what stands for the value in the help */
    const char *help;
    size_t offset;      /* of the field in the command's struct */
    double least, most; /* of a number */
    const struct option_choice *choices;
};

/* Fill `config` from the command line; rows end with a NULL name and no heading, and one is the
 * flag "help", also -h; one named "out" is also -o. Returns 0 or EXIT_USAGE, after one sentence on
 * stderr. */
int options_parse(const struct option_row *rows, void *config, int argc, char **argv);

/* The help of all rows. A default is printed unless it lies outside of its own range: then the
 * text tells. */
void options_print(FILE *out, const struct option_row *rows, const void *defaults);

/* Is this the row that ends a table? */
int options_end(const struct option_row *row);

/* Is this a row that dashes are written before, not a heading and not an argument? */
int option_dashed(const struct option_row *row);

/* The listed name of a choice's value. */
const char *option_choice_name(const struct option_choice *choices, int32_t value);

#endif
