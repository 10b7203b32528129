/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_CHECK_FACTS_H
#define TPP_COMMAND_CHECK_FACTS_H

#include "check_rules.h"

/* What is told of a schedule beside its verdict. */
enum { QUEUES = 3 };
struct check_facts {
    int known;                /* its messages are right: the rest is set */
    int32_t capacity[QUEUES]; /* fewest messages that suffice, of each kind; -1: no number does */
    double *peak_to_w;        /* [ranks], in full stages */
    double *peak_to_i;        /* [ranks] */
    tpp_wait *waits;          /* [count]: ranks that wait for each other */
    int32_t count;
};

extern const tpp_channel check_queues[QUEUES];

/* Returns 0 or EXIT_FAILED, after one sentence. */
int check_facts_find(struct check_facts *out, const struct pipe_source *source,
                     const struct check_rules *rules);
void check_facts_free(struct check_facts *facts);

#endif
