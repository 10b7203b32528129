/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "early_player.h"

#include <stdio.h>
#include <stdlib.h>

#include "batch.h"
#include "clock.h"
#include "reserve.h"

static const struct train_config *config_of(const struct early_player *p) {
    return p->shared->team->config;
}

static int32_t lanes_of(const struct early_player *p) {
    return p->shared->team->layout.tp;
}

static struct early_side *side_of(const struct early_player *p, int32_t rank, int32_t lane) {
    return &p->sides[(rank - p->first) * lanes_of(p) + lane];
}

static tpp_status make_executor(struct early_player *p) {
    p->later = clock_seconds();
    return p->shared->team->layout.executor == EXECUTOR_SERIAL
               ? tpp_executor_serial_create(&p->executor, lanes_of(p), NULL)
               : tpp_executor_distributed_create(&p->executor, p->first, lanes_of(p), NULL);
}

tpp_status early_player_open(struct early_player *p) {
    const struct team *team = p->shared->team;
    int64_t tokens = (int64_t)team->config->batch * team->config->seq;
    tpp_status status = make_executor(p);
    for (int32_t i = 0; i < p->count * lanes_of(p) && status == TPP_OK; i++) {
        p->ranks[i].comm = p->sides[i].pipeline;
        p->ranks[i].ops = early_side_ops();
        p->ranks[i].ctx = &p->sides[i];
        p->sides[i].sums = p->count < team->layout.pp;
        status = early_side_open(&p->sides[i]);
    }
    p->run = team->run;
    p->run.ranks = p->ranks;
    p->run.memory = NULL;
    if (status == TPP_OK) {
        status = tpp_executor_query(p->executor, &p->run, &p->run.memory_bytes);
    }
    if (status != TPP_OK) {
        return status;
    }
    p->run.memory = reserve(p->run.memory_bytes, 1);
    p->ids = reserve(tokens, sizeof *p->ids);
    p->targets = reserve(tokens, sizeof *p->targets);
    /* One more than the team keeps: a run that ends with the training takes a place. */
    return sampler_create(&p->sampler, team->schedule, lanes_of(p),
                          team->layout.samples ? team->layout.samples + 1 : 0);
}

void early_player_close(struct early_player *p) {
    tpp_executor_destroy(p->executor);
    for (int32_t i = 0; i < p->count * lanes_of(p); i++) {
        early_side_close(&p->sides[i]);
    }
    sampler_destroy(&p->sampler);
    free(p->run.memory);
    free(p->ids);
    free(p->targets);
}

/* --- Steps ------------------------------------------------------------------------------------ */

struct step_job {
    struct early_player *player;
    int64_t step;
};

/* Every rank of the pipeline takes part, also those that hold no copy. */
static tpp_status join_ends(void *arg, int32_t rank, int32_t lane) {
    const struct step_job *job = arg;
    struct early_side *side = side_of(job->player, rank, lane);
    const struct team *team = job->player->shared->team;
    int holds = 0;
    for (int32_t c = 0; c < side->worker->chunks; c++) {
        int32_t stage = side->worker->pieces[c].stage;
        holds |= stage % team->stages == 0 || stage % team->stages == team->stages - 1;
    }
    side->ties = holds;
    return side->pipeline ? tpp_comm_split(side->pipeline, &side->ends, holds ? 0 : -1, rank)
                          : TPP_OK;
}

static tpp_status step_side(void *arg, int32_t rank, int32_t lane) {
    const struct step_job *job = arg;
    return early_side_step(side_of(job->player, rank, lane), job->step,
                           update_rate(config_of(job->player), job->step));
}

static tpp_status settle_side(void *arg, int32_t rank, int32_t lane) {
    const struct step_job *job = arg;
    return early_side_settle(side_of(job->player, rank, lane));
}

static tpp_status each(const struct early_player *p, tpp_each_fn fn, struct step_job *job) {
    return tpp_executor_each(p->executor, p->shared->team->layout.pp, lanes_of(p), fn, job);
}

