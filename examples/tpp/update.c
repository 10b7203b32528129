/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reserve.h"
#include "team.h"

static const double BETA1 = 0.9;
static const double BETA2 = 0.95;
static const double PI = 3.14159265358979323846;

double update_rate(const struct train_config *config, int64_t step) {
    if (step < config->warmup) {
        return config->rate * (double)(step + 1) / config->warmup;
    }
    double progress = config->steps > config->warmup
                          ? (double)(step - config->warmup) / (config->steps - config->warmup)
                          : 1;
    return config->min_rate + (config->rate - config->min_rate) * 0.5 * (1 + cos(PI * progress));
}

tpp_adamw_desc update_adamw(const struct train_config *config, int64_t step, double rate) {
    tpp_adamw_desc d = {0};
    d.size = sizeof d;
    d.rate = rate;
    d.beta1 = BETA1;
    d.beta2 = BETA2;
    d.decay = config->decay;
    d.grad_scale = 1;
    d.step = step + 1;
    return d;
}

/* What all workers need for a step. */
struct job {
    struct team *team;
    tpp_adamw_desc adamw;
    int skip; /* the parameters stay */
};

static struct worker *worker_of(const struct job *job, int32_t rank, int32_t lane) {
    return &job->team->workers[rank * job->team->layout.tp + lane];
}

tpp_status update_squares(struct worker *worker) {
    tpp_status status = TPP_OK;
    for (int32_t c = 0; c < worker->chunks && status == TPP_OK; c++) {
        struct piece *piece = &worker->pieces[c];
        status =
            tpp_layer_sum_copies(piece->layer, piece->grads, piece->copies, piece->copies_bytes);
        if (status == TPP_OK) {
            status = tpp_layer_grad_squares(piece->layer, piece->grads, piece->squares);
        }
    }
    return status;
}

static tpp_status squares(void *arg, int32_t rank, int32_t lane) {
    return update_squares(worker_of(arg, rank, lane));
}

/* All ranks are threads of this process, so that one of them can reach the gradients of all. */

/* Of two directions, each stage of the model has the sum. */
static tpp_status sum_mirrors(void *arg, int32_t rank, int32_t lane) {
    const struct job *job = arg;
    int32_t ranks = job->team->layout.pp;
    if (rank > 0) {
        return TPP_OK;
    }
    tpp_stage **stages = reserve(ranks, sizeof(tpp_stage *));
    for (int32_t r = 0; r < ranks; r++) {
        stages[r] = worker_of(job, r, lane)->stage;
    }
    tpp_status status = tpp_stage_sum_mirrors(stages, ranks, job->team->schedule, NULL, NULL, 0);
    free(stages);
    return status;
}

/* The two copies of a tied table, of each direction. */
static tpp_status sum_tied(void *arg, int32_t rank, int32_t lane) {
    const struct job *job = arg;
    int32_t stages = job->team->stages;
    tpp_status status = TPP_OK;
    for (int32_t d = 0; d < job->team->directions && rank == 0 && status == TPP_OK; d++) {
        const struct piece *ends[2] = {team_stage_piece(job->team, d * stages, lane),
                                       team_stage_piece(job->team, (d + 1) * stages - 1, lane)};
        const tpp_layer *layers[2] = {ends[0]->layer, ends[1]->layer};
        void *grads[2] = {ends[0]->grads, ends[1]->grads};
        int32_t count = stages > 1 ? 2 : 1;
        status =
            tpp_layer_sum_tied(layers, grads, count, NULL, ends[0]->tied, 2 * ends[0]->tied_bytes);
    }
    return status;
}

tpp_status update_sums(struct team *team, tpp_executor *executor) {
    struct job job = {.team = team};
    int32_t ranks = team->layout.pp;
    int32_t lanes = team->layout.tp;
    tpp_status status = TPP_OK;
    if (team->directions > 1) {
        status = tpp_executor_each(executor, ranks, lanes, sum_mirrors, &job);
    }
    if (status == TPP_OK && (team->config->desc.flags & TPP_MODEL_TIED)) {
        status = tpp_executor_each(executor, ranks, lanes, sum_tied, &job);
    }
    return status;
}

static tpp_status move(void *arg, int32_t rank, int32_t lane) {
    const struct job *job = arg;
    struct worker *worker = worker_of(job, rank, lane);
    tpp_status status = TPP_OK;
    for (int32_t c = 0; c < worker->chunks && status == TPP_OK; c++) {
        struct piece *piece = &worker->pieces[c];
        if (!job->skip) {
            status = tpp_layer_adamw(piece->layer, &job->adamw, piece->params, piece->grads,
                                     piece->moments);
        }
        memset(piece->grads, 0, (size_t)piece->grad_bytes);
    }
    return status;
}

/* Every number is known to one rank, the others hold 0: putting them in one place is exact. Of two
 * directions the first one counts. */
static void place(struct team *team, const struct worker *worker) {
    for (int32_t c = 0; c < worker->chunks; c++) {
        const struct piece *piece = &worker->pieces[c];
        if (piece->stage >= team->stages) {
            continue;
        }
        double *out = team->squares + (int64_t)piece->first * team->blocks;
        for (int64_t i = 0; i < (int64_t)piece->count * team->blocks; i++) {
            out[i] += piece->squares[i];
        }
    }
}

/* Added in the order of the whole model, whoever holds the parts: no layout changes a bit. */
static tpp_status judge(struct team *team, tpp_verdict *out) {
    int64_t count = (int64_t)team->params * team->blocks;
    memset(team->squares, 0, (size_t)count * sizeof *team->squares);
    for (int32_t i = 0; i < team->layout.pp * team->layout.tp; i++) {
        place(team, &team->workers[i]);
    }
    return tpp_grad_verdict(team->squares, count, team->config->clip, out);
}

tpp_status update(struct team *team, double rate, double *norm) {
    struct job job = {.team = team, .adamw = update_adamw(team->config, team->steps, rate)};
    int32_t ranks = team->layout.pp;
    int32_t lanes = team->layout.tp;
    tpp_verdict verdict = {0};
    verdict.size = sizeof verdict;
    tpp_status status = update_sums(team, team->executor);
    if (status == TPP_OK) {
        status = tpp_executor_each(team->executor, ranks, lanes, squares, &job);
    }
    if (status == TPP_OK) {
        status = judge(team, &verdict);
    }
    if (status != TPP_OK) {
        return status;
    }
    *norm = verdict.norm;
    job.adamw.grad_scale = verdict.grad_scale;
    job.skip = verdict.skip;
    return tpp_executor_each(team->executor, ranks, lanes, move, &job);
}
