/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "early_side.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "reserve.h"
#include "stop.h"

static int notes_steps(const struct early_side *side) {
    const struct team *team = side->shared->team;
    return side->lane == 0 && side->rank == tpp_schedule_rank_of(team->schedule, team->stages - 1);
}

tpp_status early_side_open(struct early_side *side) {
    const struct team *team = side->shared->team;
    const struct worker *worker = side->worker;
    side->undo = reserve(worker->chunks, sizeof *side->undo);
    for (int32_t c = 0; c < worker->chunks; c++) {
        side->undo[c] = reserve(worker->pieces[c].undo_bytes, 1);
    }
    for (int32_t c = 0; c < worker->chunks && team->directions > 1; c++) {
        int64_t bytes = worker->pieces[c].grad_bytes;
        side->mirror_bytes = bytes > side->mirror_bytes ? bytes : side->mirror_bytes;
    }
    side->mirror = reserve(side->mirror_bytes, 1);
    tpp_validation_desc d = {0};
    d.size = sizeof d;
    d.pipeline = side->pipeline;
    d.tensor = worker->tensor;
    d.parts = (int64_t)team->params * team->blocks;
    d.clip = team->config->clip;
    return tpp_validation_create(&side->validation, &d);
}

void early_side_close(struct early_side *side) {
    tpp_validation_destroy(side->validation);
    tpp_comm_destroy(side->ends);
    for (int32_t c = 0; c < side->worker->chunks && side->undo; c++) {
        free(side->undo[c]);
    }
    free(side->undo);
    free(side->mirror);
}

void early_side_enter(struct early_side *side) {
    side->drained = side->pending && !side->stepped; /* wrong for certain */
}

/* --- After a run ------------------------------------------------------------------------------ */

/* The two copies of a tied table, of each direction. */
static tpp_status sum_tied(struct early_side *side) {
    const struct team *team = side->shared->team;
    tpp_status status = TPP_OK;
    for (int32_t d = 0; d < team->directions && side->ties && status == TPP_OK; d++) {
        const tpp_layer *layers[2];
        void *grads[2];
        int32_t count = 0;
        struct piece *one = NULL;
        for (int32_t c = 0; c < side->worker->chunks; c++) {
            struct piece *piece = &side->worker->pieces[c];
            if (piece->stage == d * team->stages || piece->stage == (d + 1) * team->stages - 1) {
                layers[count] = piece->layer;
                grads[count++] = piece->grads;
                one = piece;
            }
        }
        if (one) {
            status = tpp_layer_sum_tied(layers, grads, count, side->ends, one->tied,
                                        2 * one->tied_bytes);
        }
    }
    return status;
}

static tpp_status sum_gradients(struct early_side *side) {
    const struct team *team = side->shared->team;
    tpp_status status = TPP_OK;
    if (team->directions > 1 && side->sums) {
        status = tpp_stage_sum_mirrors(&side->worker->stage, 1, team->schedule, side->pipeline,
                                       side->mirror, side->mirror_bytes);
    }
    if (status == TPP_OK && side->sums) {
        status = sum_tied(side);
    }
    return status == TPP_OK ? update_squares(side->worker) : status;
}

/* Of two directions the first one counts. */
static void place_parts(struct early_side *side) {
    int32_t blocks = side->shared->team->blocks;
    double *parts = tpp_validation_parts(side->validation);
    for (int32_t c = 0; c < side->worker->chunks; c++) {
        const struct piece *piece = &side->worker->pieces[c];
        if (piece->stage < side->shared->team->stages) {
            memcpy(parts + (int64_t)piece->first * blocks, piece->squares,
                   (size_t)piece->count * (size_t)blocks * sizeof *parts);
        }
    }
}

/* One side decides, before anyone can have the norm of this step: all others read it after that. */
static void decide_on_end(const struct early_side *side, int64_t step) {
    if (side->rank == side->shared->team->layout.pp - 1 && side->lane == 0 &&
        (stop_signal() || atomic_load(&side->shared->quit))) {
        atomic_store(&side->shared->last, step);
    }
}

static tpp_status move_in_advance(struct early_side *side) {
    tpp_status status = TPP_OK;
    for (int32_t c = 0; c < side->worker->chunks && status == TPP_OK; c++) {
        struct piece *p = &side->worker->pieces[c];
        status = tpp_layer_adamw_early(p->layer, &side->adamw, p->params, p->grads, p->moments,
                                       side->undo[c]);
    }
    return status;
}

