/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "schedule_main.h"

#include "../output.h"
#include "../say.h"
#include "pipe_forms.h"
#include "pipe_help.h"

static const struct pipe_help help = {
    "usage: tpp schedule NAME [options]\n"
    "\n"
    "Print a pipeline schedule: which rank does what in which order.\n",
    "\n"
    "Examples:\n"
    "  tpp schedule zb-h1 --stages 4 --micro 8\n"
    "      a line per rank: F forward, I and W the two halves of a backward, B both in one;\n"
    "      before the letter the stage, behind it the micro-batch\n"
    "  tpp schedule interleaved --stages 4 --chunks 2 --micro 8 --format svg -o interleaved.svg\n"
    "      a picture\n"
    "  tpp schedule 1f1b --stages 2 --micro 4 --messages\n"
    "      with sends and receives\n"
    "  tpp schedule gpipe --stages 3 --micro 3 | tpp schedule - --format csv --slots\n"
    "      from one form to another\n"
    "\n"
    "json: schema \"tpp-schedule/1\"; schedule, stages (ranks of the pipeline), chunks, micro,\n"
    "directions, virtual_stages, rank_of (of each virtual stage), ranks: for each its actions,\n"
    "{op, stage, micro}, with the peer of a message, with fused where the action and the next\n"
    "one overlap.\n"
    "\n"
    "Exit code: 0 done, 1 failed, 2 wrong use.\n",
    schedule_options,
    1,
};

static int draw(const struct pipe_config *c, const struct pipe_source *source) {
    struct pipe_costs costs = {0};
    struct pipe_run run = {0};
    int code = pipe_costs_of(&costs, c, source);
    if (code == 0) {
        code = pipe_run_make(&run, source, &costs, 1);
    }
    if (code == 0) {
        code = pipe_forms_write(stdout, c->out, c->format, source, &run);
    }
    pipe_run_free(&run);
    pipe_costs_free(&costs);
    return code;
}

static int print(const struct pipe_config *c, struct pipe_source *source) {
    int drawn = pipe_forms_drawn(c->format);
    int code = drawn || c->messages ? pipe_source_finish(source) : 0;
    if (code == 0 && drawn) {
        return draw(c, source);
    }
    int32_t form = c->slots ? FORM_SLOTS : c->format ? c->format : FORM_TEXT;
    return code ? code : pipe_forms_write(stdout, c->out, form, source, NULL);
}

int schedule_main(int argc, char **argv) {
    struct pipe_config config = pipe_config_default();
    int code = options_parse(schedule_options, &config, argc, argv);
    if (code == 0 && config.help) {
        return pipe_help_print(&help);
    }
    code = code ? code : pipe_config_check_source(&config);
    code = code ? code : output_probe("out", config.out);
    if (code) {
        return code;
    }
    struct pipe_source source;
    code = pipe_source_open(&source, &config);
    code = code ? code : print(&config, &source);
    pipe_source_close(&source);
    return code;
}
