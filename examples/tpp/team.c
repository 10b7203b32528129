/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "team.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "rank_executors.h"
#include "reserve.h"
#include "say.h"

/* Deadline of a wait. No rank can die alone here, but a user may stop the program for a while
 * (Ctrl-Z). */
static const double WAIT_SECONDS = 600;

static tpp_status make_schedule(struct team *team) {
    tpp_schedule_desc d = {0};
    d.size = sizeof d;
    d.kind = team->layout.schedule;
    d.ranks = team->layout.pp;
    d.chunks = team->layout.chunks;
    d.micros = team->config->micros;
    tpp_schedule_info info = {0};
    info.size = sizeof info;
    tpp_status status = tpp_schedule_make(&team->schedule, &d);
    if (status == TPP_OK) {
        status = tpp_schedule_query(team->schedule, &info);
    }
    team->stages = info.depth;
    team->directions = info.directions;
    return status;
}

/* `groups` groups of `size` ranks. A group of one needs no comm. */
static tpp_status make_groups(tpp_comm **out, int32_t groups, int32_t size) {
    tpp_comm_local_desc d = {0};
    d.size = sizeof d;
    d.timeout = WAIT_SECONDS;
    tpp_status status = TPP_OK;
    for (int32_t g = 0; g < groups && size > 1 && status == TPP_OK; g++) {
        status = tpp_comm_local_create(out + (int64_t)g * size, size, &d);
    }
    return status;
}

static tpp_status make_workers(struct team *team) {
    const struct layout *layout = &team->layout;
    tpp_status status = TPP_OK;
    for (int32_t i = 0; i < layout->pp * layout->tp && status == TPP_OK; i++) {
        struct worker_place place = {team->config, team->schedule, team->tensor[i], i / layout->tp};
        status = worker_create(&team->workers[i], &place);
        team->ranks[i].comm = team->pipeline[i % layout->tp * layout->pp + i / layout->tp];
        team->ranks[i].ops = worker_ops();
        team->ranks[i].ctx = &team->workers[i];
    }
    return status;
}

static tpp_status make_executor(struct team *team) {
    if (team->layout.executor == EXECUTOR_SERIAL) {
        return tpp_executor_serial_create(&team->executor, team->layout.tp, NULL);
    }
    if (team->layout.executor == EXECUTOR_DISTRIBUTED) {
        return rank_executors_create(&team->executor, team->layout.pp, team->layout.tp);
    }
    return tpp_executor_threads_create(&team->executor, team->layout.pp, team->layout.tp, NULL);
}

static tpp_status make_run(struct team *team) {
    tpp_run *run = &team->run;
    run->size = sizeof *run;
    run->schedule = team->schedule;
    run->ranks = team->ranks;
    run->lanes = team->layout.tp;
    run->message_dtype = team->config->dtype;
    run->message_count = train_config_rows(team->config, team->layout.tp) * team->config->hidden;
    tpp_status status = tpp_executor_query(team->executor, run, &run->memory_bytes);
    if (status == TPP_OK) {
        run->memory = reserve(run->memory_bytes, 1);
    }
    return status;
}

/* Parameters are numbered through the stages: the same numbers under every layout. */
static void number_params(struct team *team) {
    for (int32_t stage = 0; stage < team->stages; stage++) {
        int32_t count = 0;
        for (int32_t i = 0; i < team->directions * team->layout.tp; i++) {
            int32_t virtual_stage = stage + i / team->layout.tp * team->stages;
            struct piece *piece =
                (struct piece *)team_stage_piece(team, virtual_stage, i % team->layout.tp);
            piece->first = team->params;
            count = piece->count;
        }
        team->params += count;
    }
    team->blocks = team->workers[0].blocks;
    team->squares = reserve((int64_t)team->params * team->blocks, sizeof *team->squares);
}

static tpp_status init_one(void *arg, int32_t rank, int32_t lane) {
    struct team *team = arg;
    return worker_init(&team->workers[rank * team->layout.tp + lane], team->config->seed);
}

int team_create(struct team *team, const struct train_config *config, const struct layout *layout) {
    int32_t ranks = layout->pp * layout->tp;
    memset(team, 0, sizeof *team);
    team->config = config;
    team->layout = *layout;
    team->tensor = reserve(ranks, sizeof *team->tensor);
    team->pipeline = reserve(ranks, sizeof *team->pipeline);
    team->workers = reserve(ranks, sizeof *team->workers);
    team->ranks = reserve(ranks, sizeof *team->ranks);
    team->micro_losses = reserve(config->micros, sizeof *team->micro_losses);
    if (make_schedule(team) != TPP_OK) {
        return library_error("make the schedule");
    }
    if (make_groups(team->tensor, layout->pp, layout->tp) != TPP_OK ||
        make_groups(team->pipeline, layout->tp, layout->pp) != TPP_OK) {
        return library_error("make the groups of ranks");
    }
    if (make_workers(team) != TPP_OK) {
        return library_error("make the model");
    }
    if (make_executor(team) != TPP_OK || make_run(team) != TPP_OK) {
        return library_error("make the executor");
    }
    if (sampler_create(&team->sampler, team->schedule, layout->tp, layout->samples) != TPP_OK) {
        return library_error("make the traces");
    }
    number_params(team);
    if (tpp_executor_each(team->executor, layout->pp, layout->tp, init_one, team) != TPP_OK) {
        return library_error("fill the parameters");
    }
    return 0;
}

