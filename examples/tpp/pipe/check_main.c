/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"

#include "../output.h"
#include "../say.h"
#include "check_report.h"
#include "pipe_forms.h"
#include "pipe_help.h"

static const struct pipe_help help = {
    "usage: tpp check NAME [options]\n"
    "\n"
    "Prove that a pipeline schedule is right: complete, in order, its messages paired, and that "
    "no\n"
    "ranks wait for each other.\n",
    "\n"
    "Examples:\n"
    "  tpp check zb-v --stages 4 --micro 8\n"
    "  tpp check mine.txt --channel rendezvous --svg waits.svg\n"
    "      a schedule of your own, for sends that wait for their receive; ranks that wait for\n"
    "      each other are named and drawn\n"
    "  tpp check mine.txt --channel fifo-pair --capacity 2\n"
    "      for queues that hold two messages, from each rank to each other\n"
    "  tpp schedule 1f1b --stages 4 --micro 8 --messages | tpp check - --json\n"
    "\n"
    "A file may hold compute actions alone; messages are then derived from them.\n"
    "\n"
    "--json: schema \"tpp-check/1\"; schedule, stages (ranks of the pipeline), chunks, micro,\n"
    "directions, virtual_stages (0 if the file could not be read); right; broken, the first rule\n"
    "that is, and reason (both null if none is); rules: form, placement, complete, order,\n"
    "messages, deadlock: true, false, or null if it was not looked at; channel; capacity, what\n"
    "was asked for or suffices (null: none does, or the channel has none); wait_cycle, ranks\n"
    "that wait for each other: {rank, peer, at, reason, until}, reason: message (not sent yet),\n"
    "receiver (not come yet), channel (full), slot (its last result is not received yet). If the\n"
    "messages are right also capacities: fifo_pair, fifo_kind, tagged, the fewest that suffice\n"
    "(null: none does); peak_to_w and peak_to_i, as tpp simulate has them. New keys may come;\n"
    "these stay.\n"
    "\n"
    "Exit code: 0 right, 1 wrong or failed, 2 wrong use.\n",
    check_options,
    1,
};

static int draw_run(const struct pipe_config *c, const struct pipe_source *source) {
    struct pipe_costs costs = {0};
    struct pipe_run run = {0};
    int code = pipe_costs_of(&costs, c, source);
    code = code ? code : pipe_run_make(&run, source, &costs, 1);
    code = code ? code : pipe_forms_draw(c, source, &run);
    pipe_run_free(&run);
    pipe_costs_free(&costs);
    return code;
}

static int draw_waits(const struct pipe_config *c, const struct check_rules *rules) {
    struct output output;
    int code = output_open(&output, c->svg);
    if (code) {
        return code;
    }
    if (tpp_schedule_write_wait_svg(rules->waiting, rules->channel, rules->tried, output_write,
                                    output.file) != TPP_OK) {
        code = library_error("draw the ranks that wait");
        output_discard(&output);
        return code;
    }
    return output_close(&output);
}

static int draw(const struct pipe_config *c, struct pipe_source *source,
                const struct check_rules *rules) {
    if (rules->waits) {
        return draw_waits(c, rules);
    }
    if (rules->runs) {
        int code = pipe_source_finish(source);
        return code ? code : draw_run(c, source);
    }
    fprintf(stderr,
            "tpp check: --svg %s is not written; drawn are right schedules, and ranks that "
            "wait for each other\n",
            c->svg);
    return 0;
}

static int present(const struct pipe_config *c, struct pipe_source *source,
                   const struct check_rules *rules) {
    struct check_facts facts;
    struct check_result result = {c, source, rules, &facts};
    int code = check_facts_find(&facts, source, rules);
    if (code == 0) {
        code = c->json ? check_print_json(stdout, &result) : check_print_report(stdout, &result);
    }
    check_facts_free(&facts);
    return code == 0 && c->svg ? draw(c, source, rules) : code;
}

static int check(const struct pipe_config *c, struct pipe_source *source) {
    struct check_rules rules;
    int code = check_rules_find(&rules, source, c);
    code = code ? code : present(c, source, &rules);
    code = code == 0 && rules.kept < RULES ? EXIT_FAILED : code;
    check_rules_free(&rules);
    return code;
}

int check_main(int argc, char **argv) {
    struct pipe_config config = pipe_config_default();
    int code = options_parse(check_options, &config, argc, argv);
    if (code == 0 && config.help) {
        return pipe_help_print(&help);
    }
    code = code ? code : pipe_config_check_source(&config);
    code = code ? code : output_probe("svg", config.svg);
    if (code) {
        return code;
    }
    struct pipe_source source;
    code = pipe_source_try(&source, &config);
    if (code == 0 || source.status != TPP_OK) {
        code = check(&config, &source);
    }
    pipe_source_close(&source);
    return code;
}
