/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "traffic.h"

#include <inttypes.h>

#include "gpt.h"
#include "say.h"

/* The rule (Shoeybi et al. 2019): a block has two operators g, summed forward, and two operators
 * f, summed backward, of tokens * hidden each. The embedding has a g, the head an f; the loss
 * reduces 3 numbers a token in two calls. */
static void set_rule(struct traffic_row *row, const struct team *team, int32_t stage,
                     int direction) {
    const struct train_config *config = team->config;
    int64_t tokens = (int64_t)(config->batch / config->micros) * config->seq;
    int first = stage == 0;
    int last = stage == team->stages - 1;
    row->blocks = gpt_stage_blocks(config, team->stages, stage);
    int64_t wide = 2 * row->blocks + (direction == TRAFFIC_FORWARD ? first : last);
    row->rule_calls = wide;
    row->rule_elements = wide * tokens * config->hidden;
    if (direction == TRAFFIC_FORWARD && last) {
        row->rule_calls += 2;
        row->rule_elements += (config->smoothing > 0 ? 4 : 3) * tokens;
    }
    row->other_calls = row->rule_calls - 2 * row->blocks;
}

struct traffic_row traffic_of(const struct team *team, int32_t stage, int direction) {
    struct traffic_row row = {0};
    struct traffic sum = {0};
    for (int32_t lane = 0; lane < team->layout.tp; lane++) {
        const struct piece *piece = team_stage_piece(team, stage, lane);
        const struct traffic *traffic =
            direction == TRAFFIC_FORWARD ? &piece->forward : &piece->backward;
        sum.runs += traffic->runs;
        sum.calls += traffic->calls;
        sum.elements += traffic->elements;
        sum.bytes += traffic->bytes;
    }
    set_rule(&row, team, stage, direction);
    row.calls = (double)sum.calls / (double)sum.runs;
    row.elements = (double)sum.elements / (double)sum.runs;
    row.bytes = (double)sum.bytes / (double)sum.runs;
    row.as_rule =
        sum.calls == row.rule_calls * sum.runs && sum.elements == row.rule_elements * sum.runs;
    return row;
}

struct traffic_row traffic_per_block(const struct team *team, int direction) {
    const struct train_config *config = team->config;
    int64_t wide = (int64_t)(config->batch / config->micros) * config->seq * config->hidden;
    struct traffic_row sum = {.as_rule = 1, .rule_calls = 2, .rule_elements = 2 * wide};
    for (int32_t stage = 0; stage < team->stages; stage++) {
        struct traffic_row row = traffic_of(team, stage, direction);
        sum.as_rule &= row.as_rule;
        sum.blocks += row.blocks;
        sum.calls += row.calls - (double)row.other_calls;
        sum.elements += row.elements - (double)(row.rule_elements - 2 * row.blocks * wide);
    }
    sum.calls /= sum.blocks;
    sum.elements /= sum.blocks;
    sum.bytes = sum.elements * train_config_width(config);
    return sum;
}

static const char *const names[] = {[TRAFFIC_FORWARD] = "forward", [TRAFFIC_BACKWARD] = "backward"};

/* What the rule adds to the layers: " + embedding 1". */
static const char *other_name(const struct team *team, int32_t stage, int direction) {
    int last = stage == team->stages - 1;
    if (direction == TRAFFIC_BACKWARD) {
        return last ? " + head 1" : "";
    }
    if (stage == 0) {
        return last ? " + embedding 1 + loss 2" : " + embedding 1";
    }
    return last ? " + loss 2" : "";
}

static void print_stage(FILE *out, const struct team *team, int32_t stage, int direction) {
    struct traffic_row row = traffic_of(team, stage, direction);
    char elements[GROUPED_BYTES];
    char rule[64];
    snprintf(rule, sizeof rule, "%" PRId32 " layers x 2%s", row.blocks,
             other_name(team, stage, direction));
    fprintf(out, "  %5" PRId32 "  %-9s %5.4g  %12s  %-35s %s\n", stage, names[direction], row.calls,
            grouped(elements, (int64_t)(row.elements + 0.5)), rule, row.as_rule ? "yes" : "NO");
}

static void print_layer(FILE *out, const struct team *team) {
    struct traffic_row forward = traffic_per_block(team, TRAFFIC_FORWARD);
    struct traffic_row backward = traffic_per_block(team, TRAFFIC_BACKWARD);
    char elements[GROUPED_BYTES];
    char bytes[GROUPED_BYTES];
    fprintf(out, "  a transformer layer: %.4g forward, %.4g backward (rule: 2 and 2), ",
            forward.calls, backward.calls);
    fprintf(out, "%s elements = %s bytes each\n",
            grouped(elements, (int64_t)((forward.elements + backward.elements) / 4 + 0.5)),
            grouped(bytes, (int64_t)((forward.bytes + backward.bytes) / 4 + 0.5)));
}

void traffic_print(FILE *out, const struct team *team) {
    const struct train_config *c = team->config;
    fprintf(out,
            "\nAll-reduces of a micro-batch, counted on every rank through the whole training\n\n");
    fprintf(out, "  stage  direction calls      elements  rule%*sas the rule\n", 32, "");
    for (int32_t stage = 0; stage < team->stages; stage++) {
        print_stage(out, team, stage, TRAFFIC_FORWARD);
        print_stage(out, team, stage, TRAFFIC_BACKWARD);
    }
    print_layer(out, team);
    fprintf(out,
            "  rule: layers, embedding and head sum %" PRId32 " bytes of text x %" PRId32
            " hidden, the loss %d numbers a byte\n",
            c->batch / c->micros * c->seq, c->hidden, c->smoothing > 0 ? 4 : 3);
}
