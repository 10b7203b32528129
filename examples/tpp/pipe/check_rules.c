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

/* Keep the first rule that is broken, with why. */
static int keeps(struct check_rules *out, tpp_status status) {
    if (status == TPP_OK) {
        out->kept++;
        return 1;
    }
    snprintf(out->reason, sizeof out->reason, "%s", tpp_message());
    return 0;
}

static void note_wait(struct check_rules *out, tpp_status status, const tpp_schedule *waiting,
                      tpp_channel channel, int32_t capacity) {
    out->waits = status == TPP_ERR_DEADLOCK;
    out->waiting = waiting;
    out->channel = channel;
    out->tried = capacity;
}

/* Is all there? In an order that is right, nothing else can be wrong. */
static tpp_status check_complete(struct check_rules *out, const struct pipe_source *source) {
    tpp_schedule *made = NULL;
    tpp_status status = copy(&made, source, 1);
    keeps(out, status);
    tpp_schedule_destroy(made);
    return status;
}

/* Does it end if messages are only what the actions need, and travel as they like? */
static tpp_status check_order(struct check_rules *out, const struct pipe_source *source) {
    tpp_status status = copy(&out->copy, source, 0);
    if (status == TPP_OK) {
        status = tpp_schedule_check(out->copy, TPP_CHANNEL_POSTED);
    }
    note_wait(out, status, out->copy, TPP_CHANNEL_POSTED, 0);
    keeps(out, status);
    return status;
}

/* Its messages belong together, whether it ends or not. */
static tpp_status check_messages(struct check_rules *out, struct pipe_source *source) {
    tpp_status status = pipe_source_lower(source);
    if (status == TPP_OK) {
        status = tpp_schedule_check(source->schedule, TPP_CHANNEL_POSTED);
    }
    out->runs = status == TPP_OK;
    status = status == TPP_ERR_DEADLOCK ? TPP_OK : status;
    keeps(out, status);
    return status;
}

/* With the capacity asked for, or the smallest that suffices. */
static tpp_status check_channel(struct check_rules *out, const struct pipe_source *source,
                                const struct pipe_config *c) {
    int queue = pipe_config_has_capacity(c->channel);
    tpp_status status = TPP_OK;
    out->capacity = queue ? c->capacity : -1;
    if (queue && c->capacity < 0) {
        status = tpp_schedule_capacity(source->schedule, c->channel, &out->capacity);
    }
    int32_t tried = !queue ? 0 : out->capacity < 0 ? INT32_MAX : out->capacity;
    if (status == TPP_OK) {
        status = tpp_schedule_check_channel(source->schedule, c->channel, tried);
    }
    note_wait(out, status, source->schedule, c->channel, tried);
    keeps(out, status);
    return status;
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
    status = check_complete(out, source);
    status = status == TPP_OK ? check_order(out, source) : status;
    status = status == TPP_OK ? check_messages(out, source) : status;
    return status == TPP_OK ? check_channel(out, source, c) : status;
}

int check_rules_find(struct check_rules *out, struct pipe_source *source,
                     const struct pipe_config *c) {
    memset(out, 0, sizeof *out);
    tpp_status status = find(out, source, c);
    int verdict = source->status != TPP_OK || status == TPP_OK || status == TPP_ERR_SCHEDULE ||
                  status == TPP_ERR_DEADLOCK;
    return verdict ? 0 : library_error("check the schedule");
}

void check_rules_free(struct check_rules *rules) {
    tpp_schedule_destroy(rules->copy);
    memset(rules, 0, sizeof *rules);
}
