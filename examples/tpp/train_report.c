/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "train_report.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

#include "chart.h"
#include "pipeline_report.h"
#include "say.h"
#include "traffic.h"

static int64_t tokens_per_step(const struct train_config *config) {
    return (int64_t)config->batch * config->seq;
}

void train_print_start(FILE *out, const struct training *t) {
    const struct train_config *c = t->config;
    char number[GROUPED_BYTES];
    fprintf(out,
            "text   %s: %s bytes, %" PRId32
            " distinct; entropy %.3f nats a byte, %.3f knowing the byte before\n",
            c->data, grouped(number, t->corpus.count), t->corpus.distinct, t->corpus.unigram,
            t->corpus.bigram);
    fprintf(out,
            "model  %s of %" PRId32 " layers, hidden %" PRId32 ", ffn %" PRId32 " %s, %" PRId32
            " heads",
            option_choice_name(family_choices, c->family), c->layers, c->hidden, c->ffn,
            option_choice_name(act_choices, c->act), c->heads);
    if (c->kv_heads != c->heads) {
        fprintf(out, " (%" PRId32 " K/V)", c->kv_heads);
    }
    fprintf(out, ": %s parameters, %s\n", grouped(number, t->numbers),
            option_choice_name(dtype_choices, c->dtype));
    fprintf(out, "step   %" PRId32 " sequences of %" PRId32 " bytes in %" PRId32 " micro-batches\n",
            c->batch, c->seq, c->micros);
    fprintf(out, "split  tp %" PRId32 " x pp %" PRId32, c->tp, c->pp);
    if (c->chunks > 1) {
        fprintf(out, " x %" PRId32 " chunks", c->chunks);
    }
    fprintf(out, ", schedule %s, executor %s, ", option_choice_name(schedule_choices, c->schedule),
            option_choice_name(executor_choices, c->executor));
    if (c->blocks) {
        fprintf(out, "%" PRId32 " blocks", c->blocks);
    } else {
        fprintf(out, "no fixed blocks");
    }
    fprintf(out, "%s\n", c->compare ? "; the unsplit model beside it" : "");
}

void train_print_end(FILE *out, const struct training *t) {
    const struct history *h = &t->history;
    if (h->count == 0) {
        fprintf(out, "stopped before the first step\n");
        return;
    }
    int64_t tail = h->count < 10 ? h->count : 10;
    fprintf(out,
            "%s after %" PRId64 " of %" PRId32 " steps, %.1f s: loss %.4f -> %.4f nats a byte\n",
            t->stopped ? "stopped" : "done", h->count, t->config->steps, t->seconds,
            h->records[0].loss, history_mean_loss(h, h->count - tail, h->count));
}

static void print_loss(FILE *out, const struct training *t) {
    const struct history *h = &t->history;
    int64_t tail = h->count < 10 ? h->count : 10;
    double last = history_mean_loss(h, h->count - tail, h->count);
    fprintf(out, "\nLoss: mean cross-entropy in nats a byte\n\n");
    chart_print(out, h, &t->corpus);
    fprintf(out, "\n  first step %.4f, mean of the last %" PRId64 " steps %.4f\n",
            h->records[0].loss, tail, last);
    fprintf(
        out,
        "  unigram entropy of the text %.3f (knows how often a byte occurs): the loss is %.3f %s\n",
        t->corpus.unigram, fabs(t->corpus.unigram - last),
        last < t->corpus.unigram ? "below" : "ABOVE");
    fprintf(
        out,
        "  bigram entropy of the text  %.3f (knows the byte before):         the loss is %.3f %s\n",
        t->corpus.bigram, fabs(t->corpus.bigram - last),
        last < t->corpus.bigram ? "below" : "above");
}

static void print_compare(FILE *out, const struct training *t) {
    const struct comparison *c = &t->comparison;
    fprintf(out,
            "\nSplit (tp %" PRId32 " x pp %" PRId32
            ") against unsplit (one rank), same text, %" PRId64 " steps\n\n",
            t->config->tp, t->config->pp, t->history.count);
    if (c->loss_step == 0) {
        fprintf(out, "  losses      equal bits at every step\n");
    } else {
        fprintf(out, "  losses      largest difference %.2e, at step %" PRId64 "\n",
                c->loss_difference, c->loss_step);
    }
    if (c->worst < 0) {
        char numbers[GROUPED_BYTES];
        fprintf(out, "  parameters  equal bits: all %s numbers of %" PRId32 " tensors\n",
                grouped(numbers, t->numbers), c->count);
    } else {
        fprintf(out, "  parameters  largest relative difference %.1e, in %s\n",
                c->params[c->worst].relative, c->params[c->worst].name);
    }
}

static void print_speed(FILE *out, const struct training *t) {
    char speed[GROUPED_BYTES];
    double split = history_median_seconds(&t->history, 0);
    double tokens = (double)tokens_per_step(t->config);
    fprintf(out, "\nSpeed (median step)\n\n");
    fprintf(out, "  split    %9s tokens/s, %.1f ms a step, %" PRId32 " %s on %ld cores\n",
            grouped(speed, (int64_t)(tokens / split)), 1e3 * split, t->config->tp * t->config->pp,
            t->config->tp * t->config->pp > 1 ? "ranks" : "rank", sysconf(_SC_NPROCESSORS_ONLN));
    if (t->config->compare) {
        double whole = history_median_seconds(&t->history, 1);
        fprintf(
            out,
            "  unsplit  %9s tokens/s, %.1f ms a step, one rank: the split is %.2f times as fast\n",
            grouped(speed, (int64_t)(tokens / whole)), 1e3 * whole, whole / split);
    }
}

static void print_redone(FILE *out, const struct history *h) {
    int64_t redone = history_redone(h);
    fprintf(out,
            "  Optimizer steps: taken without waiting for the other ranks; %" PRId64 " of %" PRId64
            " were taken back\n  and done again (gradient above --clip).\n",
            redone, h->count);
}

static void print_pictures(FILE *out, const struct training *t) {
    if (t->config->gantt) {
        fprintf(out, "\nGantt picture of a late step (any browser): %s\n", t->config->gantt);
    }
    if (t->config->trace) {
        fprintf(out,
                "%sTrace of the last %" PRId32 " steps (ui.perfetto.dev, chrome://tracing): %s\n",
                t->config->gantt ? "" : "\n", t->measure.steps, t->config->trace);
    }
    if (t->config->save) {
        fprintf(out, "%sWeights (safetensors): %s\n",
                t->config->gantt || t->config->trace ? "" : "\n", t->config->save);
    }
}

void train_print_report(FILE *out, const struct training *t) {
    if (t->history.count == 0) {
        return;
    }
    print_loss(out, t);
    if (t->config->compare) {
        print_compare(out, t);
    }
    print_speed(out, t);
    pipeline_print(out, t);
    if (t->config->early) {
        print_redone(out, &t->history);
    }
    if (t->config->tp > 1) {
        traffic_print(out, &t->split);
    } else {
        fprintf(out, "\nAll-reduces: none, --tp is 1\n");
    }
    print_pictures(out, t);
}