tpp_status early_side_step(struct early_side *side, int64_t step, double rate) {
    tpp_verdict known = {0};
    known.size = sizeof known;
    tpp_status status = sum_gradients(side);
    if (status != TPP_OK) {
        return status;
    }
    if (side->lane == 0) {
        team_losses_of(side->shared->team, side->rank, side->shared->losses[step % 2]);
    }
    side->step = step;
    side->adamw = update_adamw(side->shared->team->config, step, rate);
    decide_on_end(side, step);
    place_parts(side);
    status = tpp_validation_begin(side->validation, &known);
    side->pending = status == TPP_OK;
    side->stepped = side->pending && known.grad_scale == 1 && !known.skip;
    return side->stepped ? move_in_advance(side) : status;
}

/* --- The verdict ------------------------------------------------------------------------------ */

static tpp_status correct(struct early_side *side, int32_t chunk, const tpp_verdict *verdict) {
    struct piece *p = &side->worker->pieces[chunk];
    if (side->stepped && verdict->grad_scale == 1 && !verdict->skip) {
        return tpp_layer_adamw_keep(p->layer, &side->adamw, p->grads, p->moments);
    }
    tpp_status status = TPP_OK;
    if (side->stepped) {
        status = tpp_layer_adamw_undo(p->layer, p->params, p->moments, side->undo[chunk]);
    }
    if (status != TPP_OK || verdict->skip) {
        return status;
    }
    tpp_adamw_desc again = side->adamw;
    again.grad_scale = verdict->grad_scale;
    return tpp_layer_adamw(p->layer, &again, p->params, p->grads, p->moments);
}

tpp_status early_side_settle(struct early_side *side) {
    tpp_verdict verdict = {0};
    verdict.size = sizeof verdict;
    tpp_status status = tpp_validation_end(side->validation, &verdict);
    for (int32_t c = 0; c < side->worker->chunks && status == TPP_OK; c++) {
        status = correct(side, c, &verdict);
        memset(side->worker->pieces[c].grads, 0, (size_t)side->worker->pieces[c].grad_bytes);
    }
    if (status != TPP_OK) {
        return status;
    }
    int redone = verdict.grad_scale < 1 || verdict.skip;
    side->pending = 0;
    side->over = verdict.skip || side->step >= atomic_load(&side->shared->last);
    side->drained = redone || side->over;
    if (notes_steps(side)) { /* all losses were there before the norm */
        const double *losses = side->shared->losses[side->step % 2];
        struct early_record record = {side->step,   team_mean_loss(side->shared->team, losses),
                                      verdict.norm, clock_seconds(),
                                      redone,       losses};
        side->shared->note(side->shared->ctx, &record);
    }
    return TPP_OK;
}

/* --- Callbacks -------------------------------------------------------------------------------- */

static tpp_status forward(void *ctx, const tpp_stage_call *call) {
    const struct early_side *side = ctx;
    return side->drained ? TPP_OK : worker_ops()->forward(side->worker, call);
}

static tpp_status backward(void *ctx, const tpp_stage_call *call) {
    struct early_side *side = ctx;
    tpp_status status = side->pending ? early_side_settle(side) : TPP_OK;
    return status != TPP_OK || side->drained ? status : worker_ops()->backward(side->worker, call);
}

static tpp_status backward_input(void *ctx, const tpp_stage_call *call) {
    struct early_side *side = ctx;
    tpp_status status = side->pending ? early_side_settle(side) : TPP_OK;
    return status != TPP_OK || side->drained ? status
                                             : worker_ops()->backward_input(side->worker, call);
}

/* Never the first of a run. */
static tpp_status backward_weight(void *ctx, const tpp_stage_call *call) {
    const struct early_side *side = ctx;
    return side->drained ? TPP_OK : worker_ops()->backward_weight(side->worker, call);
}

static void enter(void *ctx) {
    const struct early_side *side = ctx;
    worker_ops()->enter(side->worker);
}

static void leave(void *ctx) {
    const struct early_side *side = ctx;
    worker_ops()->leave(side->worker);
}

static void stop(void *ctx) {
    const struct early_side *side = ctx;
    worker_ops()->abort(side->worker);
}

const tpp_stage_ops *early_side_ops(void) {
    static const tpp_stage_ops ops = {
        .size = sizeof ops,
        .forward = forward,
        .backward = backward,
        .backward_input = backward_input,
        .backward_weight = backward_weight,
        .enter = enter,
        .leave = leave,
        .abort = stop,
    };
    return &ops;
}
