/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "train.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "clock.h"
#include "output.h"
#include "progress.h"
#include "reserve.h"
#include "say.h"
#include "stop.h"
#include "train_json.h"
#include "train_model.h"
#include "train_pictures.h"
#include "train_report.h"
#include "weights.h"

enum { SAMPLES = 8 }; /* last steps that the pictures and the report look at */

static const char HELP_HEAD[] =
    "usage: tpp train --data FILE [options]\n"
    "\n"
    "Train a language model on the bytes of a text, split over tensor-parallel and pipeline ranks\n"
    "that are threads of this process. With --blocks the split does not change a single bit of "
    "it.\n";

static const char HELP_TAIL[] =
    "\n"
    "Examples:\n"
    "  tpp train --data book.txt\n"
    "      one rank, the standard model\n"
    "  tpp train --data book.txt --tp 2 --pp 2 --blocks 4 --compare --report --gantt step.svg\n"
    "      2 x 2 ranks; proves that they compute what one rank does, and draws a step\n"
    "  tpp train --data book.txt --layers 8 --pp 4 --chunks 2 --schedule interleaved \\\n"
    "      --micro-batches 8 --json >run.json\n"
    "      4 pipeline ranks with 2 pieces of the model each; everything as numbers\n"
    "  tpp train --data book.txt --layers 8 --pp 4 --micro-batches 8 --schedule zb-h2 "
    "--early-step\n"
    "      zero bubble: no rank waits for the others, neither within a step nor between two\n"
    "  tpp train --data book.txt --family llama --kv-heads 2 --ffn 352 --tp 2\n"
    "      RMSNorm, SwiGLU, rotary positions, two query heads to a K/V head\n"
    "  tpp train --data book.txt --model Qwen3-0.6B/config.json --load Qwen3-0.6B --seq 256\n"
    "      a model as Hugging Face has it, trained on: its weights, of any floating type\n"
    "  tpp train --data book.txt --save book.safetensors\n"
    "  tpp train --data more.txt --load book.safetensors --tp 2\n"
    "      the trained weights are the start of another training, under another split\n"
    "\n"
    "Ctrl-C ends the run after the step under way, with the results so far; a second one at once.\n"
    "Exit code: 0 done, 1 failed, 2 wrong use, 130 stopped by Ctrl-C (143 by SIGTERM).\n";

static int print_help(void) {
    struct train_config defaults = train_config_default();
    fputs(HELP_HEAD, stdout);
    options_print(stdout, train_options, &defaults);
    fputs(HELP_TAIL, stdout);
    return fflush(stdout) ? system_error("the help cannot be written") : EXIT_DONE;
}

/* Whatever a bad file or name can spoil is found here, before the work. */
static int load(struct training *t) {
    const struct train_config *config = t->config;
    int code = corpus_load(&t->corpus, config->data);
    if (code == 0 && t->corpus.count <= config->seq) {
        code = usage_error(
            "--seq %" PRId32 " is too long for --data %s of %" PRId64
            " bytes: a sequence and the byte after it must fit; accepted: at most %" PRId64,
            config->seq, config->data, t->corpus.count, t->corpus.count - 1);
    }
    code = code ? code : output_probe("trace", config->trace);
    code = code ? code : output_probe("gantt", config->gantt);
    code = code ? code : weights_probe(config->save);
    return code ? code : weights_save_model(&config->desc, config->save_config);
}

static int make_teams(struct training *t) {
    const struct train_config *c = t->config;
    struct layout layout = {c->tp, c->pp, c->chunks, c->schedule, c->executor, SAMPLES};
    int code = team_create(&t->split, c, &layout);
    if (code == 0 && c->compare) {
        struct layout one = {1, 1, 1, TPP_SCHEDULE_1F1B, EXECUTOR_SERIAL, 0};
        code = team_create(&t->whole, c, &one);
    }
    if (code == 0 && c->load) {
        code = weights_load(&t->split, c->load);
    }
    code = code == 0 && c->load && c->compare ? weights_load(&t->whole, c->load) : code;
    return code == 0 && c->early ? early_create(&t->early, &t->split, &t->corpus) : code;
}

/* Entries of all parameters, each counted once. */
static int64_t count_numbers(const struct team *team) {
    int64_t numbers = 0;
    for (int32_t i = 0; i < team->params; i++) {
        const struct piece *piece = team_piece(team, i, 0);
        tpp_param_info info = {0};
        info.size = sizeof info;
        tpp_layer_param(piece->layer, i - piece->first, &info);
        if (info.flags & TPP_PARAM_COPY) {
            continue;
        }
        int64_t rows = info.shard.axis == TPP_AXIS_ROWS ? info.shard.valid : info.shard.rows;
        int64_t cols = info.shard.axis == TPP_AXIS_COLS ? info.shard.valid : info.shard.cols;
        numbers += rows * cols;
    }
    return numbers;
}

