/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_PICK_H
#define TPP_PROGRAM_PICK_H

#include <stdint.h>

/* The choice of the next token. The same logits give the same choice, on any rank and in any batch:
 * the random number depends on seed, sequence and position alone. */

struct pick_rule {
    double temperature; /* 0: the likeliest, ties to the lowest id */
    int32_t top_k;      /* among so many of the likeliest; 0: all */
    double top_p;       /* among the fewest that together have this share; 1: all */
    uint64_t seed;
};

struct pick_entry {
    double logit, weight;
    int32_t id;
};

/* Uniform in [0, 1): SplitMix64 of the three numbers, one after the other. */
double pick_random(uint64_t seed, uint64_t sequence, uint64_t position);

/* Among logits [count]; room is [count]. */
int32_t pick(const struct pick_rule *rule, const double *logits, int32_t count, uint64_t sequence,
             uint64_t position, struct pick_entry *room);

#endif
