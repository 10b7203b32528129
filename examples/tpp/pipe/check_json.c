/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "check_report.h"

#include <inttypes.h>

#include "../say.h"
#include "schedule_json.h"

static void write_rules(struct json *j, const struct check_rules *rules) {
    json_object(j, "rules");
    for (int rule = 0; rule < RULES; rule++) {
        if (rule <= rules->kept) {
            json_bool(j, check_rule_names[rule], rule < rules->kept);
        } else {
            json_null(j, check_rule_names[rule]);
        }
    }
    json_end_object(j);
}

/* A number, or null below 0. */
static void write_count(struct json *j, const char *key, int32_t count) {
    if (count < 0) {
        json_null(j, key);
    } else {
        json_int(j, key, count);
    }
}

static void write_peaks(struct json *j, const char *key, const double *peaks, int32_t ranks) {
    json_array(j, key);
    for (int32_t rank = 0; rank < ranks; rank++) {
        json_real(j, NULL, peaks[rank]);
    }
    json_end_array(j);
}

static void write_facts(struct json *j, const struct check_result *result) {
    static const char *const keys[QUEUES] = {"fifo_pair", "fifo_kind", "tagged"};
    const struct check_facts *facts = result->facts;
    json_object(j, "capacities");
    for (int i = 0; i < QUEUES; i++) {
        write_count(j, keys[i], facts->capacity[i]);
    }
    json_end_object(j);
    write_peaks(j, "peak_to_w", facts->peak_to_w, result->source->info.ranks);
    write_peaks(j, "peak_to_i", facts->peak_to_i, result->source->info.ranks);
}

static void write_action(struct json *j, const char *key, tpp_op op, int32_t stage, int32_t micro) {
    char text[48];
    snprintf(text, sizeof text, "%" PRId32 "%s%" PRId32, stage, tpp_op_name(op), micro);
    json_string(j, key, text);
}

static void write_wait(struct json *j, const struct check_rules *rules, const tpp_wait *w) {
    static const char *const reasons[] = {"", "message", "receiver", "channel", "slot"};
    int64_t count = 0;
    const tpp_action *a = tpp_schedule_actions(rules->waiting, w->rank, &count) + w->at;
    json_object(j, NULL);
    json_int(j, "rank", w->rank);
    json_int(j, "peer", w->peer);
    write_action(j, "at", a->op, a->stage, a->micro);
    json_string(j, "reason", reasons[w->reason]);
    if (w->until_op) {
        write_action(j, "until", w->until_op, w->until_stage, w->until_micro);
    } else {
        json_null(j, "until");
    }
    json_end_object(j);
}

int check_print_json(FILE *out, const struct check_result *result) {
    const struct check_rules *rules = result->rules;
    struct json j = {.out = out};
    json_object(&j, NULL);
    schedule_json_facts(&j, "tpp-check/1", result->source);
    json_bool(&j, "right", rules->kept == RULES);
    if (rules->kept < RULES) {
        json_string(&j, "broken", check_rule_names[rules->kept]);
        json_string(&j, "reason", rules->reason);
    } else {
        json_null(&j, "broken");
        json_null(&j, "reason");
    }
    write_rules(&j, rules);
    json_string(&j, "channel", option_choice_name(channel_choices, result->config->channel));
    write_count(&j, "capacity", rules->capacity);
    json_rows(&j, "wait_cycle");
    for (int32_t i = 0; i < result->facts->count; i++) {
        write_wait(&j, rules, &result->facts->waits[i]);
    }
    json_end_array(&j);
    if (result->facts->known) {
        write_facts(&j, result);
    }
    json_end_object(&j);
    fputc('\n', out);
    return fflush(out) || ferror(out) ? system_error("the JSON object cannot be written") : 0;
}
