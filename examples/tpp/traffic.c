/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "traffic.h"

#include <inttypes.h>

#include "gpt.h"
#include "say.h"

/* What the rule says of a direction, as numbers of collectives of tokens * hidden. */
struct rule {
    int32_t block, embedding, head;
};

/* A block has two operators g and two f (Shoeybi et al. 2019): all-reduces, of g forward, of f
 * backward; the embedding has a g, the head an f. With sequence parallelism each is a gather in one
 * direction and a scatter in the other, and what f gathered is gathered again for the gradients of
 * weights (Korthikanti et al. 2022). */
/* What a block's backward does again of its forward: all of it, or of attention, but the last sum. */
static int32_t again(const struct train_config *config) {
    int32_t parallel = (config->desc.block_flags & TPP_BLOCK_PARALLEL) != 0;
    int32_t sequence = config->sequence != 0;
    int32_t forward = (parallel ? 1 : 2) << sequence;
    return config->recompute == TPP_RECOMPUTE_FULL        ? forward - 1
           : config->recompute == TPP_RECOMPUTE_SELECTIVE ? sequence && !parallel
                                                          : 0;
}

static struct rule rule_of(const struct train_config *config, int direction) {
    static const struct rule rules[2][2] = {
        {[TRAFFIC_FORWARD] = {2, 1, 0}, [TRAFFIC_BACKWARD] = {2, 0, 1}},
        {[TRAFFIC_FORWARD] = {4, 1, 1}, [TRAFFIC_BACKWARD] = {6, 1, 2}},
    };
    struct rule rule = rules[config->sequence != 0][direction];
    if (config->desc.block_flags & TPP_BLOCK_PARALLEL) { /* one g and one f for both */
        rule.block /= 2;
    }
    rule.block += direction == TRAFFIC_BACKWARD ? again(config) : 0;
    return rule;
}

/* Elements of one of them. */
static int64_t wide_of(const struct team *team) {
    return train_config_rows(team->config, team->layout.tp) * team->config->hidden;
}

/* Numbers a token that the loss reduces, in two calls. */
static int64_t loss_numbers(const struct train_config *config) {
    return config->smoothing > 0 ? 4 : 3;
}

static void set_rule(struct traffic_row *row, const struct team *team, int32_t stage,
                     int direction) {
    const struct train_config *config = team->config;
    struct rule rule = rule_of(config, direction);
    int64_t tokens = (int64_t)(config->batch / config->micros) * config->seq;
    int last = stage == team->stages - 1;
    row->blocks = gpt_stage_blocks(config, team->stages, stage);
    row->block_calls = rule.block;
    int64_t ends = (stage == 0 ? rule.embedding : 0) + (last ? rule.head : 0);
    row->rule_calls = (int64_t)rule.block * row->blocks + ends;
    row->rule_elements = row->rule_calls * wide_of(team);
    if (direction == TRAFFIC_FORWARD && last) {
        row->rule_calls += 2;
        row->rule_elements += loss_numbers(config) * tokens;
    }
    row->other_calls = row->rule_calls - (int64_t)rule.block * row->blocks;
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
    int64_t wide = wide_of(team);
    int32_t calls = rule_of(team->config, direction).block;
    struct traffic_row sum = {
        .as_rule = 1, .block_calls = calls, .rule_calls = calls, .rule_elements = calls * wide};
    for (int32_t stage = 0; stage < team->stages; stage++) {
        struct traffic_row row = traffic_of(team, stage, direction);
        sum.as_rule &= row.as_rule;
        sum.blocks += row.blocks;
        sum.calls += row.calls - (double)row.other_calls;
        sum.elements +=
            row.elements - (double)(row.rule_elements - (int64_t)calls * row.blocks * wide);
    }
    sum.calls /= sum.blocks;
    sum.elements /= sum.blocks;
    sum.bytes = sum.elements * train_config_width(team->config);
    return sum;
}

static const char *const names[] = {[TRAFFIC_FORWARD] = "forward", [TRAFFIC_BACKWARD] = "backward"};

/* What the rule adds to the layers: " + embedding 1". */
static const char *other_name(char out[64], const struct team *team, int32_t stage, int direction) {
    struct rule rule = rule_of(team->config, direction);
    int last = stage == team->stages - 1;
    int used = 0;
    out[0] = 0;
    if (stage == 0 && rule.embedding) {
        used += snprintf(out, 64, " + embedding %" PRId32, rule.embedding);
    }
    if (last && rule.head) {
        used += snprintf(out + used, (size_t)(64 - used), " + head %" PRId32, rule.head);
    }
    if (last && direction == TRAFFIC_FORWARD) {
        snprintf(out + used, (size_t)(64 - used), " + loss 2");
    }
    return out;
}

static void print_stage(FILE *out, const struct team *team, int32_t stage, int direction) {
    struct traffic_row row = traffic_of(team, stage, direction);
    char elements[GROUPED_BYTES];
    char other[64];
    char rule[96];
    snprintf(rule, sizeof rule, "%" PRId32 " layers x %" PRId32 "%s", row.blocks, row.block_calls,
             other_name(other, team, stage, direction));
    fprintf(out, "  %5" PRId32 "  %-9s %5.4g  %12s  %-35s %s\n", stage, names[direction], row.calls,
            grouped(elements, (int64_t)(row.elements + 0.5)), rule, row.as_rule ? "yes" : "NO");
}

static void print_layer(FILE *out, const struct team *team) {
    struct traffic_row forward = traffic_per_block(team, TRAFFIC_FORWARD);
    struct traffic_row backward = traffic_per_block(team, TRAFFIC_BACKWARD);
    char elements[GROUPED_BYTES];
    char bytes[GROUPED_BYTES];
    double calls = forward.block_calls + backward.block_calls;
    fprintf(out,
            "  a transformer layer: %.4g forward, %.4g backward (rule: %" PRId32 " and %" PRId32
            "), ",
            forward.calls, backward.calls, forward.block_calls, backward.block_calls);
    fprintf(out, "%s elements = %s bytes each\n",
            grouped(elements, (int64_t)((forward.elements + backward.elements) / calls + 0.5)),
            grouped(bytes, (int64_t)((forward.bytes + backward.bytes) / calls + 0.5)));
}

void traffic_print(FILE *out, const struct team *team) {
    const struct train_config *c = team->config;
    fprintf(out, "\n%s of a micro-batch, counted on every rank through the whole training\n\n",
            c->sequence ? "All-reduces, gathers and scatters" : "All-reduces");
    fprintf(out, "  stage  direction calls      elements  rule%*sas the rule\n", 32, "");
    for (int32_t stage = 0; stage < team->stages; stage++) {
        print_stage(out, team, stage, TRAFFIC_FORWARD);
        print_stage(out, team, stage, TRAFFIC_BACKWARD);
    }
    print_layer(out, team);
    fprintf(out,
            "  rule: layers, embedding and head %s %" PRId64 " bytes of text x %" PRId32
            " hidden, the loss %" PRId64 " numbers a byte\n",
            c->sequence ? "move" : "sum", train_config_rows(c, c->tp), c->hidden, loss_numbers(c));
}
