/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "check_report.h"

#include <inttypes.h>

#include "../say.h"

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

static void print_queues(FILE *out, const struct check_facts *facts) {
    fputs("\n  queues of messages between ranks, the fewest that suffice\n", out);
    for (int i = 0; i < QUEUES; i++) {
        fprintf(out, "  %-12s ", option_choice_name(channel_choices, check_queues[i]));
        if (facts->capacity[i] < 0) {
            fputs("no number suffices: another order of receiving, or ranks that wait anyway\n",
                  out);
        } else {
            fprintf(out, "%" PRId32 "%s\n", facts->capacity[i],
                    facts->capacity[i] ? "" : " (a send may wait for its receive)");
        }
    }
}

static void print_peaks(FILE *out, const struct check_result *result) {
    fputs("\n   rank  held to W  held to I\n", out);
    for (int32_t rank = 0; rank < result->source->info.ranks; rank++) {
        fprintf(out, "  %5" PRId32 "  %9.4g  %9.4g\n", rank, result->facts->peak_to_w[rank],
                result->facts->peak_to_i[rank]);
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
    if (result->facts->known) {
        print_queues(out, result->facts);
        print_peaks(out, result);
    }
    return fflush(out) || ferror(out) ? system_error("the report cannot be written") : 0;
}
