/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "pipeline_report.h"

#include <inttypes.h>
#include <unistd.h>

/* The most micro-batches that a rank should hold. */
static void print_peak_rule(FILE *out, const struct training *t) {
    const char *rule = "from its order of actions";
    if (t->config->schedule == TPP_SCHEDULE_GPIPE) {
        rule = "all micro-batches";
    } else if (t->config->schedule == TPP_SCHEDULE_1F1B) {
        rule = "min(pp - rank, micro-batches)";
    }
    fprintf(out,
            "  In flight: most %s that a rank holds between forward and backward; rule of\n"
            "  %s: %s.\n",
            t->config->chunks > 1 ? "micro-batches, per chunk," : "micro-batches",
            option_choice_name(schedule_choices, t->config->schedule), rule);
}

static int32_t peak_rule(const struct team *team, int32_t rank, const int32_t *peaks) {
    int32_t pp = team->layout.pp;
    int32_t micros = team->config->micros;
    if (team->layout.schedule == TPP_SCHEDULE_GPIPE) {
        return micros;
    }
    if (team->layout.schedule == TPP_SCHEDULE_1F1B) {
        return pp - rank < micros ? pp - rank : micros;
    }
    return peaks[rank];
}

/* Mean milliseconds of a rank's operations of one kind, over its chunks. */
static double rank_mean_ms(const struct team *team, int32_t rank, const double *seconds) {
    double sum = 0;
    for (int32_t c = 0; c < team->layout.chunks; c++) {
        sum += seconds[tpp_schedule_stage_of(team->schedule, rank, c)];
    }
    return 1e3 * sum / team->layout.chunks;
}

static void print_ranks(FILE *out, const struct training *t) {
    const struct measure *m = &t->measure;
    int32_t peaks[256] = {0}; /* as many ranks as --pp takes */
    tpp_schedule_peaks(t->split.schedule, peaks);
    fprintf(
        out,
        "  pipeline rank  forward  backward  idle simulated  idle measured  in flight  (rule)\n");
    for (int32_t rank = 0; rank < m->ranks; rank++) {
        int32_t peak = 0;
        for (int32_t lane = 0; lane < t->config->tp; lane++) {
            int32_t own = t->split.sampler.row_peak[rank * t->config->tp + lane];
            peak = own > peak ? own : peak;
        }
        fprintf(out,
                "  %13" PRId32 " %5.2f ms  %5.2f ms %14.1f %% %12.1f %%  %9" PRId32 "  %6" PRId32
                "\n",
                rank, rank_mean_ms(&t->split, rank, m->forward),
                rank_mean_ms(&t->split, rank, m->backward), 1e2 * m->idle_simulated[rank],
                1e2 * m->idle[rank], peak, peak_rule(&t->split, rank, peaks));
    }
}

void pipeline_print(FILE *out, const struct training *t) {
    const struct measure *m = &t->measure;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    fprintf(out, "\nPipeline, mean of the last %" PRId32 " steps\n\n", m->steps);
    print_ranks(out, t);
    fprintf(out,
            "  bubble: idle share of the whole step, mean over ranks: simulated %.1f %%, measured "
            "%.1f %%",
            1e2 * m->bubble_simulated, 1e2 * m->bubble);
    fprintf(out, " (equal stages: %.1f %%)\n", 1e2 * m->bubble_equal);
    fprintf(out, "  pipeline time of a step: simulated %.1f ms, measured %.1f ms\n",
            1e3 * m->makespan_simulated, 1e3 * m->makespan);
    fprintf(out,
            "  Simulated: the schedule followed with the measured mean time of each operation.\n");
    print_peak_rule(out, t);
    if (t->config->executor == EXECUTOR_SERIAL && t->config->pp > 1) {
        fprintf(out, "  The serial executor lets the pipeline's ranks take turns: what it measures "
                     "as idle is the others' work.\n");
    } else if (t->config->tp * t->config->pp > cores) {
        fprintf(out,
                "  %" PRId32
                " ranks share %ld cores: an operation's time includes waiting for a core.\n",
                t->config->tp * t->config->pp, cores);
    }
}
