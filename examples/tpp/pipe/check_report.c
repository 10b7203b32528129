/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "check_report.h"

#include <inttypes.h>

#include "../say.h"
#include "schedule_json.h"

static void write_peaks(struct json *j, const char *key, const double *peaks, int32_t ranks) {
    json_array(j, key);
    for (int32_t rank = 0; rank < ranks; rank++) {
        json_real(j, NULL, peaks[rank]);
    }
    json_end_array(j);
}

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
    if (result->run) {
        write_peaks(&j, "peak_to_w", result->run->peak_to_w, result->source->info.ranks);
        write_peaks(&j, "peak_to_i", result->run->peak_to_i, result->source->info.ranks);
    }
    json_end_object(&j);
    fputc('\n', out);
    return fflush(out) || ferror(out) ? system_error("the JSON object cannot be written") : 0;
}

static void print_rules(FILE *out, const struct check_rules *rules) {
    static const char *const meanings[RULES] = {
        [RULE_FORM] = "lines of actions",
        [RULE_PLACEMENT] = "every stage lies on one rank",
        [RULE_COMPLETE] = "every stage has every micro-batch once, forward and backward",
        [RULE_ORDER] = "nothing stands before what it needs",
        [RULE_MESSAGES] = "sends and receives belong together",
        [RULE_DEADLOCK] = "no ranks wait for each other",
    };
    for (int rule = 0; rule < RULES; rule++) {
        fprintf(out, "  %-12s %-6s %s\n", check_rule_names[rule],
                rule < rules->kept    ? "right"
                : rule == rules->kept ? "WRONG"
                                      : "?",
                rule == rules->kept ? rules->reason : meanings[rule]);
    }
}

static void print_peaks(FILE *out, const struct check_result *result) {
    fputs("\n   rank  held to W  held to I\n", out);
    for (int32_t rank = 0; rank < result->source->info.ranks; rank++) {
        fprintf(out, "  %5" PRId32 "  %9.4g  %9.4g\n", rank, result->run->peak_to_w[rank],
                result->run->peak_to_i[rank]);
    }
    fputs("  most micro-batches at once, in full stages, until the gradients of weights (W) or of\n"
          "  inputs (I) are there\n",
          out);
}

int check_print_report(FILE *out, const struct check_result *result) {
    const struct pipe_source *source = result->source;
    const char *verdict = result->rules->kept == RULES ? "right" : "WRONG";
    char title[PIPE_TITLE_BYTES];
    if (source->info.ranks > 0) {
        fprintf(out, "%s, %s messages: %s\n\n", pipe_source_title(title, source),
                source->info.messages ? "its own" : "derived", verdict);
    } else {
        fprintf(out, "%s: %s\n\n", source->name, verdict);
    }
    print_rules(out, result->rules);
    if (result->run) {
        print_peaks(out, result);
    }
    return fflush(out) || ferror(out) ? system_error("the report cannot be written") : 0;
}