tpp_status team_set_data(const struct team *team, struct worker *worker, int64_t step,
                         const int32_t *ids, const int32_t *targets) {
    /* Odd numbers are not 0, and another one is drawn with in every step. */
    uint64_t seed = (team->config->seed + (uint64_t)step) * 0xd1342543de82ef95u | 1;
    tpp_status status = tpp_stage_set_data(worker->stage, ids, targets);
    return status == TPP_OK && team->config->dropout > 0
               ? tpp_stage_set_dropout(worker->stage, seed)
               : status;
}

static tpp_status set_data(struct team *team, const int32_t *ids, const int32_t *targets) {
    tpp_status status = TPP_OK;
    for (int32_t i = 0; i < team->layout.pp * team->layout.tp && status == TPP_OK; i++) {
        status = team_set_data(team, &team->workers[i], team->steps, ids, targets);
    }
    return status;
}

void team_losses_of(const struct team *team, int32_t rank, double *micro_losses) {
    int32_t half = (team->config->micros + 1) / 2; /* of the first of two directions */
    const double *losses = tpp_stage_losses(team->workers[rank * team->layout.tp].stage);
    for (int32_t i = 0; i < team->config->micros; i++) {
        int32_t direction = team->directions > 1 && i >= half;
        int32_t last = (direction + 1) * team->stages - 1;
        if (tpp_schedule_rank_of(team->schedule, last) == rank) {
            micro_losses[i] = losses[i];
        }
    }
}

double team_mean_loss(const struct team *team, const double *micro_losses) {
    double sum = 0;
    for (int32_t i = 0; i < team->config->micros; i++) {
        sum += micro_losses[i];
    }
    return sum / ((double)team->config->batch * team->config->seq);
}

int team_step(struct team *team, const int32_t *ids, const int32_t *targets, double rate,
              struct step_result *out) {
    double start = clock_seconds();
    team->run.step = (uint64_t)team->steps;
    team->run.trace = sampler_trace(&team->sampler, team->steps);
    tpp_run_report *report = sampler_report(&team->sampler, team->steps);
    if (set_data(team, ids, targets) != TPP_OK ||
        tpp_executor_run(team->executor, &team->run, report) != TPP_OK) {
        return library_error("train a step");
    }
    sampler_note(&team->sampler);
    for (int32_t rank = 0; rank < team->layout.pp; rank++) {
        team_losses_of(team, rank, team->micro_losses);
    }
    out->micro_losses = team->micro_losses;
    out->loss = team_mean_loss(team, team->micro_losses);
    if (update(team, rate, &out->norm) != TPP_OK) {
        return library_error("update the parameters");
    }
    team->steps++;
    out->seconds = clock_seconds() - start;
    return 0;
}

const struct piece *team_stage_piece(const struct team *team, int32_t stage, int32_t lane) {
    int32_t rank = tpp_schedule_rank_of(team->schedule, stage);
    const struct worker *worker = &team->workers[rank * team->layout.tp + lane];
    int32_t chunk = 0;
    while (worker->pieces[chunk].stage != stage) {
        chunk++;
    }
    return &worker->pieces[chunk];
}

const struct piece *team_piece(const struct team *team, int32_t param, int32_t lane) {
    int32_t stage = 0;
    const struct piece *piece = team_stage_piece(team, stage, lane);
    while (param >= piece->first + piece->count) {
        piece = team_stage_piece(team, ++stage, lane);
    }
    return piece;
}

void team_destroy(struct team *team) {
    int32_t ranks = team->layout.pp * team->layout.tp;
    tpp_executor_destroy(team->executor);
    for (int32_t i = 0; i < ranks; i++) {
        worker_destroy(&team->workers[i]);
    }
    for (int32_t i = 0; i < ranks; i++) {
        tpp_comm_destroy(team->tensor[i]);
        tpp_comm_destroy(team->pipeline[i]);
    }
    tpp_schedule_destroy(team->schedule);
    sampler_destroy(&team->sampler);
    free(team->tensor);
    free(team->pipeline);
    free(team->workers);
    free(team->ranks);
    free(team->squares);
    free(team->micro_losses);
    free(team->run.memory);
    memset(team, 0, sizeof *team);
}