static tpp_status begin(struct early_player *p) {
    struct step_job job = {p, 0};
    int tied = (config_of(p)->desc.flags & TPP_MODEL_TIED) != 0;
    return tied && p->count < p->shared->team->layout.pp ? each(p, join_ends, &job) : TPP_OK;
}

static tpp_status run_once(struct early_player *p, int64_t step) {
    tpp_status status = TPP_OK;
    for (int32_t i = 0; i < p->count * lanes_of(p) && status == TPP_OK; i++) {
        early_side_enter(&p->sides[i]);
        status = team_set_data(p->shared->team, p->sides[i].worker, step, p->ids, p->targets);
    }
    p->run.trace = sampler_trace(&p->sampler, step);
    tpp_run_report *report = sampler_report(&p->sampler, step);
    status = status == TPP_OK ? tpp_executor_run(p->executor, &p->run, report) : status;
    p->run.step++; /* also of a run that was for nothing: no message may meet another run's */
    return status;
}

static tpp_status play_step(struct early_player *p, int64_t step) {
    struct step_job job = {p, step};
    const struct train_config *c = config_of(p);
    tpp_status status = TPP_OK;
    batch_fill(p->corpus, c->seed, step, c->batch, c->seq, p->ids, p->targets);
    do {
        status = run_once(p, step);
    } while (status == TPP_OK && p->sides[0].drained && !p->sides[0].over);
    if (status != TPP_OK || p->sides[0].over) {
        return status;
    }
    sampler_note(&p->sampler);
    if (p->count == p->shared->team->layout.pp) {
        status = update_sums(p->shared->team, p->executor);
    }
    return status == TPP_OK ? each(p, step_side, &job) : status;
}

void early_player_abort(const struct early_player *p) {
    for (int32_t i = 0; i < p->count * lanes_of(p); i++) {
        tpp_comm_abort(p->sides[i].pipeline);
        tpp_comm_abort(p->sides[i].worker->tensor);
        tpp_comm_abort(p->sides[i].ends);
    }
}

void early_player_play(struct early_player *p) {
    struct step_job job = {p, 0};
    int64_t steps = config_of(p)->steps;
    tpp_status status = begin(p);
    for (int64_t step = 0; step < steps && status == TPP_OK && !p->sides[0].over; step++) {
        status = play_step(p, step);
    }
    if (status == TPP_OK && !p->sides[0].over) {
        status = each(p, settle_side, &job); /* the last one */
    }
    if (status != TPP_OK) {
        p->status = status;
        snprintf(p->message, sizeof p->message, "%s", tpp_message());
        early_player_abort(p);
    }
}

/* --- Samples ---------------------------------------------------------------------------------- */

static void tell_row(const struct early_player *p, const struct sample *from, int32_t row,
                     uint64_t step, struct sample *to) {
    int64_t count = 0;
    const tpp_event *events = tpp_trace_events(from->trace, row, &count);
    int32_t out_row = p->first * lanes_of(p) + row;
    for (int64_t i = 0; i < count; i++) {
        tpp_event event = events[i];
        event.row = out_row;
        event.step = step; /* not the number of the run */
        event.start += p->later;
        event.end += p->later;
        tpp_trace_add(to->trace, &event);
    }
    to->row_work[out_row] = from->row_work[row];
}

void early_player_tell(const struct early_player *p, struct sampler *out) {
    if (out->capacity == 0) {
        return;
    }
    for (int64_t step = out->steps - sampler_count(out); step < out->steps; step++) {
        const struct sample *from = &p->sampler.samples[step % p->sampler.capacity];
        struct sample *to = &out->samples[step % out->capacity];
        for (int32_t row = 0; row < p->count * lanes_of(p); row++) {
            tell_row(p, from, row, (uint64_t)step, to);
        }
        /* Steps overlap: what one takes is the span of the rank that takes longest. */
        if (from->report.makespan > to->report.makespan) {
            to->report.makespan = from->report.makespan;
        }
    }
    for (int32_t row = 0; row < p->count * lanes_of(p); row++) {
        out->row_peak[p->first * lanes_of(p) + row] = p->sampler.row_peak[row];
    }
}
