/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_TRAFFIC_H
#define TPP_PROGRAM_TRAFFIC_H

#include <stdio.h>

#include "team.h"

/* Collectives (all-reduces, and with --sequence-parallel gathers and scatters) of a virtual stage per micro-batch and tensor-parallel rank, in one direction. */
struct traffic_row {
    int32_t blocks;      /* transformer blocks of the stage */
    int32_t block_calls; /* rule: of a block */
    int64_t other_calls; /* rule: of the embedding, head and loss */
    int64_t rule_calls, rule_elements;
    double calls, elements, bytes; /* counted, mean over all micro-batches and ranks */
    int as_rule;                   /* counted and rule agree, for every micro-batch together */
};

enum { TRAFFIC_FORWARD = 0, TRAFFIC_BACKWARD = 1 };

struct traffic_row traffic_of(const struct team *team, int32_t stage, int direction);

/* Per transformer block and micro-batch: what was counted without the rule's share of embedding,
 * head and loss. */
struct traffic_row traffic_per_block(const struct team *team, int direction);

/* What was counted in training, against the rule. */
void traffic_print(FILE *out, const struct team *team);

#endif
