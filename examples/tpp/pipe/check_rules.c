/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "check_rules.h"

#include <stdlib.h>
#include <string.h>

#include "../reserve.h"
#include "../say.h"

const char *const check_rule_names[RULES] = {
    [RULE_FORM] = "form",   [RULE_PLACEMENT] = "placement", [RULE_COMPLETE] = "complete",
    [RULE_ORDER] = "order", [RULE_MESSAGES] = "messages",   [RULE_DEADLOCK] = "deadlock",
};

static int is_message(const tpp_action *a) {
    return a->op >= TPP_OP_SEND_F;
}

/* F, then the gradients of inputs, then those of weights; F by rising stages, the others by falling
 * ones: an order that is right for every placement. */
static int compare(const void *left, const void *right) {
    const tpp_action *a = left;
    const tpp_action *b = right;
    int phase_a = a->op == TPP_OP_F ? 0 : a->op == TPP_OP_W ? 2 : 1;
    int phase_b = b->op == TPP_OP_F ? 0 : b->op == TPP_OP_W ? 2 : 1;
    if (phase_a != phase_b) {
        return phase_a - phase_b;
    }
    if (a->stage != b->stage) {
        return (a->stage < b->stage) == (phase_a == 0) ? -1 : 1;
    }
    return a->micro < b->micro ? -1 : a->micro > b->micro;
}

/* Add the compute actions of a rank, as they stand or in the order above. */
static tpp_status copy_rank(tpp_schedule *out, const tpp_schedule *in, int32_t rank, int sorted) {
    int64_t count = 0;
    const tpp_action *actions = tpp_schedule_actions(in, rank, &count);
    tpp_action *own = reserve(count, sizeof *own);
    memcpy(own, actions, (size_t)count * sizeof *own);
    if (sorted) {
        qsort(own, (size_t)count, sizeof *own, compare);
    }
    tpp_status status = TPP_OK;
    for (int64_t i = 0; i < count && status == TPP_OK; i++) {
        if (!is_message(&own[i])) {
            status = tpp_schedule_add(out, rank, own[i].op, own[i].stage, own[i].micro,
                                      sorted ? 0 : own[i].flags);
        }
    }
    free(own);
    return status;
}

/* The schedule without its messages, lowered. */
static tpp_status copy(tpp_schedule **out, const struct pipe_source *source, int sorted) {
    const tpp_schedule_info *info = &source->info;
    int32_t *rank_of = reserve(info->stages, sizeof *rank_of);
    for (int32_t i = 0; i < info->stages; i++) {
        rank_of[i] = tpp_schedule_rank_of(source->schedule, i);
    }
    tpp_schedule_build_desc d = {0};
    d.size = sizeof d;
    d.ranks = info->ranks;
    d.stages = info->stages;
    d.micros = info->micros;
    d.directions = info->directions;
    d.rank_of = rank_of;
    tpp_status status = tpp_schedule_build(out, &d);
    for (int32_t rank = 0; rank < info->ranks && status == TPP_OK; rank++) {
        status = copy_rank(*out, source->schedule, rank, sorted);
    }
    free(rank_of);
    return status == TPP_OK ? tpp_schedule_lower(*out) : status;
}

/* Does it end if messages are only what the dependencies need, and travel as they like? */
static tpp_status check_copy(const struct pipe_source *source, int sorted) {
    tpp_schedule *made = NULL;
    tpp_status status = copy(&made, source, sorted);
    if (status == TPP_OK && !sorted) {
        status = tpp_schedule_check(made, TPP_CHANNEL_POSTED);
    }
    tpp_schedule_destroy(made);
    return status;
}

/* Keep the first rule that is broken, with why. */
static int keeps(struct check_rules *out, tpp_status status) {
    if (status == TPP_OK) {
        out->kept++;
        return 1;
    }
    snprintf(out->reason, sizeof out->reason, "%s", tpp_message());
    return 0;
}

static tpp_status find(struct check_rules *out, struct pipe_source *source,
                       const struct pipe_config *c) {
    tpp_status status = source->status;
    out->kept = status == TPP_ERR_SCHEDULE ? RULE_PLACEMENT : RULE_FORM;
    if (status != TPP_OK) {
        keeps(out, status);
        return status;
    }
    out->kept = RULE_COMPLETE;
    status = check_copy(source, 1);
    if (keeps(out, status)) {
        status = check_copy(source, 0);
    }
    if (out->kept == RULE_ORDER && keeps(out, status)) {
        status = pipe_source_lower(source);
        status =
            status == TPP_OK ? tpp_schedule_check(source->schedule, TPP_CHANNEL_POSTED) : status;
        out->kept += status == TPP_ERR_DEADLOCK; /* the messages fit, and wait for each other */
        keeps(out, status);
    }
    if (out->kept == RULE_DEADLOCK && status == TPP_OK) {
        status = tpp_schedule_check(source->schedule, c->channel);
        keeps(out, status);
    }
    return status;
}

int check_rules_find(struct check_rules *out, struct pipe_source *source,
                     const struct pipe_config *c) {
    memset(out, 0, sizeof *out);
    tpp_status status = find(out, source, c);
    int verdict = source->status != TPP_OK || status == TPP_OK || status == TPP_ERR_SCHEDULE ||
                  status == TPP_ERR_DEADLOCK;
    return verdict ? 0 : library_error("check the schedule");
}
