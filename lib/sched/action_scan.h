/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SCHED_ACTION_SCAN_H
#define TPP_SCHED_ACTION_SCAN_H

#include "base/text.h"

#include <stdbool.h>
#include <tpp/schedule.h>

/* THE grammar of actions, for the text form and for CSV:
 *
 *   0F3  0SEND_F3          stage, operation, micro-batch
 *   (0F3;7B1)OVERLAP_F_B   an overlapped pair
 *   0UNSHARD  0RESHARD2    PyTorch's sharding, where the form knows it
 */

/* What is written as one: an action, an overlapped pair, or sharding (no action). */
typedef struct tpp__sched_atom {
    int32_t count;
    const char *sharding; /* its name; NULL: none */
    tpp_action actions[2];
} tpp__sched_atom;

typedef struct tpp__scan {
    const char *at;
    const char *end;
    bool csv;             /* knows sharding, and blanks within a pair */
    const char *bad;      /* after a failure: where, */
    const char *expected; /* and what should stand there */
} tpp__scan;

/* Pass one atom. Actions get op, flags, stage and micro; peer and slot are -1. */
bool tpp__scan_atom(tpp__scan *in, tpp__sched_atom *out);

/* What stands at `from`, short, printable and in quotes, up to the next blank too if `word`; false,
 * and nothing is written, at the end or at a line end. */
bool tpp__scan_quote(const char *from, const char *end, bool word, char *out, int bytes);

/* The inverse: write the atom that begins at `a`, the first of `left` actions; returns how many
 * actions it has. */
int tpp__sched_put_atom(tpp__text *text, const tpp_action *a, int64_t left);

#endif
