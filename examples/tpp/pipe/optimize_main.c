/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "optimize_main.h"

#include "../output.h"
#include "../say.h"
#include "../stop.h"
#include "optimize_report.h"
#include "optimize_search.h"
#include "pipe_forms.h"
#include "pipe_help.h"

static const struct pipe_help help = {
    "usage: tpp optimize [options]\n"
    "\n"
    "Search for the pipeline schedule with the shortest step, for given costs and memory, and\n"
    "prove how far from the shortest possible it can be at most.\n",
    "\n"
    "Examples:\n"
    "  tpp optimize --stages 8 --micro 24 --tf 18.522 --ti 18.086 --tw 9.337 --p2p 0.601 \\\n"
    "      --mem-b 34 --mem-w 12.5 --memory-limit 544 --placement looped --seconds 2\n"
    "      a published case, in the memory of 16 micro-batches: it had 0.0433 of the span idle\n"
    "  tpp optimize --stages 4 --micro 8 --memory-limit 2 --placement v --svg v.svg\n"
    "      half of it, two stages on each rank, and a picture\n"
    "  tpp optimize --stages 4 --micro 8 --ti 1.2 --tw 0.8 --memory-limit 4 --json -o best.txt\n"
    "      numbers, and the schedule for tpp simulate, tpp check or a program\n"
    "\n"
    "--json: schema \"tpp-optimize/1\"; all keys of tpp simulate --json, and: placement (found),\n"
    "cost (what was to be short: span or makespan), lower_bound (no schedule of the placements\n"
    "tried costs less), gap ((cost - lower_bound) / lower_bound), optimal (proved to be the best\n"
    "of its placement), memory_limit, memory_peak (most that a rank holds), seconds, evaluations\n"
    "(orders tried), stopped (by a signal). New keys may come; these stay.\n"
    "\n"
    "--costs: as tpp simulate has it; lists have a number for each stage of the placement, with\n"
    "--placement any for each rank.\n"
    "\n"
    "Ctrl-C ends the search with the best so far; a second one at once.\n"
    "Exit code: 0 done, 1 failed, 2 wrong use, 130 stopped by Ctrl-C (143 by SIGTERM).\n",
    optimize_options,
    0,
};

static int check(const struct pipe_config *c) {
    int code = pipe_config_check(c);
    if (code == 0 && c->json && c->format && !c->out) {
        return usage_error(
            "--json and --format %s both print; accepted: one of the two, or -o FILE "
            "for the schedule",
            option_choice_name(form_choices, c->format));
    }
    code = code ? code : output_probe("out", c->out);
    code = code ? code : output_probe("svg", c->svg);
    return code ? code : output_probe("chrome", c->chrome);
}

static int present(const struct pipe_config *c, const struct optimize_result *result) {
    int32_t form = c->format ? c->format : c->out ? FORM_TEXT : 0;
    int code = pipe_forms_draw(c, result->source, result->run);
    if (code == 0 && form) {
        code = pipe_forms_write(stdout, c->out, form, result->source, result->run);
    }
    if (code) {
        return code;
    }
    FILE *out = form && !c->out ? stderr : stdout;
    return c->json ? optimize_print_json(out, result) : optimize_print_report(out, result);
}

static int measure(const struct pipe_config *c, const struct pipe_source *source,
                   const tpp_optimize_report *report) {
    struct pipe_costs costs = {0};
    struct pipe_run run = {0};
    struct optimize_result result = {c, source, &run, report};
    int code = pipe_costs_of(&costs, c, source);
    code = code ? code : pipe_run_make(&run, source, &costs, 1);
    code = code ? code : present(c, &result);
    pipe_run_free(&run);
    pipe_costs_free(&costs);
    return code;
}

int optimize_main(int argc, char **argv) {
    struct pipe_config config = pipe_config_default();
    int code = options_parse(optimize_options, &config, argc, argv);
    if (code == 0 && config.help) {
        return pipe_help_print(&help);
    }
    code = code ? code : check(&config);
    if (code) {
        return code;
    }
    struct pipe_source source;
    tpp_optimize_report report = {0};
    code = optimize_search(&source, &report, &config);
    code = code ? code : measure(&config, &source, &report);
    pipe_source_close(&source);
    return code == 0 && stop_signal() ? 128 + stop_signal() : code;
}
