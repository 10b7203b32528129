/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "optimize_search.h"

#include <stdlib.h>
#include <unistd.h>

#include "../reserve.h"
#include "../say.h"
#include "../stop.h"
#include "pipe_costs.h"
#include "pipe_refused.h"

struct watch {
    const struct pipe_config *config;
    int terminal;
    double shown; /* when the last line was; 0: none yet */
};

static int32_t note(void *ctx, const tpp_optimize_state *state) {
    struct watch *w = ctx;
    double every = w->terminal ? 0.2 : 2;
    if (!w->config->quiet && state->seconds >= w->shown + every) {
        w->shown = state->seconds;
        fprintf(stderr, "%s%.6g, at least %.6g, gap %.2f %%  %.1f s of %g%s",
                w->terminal ? "\r\033[K" : "", state->cost, state->lower_bound,
                100 * (state->lower_bound > 0 ? state->cost / state->lower_bound - 1 : 0),
                state->seconds, w->config->seconds, w->terminal ? "" : "\n");
    }
    return stop_signal();
}

/* Stages that costs are given for, and which part of a full one each is. */
static double *shares_of(const struct pipe_config *c, int32_t *stages) {
    int32_t chunks = c->chunks ? c->chunks : c->placement == TPP_PLACEMENT_V ? 2 : 1;
    *stages = pipe_config_stages(c) * chunks;
    double *shares = reserve(*stages, sizeof *shares);
    for (int32_t i = 0; i < *stages; i++) {
        shares[i] = 1.0 / chunks;
    }
    return shares;
}

static int run(struct pipe_source *out, tpp_optimize_report *report, const struct pipe_config *c,
               const struct pipe_costs *costs) {
    struct watch watch = {.config = c, .terminal = isatty(STDERR_FILENO)};
    tpp_optimize_desc d = {0};
    d.size = sizeof d;
    d.ranks = pipe_config_stages(c);
    d.micros = pipe_config_micro(c);
    d.placement = c->placement;
    d.chunks = c->chunks;
    d.costs = &costs->desc;
    d.memory_limit = c->memory_limit;
    d.objective = c->objective;
    d.seconds = c->seconds;
    d.evaluations = c->evaluations;
    d.seed = c->seed;
    d.progress = note;
    d.progress_ctx = &watch;
    report->size = sizeof *report;
    tpp_status status = tpp_optimize(&out->schedule, &d, report);
    if (watch.terminal && watch.shown > 0) {
        fputc('\n', stderr);
    }
    if (status == TPP_ERR_INVALID) {
        return pipe_refused();
    }
    out->name = "optimized";
    out->info.size = sizeof out->info;
    if (status == TPP_OK) {
        status = tpp_schedule_query(out->schedule, &out->info);
    }
    return status == TPP_OK ? 0 : library_error("search for a schedule");
}

int optimize_search(struct pipe_source *out, tpp_optimize_report *report,
                    const struct pipe_config *c) {
    struct pipe_costs costs = {0};
    int32_t stages = 0;
    double *shares = shares_of(c, &stages);
    *out = (struct pipe_source){0};
    int code = pipe_costs_make(&costs, c, shares, stages);
    free(shares);
    stop_watch();
    code = code ? code : run(out, report, c, &costs);
    pipe_costs_free(&costs);
    return code;
}
