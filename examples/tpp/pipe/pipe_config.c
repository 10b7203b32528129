/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "pipe_config.h"

#include <inttypes.h>
#include <tpp/tpp.h>

#include "../say.h"
#include "pipe_rows.h"

const struct option_choice form_choices[] = {
    {"text", FORM_TEXT, 0}, {"csv", FORM_CSV, 0},       {"json", FORM_JSON, 0},
    {"svg", FORM_SVG, 0},   {"chrome", FORM_CHROME, 0}, {NULL, 0, 0},
};

const struct option_row schedule_options[] = {
    HEADING("Schedule"),
    SOURCE_ROW,
    SHAPE_ROWS,
    HEADING("Output"),
    FORM_ROWS("text: one line per rank; csv: PyTorch's form; json; svg, chrome: a simulated run "
              "(default text)"),
    FLAG("messages", messages, "with sends and receives (text, csv, json)"),
    FLAG("lowered", messages, "the same as --messages"),
    FLAG("slots", slots, "csv: an empty cell for every slot of time in which a rank idles"),
    HEADING("Costs of a full stage and micro-batch, for svg and chrome"),
    TIME_ROWS,
    P2P_ROW,
    HELP_ROWS,
};

const struct option_row simulate_options[] = {
    HEADING("Schedule"),
    SOURCE_ROW,
    SHAPE_ROWS,
    HEADING("Times of a full stage (all chunks of a rank) and micro-batch, in any one unit"),
    TIME_ROWS,
    REAL("tb", tb, 0, MOST_COST, "time of a whole backward (default --ti + --tw)"),
    REAL("fused", fused, 0, MOST_COST,
         "time of an overlapped forward and backward (default both together)"),
    REAL("optimizer", optimizer, 0, MOST_COST, "time of the optimizer step (default none)"),
    COSTS_ROW,
    HEADING("Messages"),
    MESSAGE_ROWS,
    FLAG("blocking", blocking, "a message occupies the rank that sends it too"),
    FLAG("barrier", barrier, "the optimizer steps begin when all ranks have ended"),
    FLAG("paper-edges", paper_edges,
         "drop the edges that the zero-bubble paper's column 1F1B-I does without"),
    HEADING("Memory, in any one unit"),
    MEMORY_ROWS,
    REAL("memory", mem_b, 0, MOST_COST, "the same as --mem-b"),
    HEADING("Output"),
    FLAG("json", json, "print one JSON object"),
    PICTURE_ROWS,
    HELP_ROWS,
};

const struct option_choice channel_choices[] = {
    {"posted", TPP_CHANNEL_POSTED, 0},       {"rendezvous", TPP_CHANNEL_RENDEZVOUS, 0},
    {"fifo-pair", TPP_CHANNEL_FIFO_PAIR, 0}, {"fifo-kind", TPP_CHANNEL_FIFO_KIND, 0},
    {"tagged", TPP_CHANNEL_TAGGED, 0},       {NULL, 0, 0},
};

const struct option_row check_options[] = {
    HEADING("Schedule"),
    SOURCE_ROW,
    SHAPE_ROWS,
    HEADING("Messages"),
    CHOICE("channel", channel, channel_choices,
           "posted: a send is not awaited, messages are told apart; rendezvous: a send waits for "
           "its receive; fifo-pair: one queue from a rank to another; fifo-kind: one for outputs, "
           "one for gradients; tagged: one, messages are told apart"),
    INT("capacity", capacity, 0, INT32_MAX,
        "messages that such a queue holds (default the fewest that suffice)"),
    HEADING("Output"),
    FLAG("json", json, "print one JSON object"),
    PATH("svg", svg,
         "draw the step of a right schedule, with equal costs, or the ranks that wait for each "
         "other"),
    HELP_ROWS,
};

const struct option_choice placement_choices[] = {
    {"any", 0, 0}, {"looped", TPP_PLACEMENT_LOOPED, 0}, {"v", TPP_PLACEMENT_V, 0}, {"free", 0, 1},
    {NULL, 0, 0},
};

static const struct option_choice objective_choices[] = {
    {"span", TPP_OPTIMIZE_SPAN, 0}, {"makespan", TPP_OPTIMIZE_MAKESPAN, 0}, {NULL, 0, 0}};

