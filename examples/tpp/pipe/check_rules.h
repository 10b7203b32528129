/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_CHECK_RULES_H
#define TPP_COMMAND_CHECK_RULES_H

#include "pipe_source.h"

/* What a right schedule keeps, in the order in which it is looked at. */
enum {
    RULE_FORM,      /* the file is text or CSV of actions */
    RULE_PLACEMENT, /* every stage on one rank */
    RULE_COMPLETE,  /* every action once */
    RULE_ORDER,     /* no action before one that it needs */
    RULE_MESSAGES,  /* sends and receives belong together */
    RULE_DEADLOCK,  /* it ends under the channel asked for */
    RULES
};

struct check_rules {
    int kept;          /* so many of them; the next one, if any, is broken */
    char reason[1024]; /* how */
    int32_t capacity;  /* of the queue asked for; -1: none was asked for, or none suffices */
    int runs;          /* executors follow it: it ends with posted sends */
    int waits;         /* ranks wait for each other, and then where and under what: */
    const tpp_schedule *waiting;
    tpp_channel channel;
    int32_t tried;      /* capacity */
    tpp_schedule *copy; /* owned: the schedule without its messages, if that is `waiting` */
};

/* Look at a schedule of pipe_source_try, which is lowered then if it can be. Returns 0 or
 * EXIT_FAILED, after one sentence, if it could not be looked at. */
int check_rules_find(struct check_rules *out, struct pipe_source *source,
                     const struct pipe_config *config);
void check_rules_free(struct check_rules *rules);

extern const char *const check_rule_names[RULES];

#endif
