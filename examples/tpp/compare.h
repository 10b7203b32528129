/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_COMPARE_H
#define TPP_PROGRAM_COMPARE_H

#include "history.h"
#include "team.h"

/* One parameter of the model, joined from all ranks, against the same one of the unsplit model. */
struct param_diff {
    const char *name; /* borrowed from the unsplit model's layer */
    int64_t rows, cols;
    double largest;    /* absolute entry of the unsplit tensor */
    double difference; /* largest absolute one */
    double relative;   /* difference / largest */
    int equal_bits;
};

struct comparison {
    struct param_diff *params;
    int32_t count;
    int32_t worst; /* the parameter of largest relative difference; -1: all have equal bits */
    double loss_difference;
    int64_t loss_step; /* where, counted from 1; 0: all losses have equal bits */
};

void compare(struct comparison *out, const struct team *split, const struct team *whole,
             const struct history *history);

/* A table with a line per parameter and one for all. */
void compare_print(FILE *out, const struct comparison *comparison);

void compare_free(struct comparison *comparison);

/* A number that all parameters' bits go into (FNV-1a), in the order of the model: equal under
 * every layout that keeps the bits. */
uint64_t compare_fingerprint(const struct team *team);

#endif
