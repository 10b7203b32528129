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
    "  tpp check mine.txt --channel rendezvous\n"
    "      a schedule of your own, for sends that wait for their receive\n"
    "  tpp schedule 1f1b --stages 4 --micro 8 --messages | tpp check - --json\n"
    "\n"
    "A file may hold compute actions alone; messages are then derived from them.\n"
    "\n"
    "--json: schema \"tpp-check/1\"; schedule, stages (ranks of the pipeline), chunks, micro,\n"
    "directions, virtual_stages (0 if the file could not be read); right; broken, the first rule\n"
    "that is, and reason (both null if none is); rules: form, placement, complete, order,\n"
    "messages, deadlock: true, false, or null if it was not looked at; channel; of a schedule\n"
    "that can run peak_to_w and peak_to_i, as tpp simulate has them. New keys may come; these\n"
    "stay.\n"
    "\n"
    "Exit code: 0 right, 1 wrong or failed, 2 wrong use.\n",
    check_options,
    1,
};

static int present(const struct check_result *result) {
    return result->config->json ? check_print_json(stdout, result)
                                : check_print_report(stdout, result);
}

/* What a schedule that can run holds, and its picture. */
static int run(struct check_result *result, struct pipe_source *source) {
    const struct pipe_config *c = result->config;
    struct pipe_costs costs = {0};
    struct pipe_run run = {0};
    int code = pipe_source_finish(source);
    code = code ? code : pipe_costs_of(&costs, c, source);
    code = code ? code : pipe_run_make(&run, source, &costs, c->svg != NULL);
    code = code ? code : pipe_forms_draw(c, source, &run);
    if (code == 0) {
        result->run = &run;
        code = present(result);
    }
    pipe_run_free(&run);
    pipe_costs_free(&costs);
    return code;
}

static int check(const struct pipe_config *c, struct pipe_source *source) {
    struct check_rules rules;
    struct check_result result = {c, source, &rules, NULL};
    int code = check_rules_find(&rules, source, c);
    if (code) {
        return code;
    }
    code = rules.kept == RULES ? run(&result, source) : present(&result);
    return code == 0 && rules.kept < RULES ? EXIT_FAILED : code;
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
