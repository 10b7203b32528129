/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "simulate_main.h"

#include "../output.h"
#include "../say.h"
#include "pipe_forms.h"
#include "pipe_help.h"
#include "simulate_report.h"

static const struct pipe_help help = {
    "usage: tpp simulate NAME [options]\n"
    "\n"
    "How long a pipeline schedule takes with given costs, how long its ranks idle, and what they\n"
    "hold.\n",
    "\n"
    "Examples:\n"
    "  tpp simulate zb-h1 --stages 8 --micro 24 --tf 18.522 --ti 18.086 --tw 9.337 --p2p 0.601\n"
    "      a published case: idle 0.1585 of the longest span\n"
    "  tpp simulate interleaved --stages 4 --chunks 2 --micro 8 --json\n"
    "      numbers for a program\n"
    "  tpp simulate dualpipe --stages 4 --micro 8 --fused 2.5 --svg dualpipe.svg\n"
    "      overlapped pairs that take less than both alone, and a picture\n"
    "  tpp simulate 1f1b --stages 4 --micro 8 --mem-b 2e9 --mem-w 1e9 --mem-state 5e9\n"
    "      memory in bytes\n"
    "  tpp simulate 1f1b --stages 2 --micro 8 --costs costs.json\n"
    "      costs of each stage, such as\n"
    "      {\"forward\": [1, 1.5], \"backward_input\": [1, 1.4], \"backward_weight\": 1}\n"
    "\n"
    "--costs: lists of a number for each virtual stage (or one number for all), each in place of\n"
    "an option: forward, backward (else the sum of its halves), backward_input, backward_weight\n"
    "(else halves of backward), fused, memory (--mem-b), memory_weight, memory_state,\n"
    "send_forward, send_backward (--link), edge_latency (between a stage and the next),\n"
    "optimizer; latency is a number (--p2p).\n"
    "\n"
    "--json: schema \"tpp-simulate/1\". schedule, stages (ranks of the pipeline), chunks (of a\n"
    "rank), micro, directions, virtual_stages. Times in the costs' unit: makespan (first start\n"
    "to last end), span (largest of last end - first start of a rank), period (step to step:\n"
    "with --barrier the makespan, else the span), work (largest of a rank). Idle times:\n"
    "bubble_global, largest of makespan - work of a rank; bubble_span, largest of its span -\n"
    "work; as shares: bubble_global_of_total (of makespan), bubble_global_of_ideal (of work),\n"
    "bubble_span_of_total (of span), bubble_span_of_ideal (of work). Lists by rank:\n"
    "peak_to_w, peak_to_i (most micro-batches held up to the gradients of weights, or of\n"
    "inputs, in full stages: chunk forwards divided by chunks; with two directions each chunk\n"
    "is a full stage), work_by_rank, start_by_rank, end_by_rank, memory_by_rank; memory_peak,\n"
    "the largest of these. critical_path: time and count of its forward, backward,\n"
    "backward_input, backward_weight, overlapped (pairs), messages, optimizer; the times add up\n"
    "to the makespan.\n"
    "New keys may come; these stay.\n"
    "\n"
    "Exit code: 0 done, 1 failed or a wrong schedule, 2 wrong use.\n",
    simulate_options,
    1,
};

static int simulate(const struct pipe_config *c, struct pipe_source *source) {
    struct pipe_costs costs = {0};
    struct pipe_run run = {0};
    int code = pipe_source_finish(source);
    code = code ? code : pipe_costs_of(&costs, c, source);
    code = code ? code : pipe_run_make(&run, source, &costs, c->svg || c->chrome);
    code = code ? code : pipe_forms_draw(c, source, &run);
    if (code == 0 && c->json) {
        code = simulate_print_json(stdout, source, &run);
    } else if (code == 0) {
        code = simulate_print_report(stdout, source, &run);
    }
    pipe_run_free(&run);
    pipe_costs_free(&costs);
    return code;
}

int simulate_main(int argc, char **argv) {
    struct pipe_config config = pipe_config_default();
    int code = options_parse(simulate_options, &config, argc, argv);
    if (code == 0 && config.help) {
        return pipe_help_print(&help);
    }
    code = code ? code : pipe_config_check_source(&config);
    code = code ? code : output_probe("svg", config.svg);
    code = code ? code : output_probe("chrome", config.chrome);
    if (code) {
        return code;
    }
    struct pipe_source source;
    code = pipe_source_open(&source, &config);
    code = code ? code : simulate(&config, &source);
    pipe_source_close(&source);
    return code;
}