const struct option_row optimize_options[] = {
    HEADING("Schedule"),
    SIZE_ROWS,
    CHOICE("placement", placement, placement_choices,
           "where stages lie: looped, v (two on each rank, down and up again), or any: the better"),
    INT("chunks", chunks, 1, 65536, "looped: pieces of the model on each rank, v (default 1)"),
    HEADING("Times of a full stage (all chunks of a rank) and micro-batch, in any one unit"),
    TIME_ROWS,
    COSTS_ROW,
    HEADING("Messages"),
    MESSAGE_ROWS,
    HEADING("Memory, in any one unit"),
    REAL("memory-limit", memory_limit, 0, MOST_COST, "of a rank; 0: none"),
    MEMORY_ROWS,
    HEADING("Search"),
    CHOICE("objective", objective, objective_choices,
           "span: of the rank that takes longest, the time from step to step when ranks do not "
           "wait for each other between steps; makespan: of all ranks"),
    REAL("seconds", seconds, 0.001, 1e6, "search at most so long"),
    INT("evaluations", evaluations, 1, INT32_MAX,
        "try at most so many orders; with enough --seconds every machine finds the same"),
    {OPTION_SEED, "seed", "N", "start of the random choices", AT(seed), 0, 0, NULL},
    HEADING("Output"),
    FORM_ROWS("print the schedule too: text, csv, json, svg or chrome (with -o: text)"),
    FLAG("json", json, "print one JSON object"),
    FLAG("quiet", quiet, "no progress on stderr"),
    PICTURE_ROWS,
    HELP_ROWS,
};

struct pipe_config pipe_config_default(void) {
    return (struct pipe_config){
        .tf = 1,
        .ti = 1,
        .tw = 1,
        .tb = -1,
        .fused = -1,
        .link = -1,
        .bytes = -1,
        .bandwidth = -1,
        .optimizer = -1,
        .mem_b = 1,
        .mem_w = -1,
        .capacity = -1,
        .seconds = 1,
    };
}

static int check_forms(const struct pipe_config *c) {
    if (c->slots && c->format != FORM_CSV) {
        return usage_error("--slots belongs to --format csv, not to %s",
                           c->format ? option_choice_name(form_choices, c->format) : "text");
    }
    if (c->slots && c->messages) {
        return usage_error("--slots and --messages do not go together: messages take no slots; "
                           "accepted: one of the two");
    }
    return 0;
}

int pipe_config_check_source(const struct pipe_config *c) {
    if (!c->source) {
        return usage_error("NAME is missing: a built-in order, such as 1f1b, or a file; --help "
                           "lists them");
    }
    return pipe_config_check(c);
}

int32_t pipe_config_stages(const struct pipe_config *c) {
    return c->stages ? c->stages : 4;
}

int32_t pipe_config_micro(const struct pipe_config *c) {
    return c->micro ? c->micro : 8;
}

int pipe_config_has_capacity(int32_t channel) {
    return channel != TPP_CHANNEL_POSTED && channel != TPP_CHANNEL_RENDEZVOUS;
}

int pipe_config_check(const struct pipe_config *c) {
    if ((c->bytes >= 0) != (c->bandwidth >= 0)) {
        return usage_error("--%s is missing: a message occupies its link for --bytes divided by "
                           "--bandwidth",
                           c->bytes >= 0 ? "bandwidth" : "bytes");
    }
    if (c->bytes >= 0 && c->link >= 0) {
        return usage_error("--link %g and --bytes %g say the same twice; accepted: one of the two",
                           c->link, c->bytes);
    }
    if (c->bandwidth == 0) {
        return usage_error("--bandwidth 0 moves nothing; accepted: more than 0");
    }
    if (c->capacity >= 0 && !pipe_config_has_capacity(c->channel)) {
        return usage_error("--capacity %" PRId32 " belongs to a queue; --channel %s has none; "
                           "accepted: fifo-pair, fifo-kind, tagged",
                           c->capacity, option_choice_name(channel_choices, c->channel));
    }
    return check_forms(c);
}

double pipe_config_link(const struct pipe_config *c) {
    return c->bytes >= 0 ? c->bytes / c->bandwidth : c->link >= 0 ? c->link : 0;
}