static void note_step(struct training *t, double rate, const struct step_result *split,
                      const struct step_result *whole) {
    struct step_record *record = history_add(&t->history);
    *record = (struct step_record){split->loss, split->norm, rate,           split->seconds,
                                   whole->loss, whole->norm, whole->seconds, split->redone};
    double tokens = (double)(t->config->batch / t->config->micros) * t->config->seq;
    double *micro_losses = history_micro_losses(&t->history, t->history.count - 1);
    for (int32_t m = 0; m < t->config->micros; m++) {
        micro_losses[m] = split->micro_losses[m] / tokens;
    }
}

static int train_step(struct training *t, int64_t step) {
    const struct train_config *c = t->config;
    struct step_result split = {0};
    struct step_result whole = {0};
    double rate = update_rate(c, step);
    batch_fill(&t->corpus, c->seed, step, c->batch, c->seq, t->ids, t->targets);
    int code = 0;
    if (t->early) {
        early_take(t->early, &split);
    } else {
        code = team_step(&t->split, t->ids, t->targets, rate, &split);
    }
    if (code == 0 && c->compare) {
        code = team_step(&t->whole, t->ids, t->targets, rate, &whole);
    }
    if (code) {
        return code;
    }
    note_step(t, rate, &split, &whole);
    if (!isfinite(split.loss) || !isfinite(split.norm)) {
        fprintf(stderr,
                "\ntpp train: step %" PRId64
                " has loss %g and gradient norm %g; a smaller --lr may help\n",
                step + 1, split.loss, split.norm);
        return EXIT_FAILED;
    }
    return 0;
}

static int goes_on(const struct training *t, int64_t step) {
    if (step == t->config->steps) {
        return 0;
    }
    return t->early ? early_next(t->early) : !stop_signal();
}

static int run_steps(struct training *t) {
    struct progress progress = progress_begin(t->config);
    double start = clock_seconds();
    int code = 0;
    for (int64_t step = 0; code == 0 && goes_on(t, step); step++) {
        code = train_step(t, step);
        if (code == 0) {
            progress_step(&progress, &t->history);
        }
    }
    if (t->early) {
        int ended = early_end(t->early);
        code = code ? code : ended;
    }
    progress_end(&progress);
    t->seconds = clock_seconds() - start;
    t->stopped = stop_signal();
    return code;
}

/* Everything that is said and written about the finished run. */
static int present(struct training *t) {
    const struct train_config *c = t->config;
    FILE *text = c->json ? stderr : stdout;
    int code = measure_create(&t->measure, &t->split);
    if (code) {
        return code;
    }
    t->fingerprint = compare_fingerprint(&t->split);
    if (c->compare) {
        compare(&t->comparison, &t->split, &t->whole, &t->history);
        compare_print(text, &t->comparison);
    }
    code = train_write_pictures(t);
    if (c->report) {
        train_print_report(text, t);
    }
    if (c->report || !c->json) {
        train_print_end(text, t);
    }
    if (c->json) {
        int written = train_write_json(stdout, t);
        code = code ? code : written;
    }
    return fflush(text) && code == 0 ? system_error("the results cannot be written") : code;
}

static int train(struct training *t) {
    const struct train_config *c = t->config;
    int code = load(t);
    stop_watch(); /* not before: a text that comes from a terminal can still be given up */
    code = code ? code : make_teams(t);
    if (code) {
        return code;
    }
    t->numbers = count_numbers(&t->split);
    t->history.micros = c->micros;
    t->ids = reserve((int64_t)c->batch * c->seq, sizeof *t->ids);
    t->targets = reserve((int64_t)c->batch * c->seq, sizeof *t->targets);
    if (!c->quiet) {
        train_print_start(stderr, t);
    }
    code = run_steps(t);
    if (code == 0 && c->save) {
        code = weights_save(&t->split, c->save);
    }
    code = code ? code : present(t);
    return code == 0 && t->stopped ? 128 + t->stopped : code;
}

static void forget(struct training *t) {
    compare_free(&t->comparison);
    measure_free(&t->measure);
    history_free(&t->history);
    early_destroy(t->early);
    team_destroy(&t->whole);
    team_destroy(&t->split);
    corpus_free(&t->corpus);
    free(t->ids);
    free(t->targets);
}

int train_main(int argc, char **argv) {
    struct train_config config = train_config_default();
    train_config_clear_model(&config);
    int code = options_parse(train_options, &config, argc, argv);
    if (code == 0 && config.help) {
        return print_help();
    }
    code = code ? code : train_model_make(&config);
    train_config_complete(&config);
    code = code ? code : train_config_check(&config);
    if (code) {
        return code;
    }
    struct training training;
    memset(&training, 0, sizeof training);
    training.config = &config;
    code = train(&training);
    forget(&training);
    return code;
}
