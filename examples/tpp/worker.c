/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include <stdlib.h>

#include "gpt.h"
#include "reserve.h"

static tpp_status make_piece(struct piece *piece, const struct worker_place *place,
                             tpp_comm *tensor, int32_t *blocks) {
    tpp_schedule_info schedule = {0};
    schedule.size = sizeof schedule;
    tpp_status status = tpp_schedule_query(place->schedule, &schedule);
    if (status == TPP_OK) {
        status = gpt_stage_create(&piece->layer, place->config, tensor, schedule.depth,
                                  piece->stage % schedule.depth);
    }
    tpp_layer_info info = {0};
    info.size = sizeof info;
    if (status == TPP_OK) {
        status = tpp_layer_query(piece->layer, place->config->batch / place->config->micros,
                                 place->config->seq, &info);
    }
    if (status != TPP_OK) {
        return status;
    }
    piece->grad_bytes = info.grad_bytes;
    piece->undo_bytes = info.undo_bytes;
    piece->params = reserve(info.state_bytes, 1);
    piece->grads = reserve(info.grad_bytes, 1);
    piece->moments = reserve(info.moments_bytes, 1);
    /* With two directions these halves are added up on two ranks anyway. */
    if (place->config->blocks > 0 && schedule.directions == 1) {
        piece->late = reserve(info.grad_bytes, 1);
    }
    piece->count = info.params;
    piece->squares = reserve((int64_t)info.params * info.blocks, sizeof *piece->squares);
    piece->copies = reserve(info.copies_bytes, 1);
    piece->copies_bytes = info.copies_bytes;
    piece->tied = reserve(2 * info.tied_bytes, 1);
    piece->tied_bytes = info.tied_bytes;
    *blocks = info.blocks;
    return TPP_OK;
}

static tpp_status make_stage(struct worker *worker, const struct worker_place *place) {
    tpp_schedule_info schedule = {0};
    schedule.size = sizeof schedule;
    tpp_status status = tpp_schedule_query(place->schedule, &schedule);
    const tpp_layer **layers = reserve(worker->chunks, sizeof *layers);
    const void **params = reserve(worker->chunks, sizeof *params);
    void **grads = reserve(worker->chunks, sizeof *grads);
    void **late = reserve(worker->chunks, sizeof *late);
    for (int32_t c = 0; c < worker->chunks; c++) {
        layers[c] = worker->pieces[c].layer;
        params[c] = worker->pieces[c].params;
        grads[c] = worker->pieces[c].grads;
        late[c] = worker->pieces[c].late;
    }
    tpp_stage_desc d = {0};
    d.size = sizeof d;
    d.layers = layers;
    d.params = params;
    d.grads = grads;
    d.late_grads = late;
    d.chunks = worker->chunks;
    d.micros = place->config->micros;
    d.slots = schedule.slots;
    d.halves = schedule.halves;
    d.batch = place->config->batch / place->config->micros;
    d.seq = place->config->seq;
    /* The mean over the bytes of the whole step, whatever the number of micro-batches. */
    d.loss_weight = 1.0 / ((double)place->config->batch * place->config->seq);
    d.comm = worker->tensor;
    if (status == TPP_OK) {
        status = tpp_stage_create(&worker->stage, &d);
    }
    free(layers);
    free(params);
    free(grads);
    free(late);
    return status;
}

tpp_status worker_create(struct worker *worker, const struct worker_place *place) {
    tpp_schedule_info schedule = {0};
    schedule.size = sizeof schedule;
    tpp_status status = tpp_schedule_query(place->schedule, &schedule);
    if (status == TPP_OK && place->tensor) {
        status = tpp_comm_traced_create(&worker->tensor, place->tensor, NULL);
    }
    if (status != TPP_OK) {
        return status;
    }
    worker->chunks = schedule.chunks;
    worker->pieces = reserve(worker->chunks, sizeof *worker->pieces);
    for (int32_t c = 0; c < worker->chunks && status == TPP_OK; c++) {
        worker->pieces[c].stage = tpp_schedule_stage_of(place->schedule, place->rank, c);
        status = make_piece(&worker->pieces[c], place, worker->tensor, &worker->blocks);
    }
    return status == TPP_OK ? make_stage(worker, place) : status;
}

tpp_status worker_init(struct worker *worker, uint64_t seed) {
    tpp_status status = TPP_OK;
    for (int32_t c = 0; c < worker->chunks && status == TPP_OK; c++) {
        status = tpp_layer_init(worker->pieces[c].layer, worker->pieces[c].params, seed);
    }
    return status;
}

void worker_destroy(struct worker *worker) {
    tpp_stage_destroy(worker->stage);
    for (int32_t c = 0; c < worker->chunks; c++) {
        struct piece *piece = &worker->pieces[c];
        tpp_layer_destroy(piece->layer);
        free(piece->params);
        free(piece->grads);
        free(piece->late);
        free(piece->moments);
        free(piece->squares);
        free(piece->copies);
        free(piece->tied);
    }
    free(worker->pieces);
    tpp_comm_destroy(worker->tensor);
}

/* The stage callbacks: the library's own, with a look at the counts before and after. */

static tpp_comm_count collectives(const struct worker *worker) {
    static const int32_t kinds[] = {TPP_COMM_ALL_REDUCE, TPP_COMM_ALL_GATHER,
                                    TPP_COMM_REDUCE_SCATTER};
    tpp_comm_count sum = {0};
    for (int i = 0; i < 3 && worker->tensor; i++) {
        tpp_comm_count count = {0};
        tpp_comm_traced_get(worker->tensor, kinds[i], &count);
        sum.calls += count.calls;
        sum.elements += count.elements;
        sum.bytes += count.bytes;
    }
    return sum;
}

static void note(struct traffic *traffic, const struct worker *worker,
                 const tpp_comm_count *before) {
    tpp_comm_count now = collectives(worker);
    traffic->runs++;
    traffic->calls += now.calls - before->calls;
    traffic->elements += now.elements - before->elements;
    traffic->bytes += now.bytes - before->bytes;
}

static tpp_status forward(void *ctx, const tpp_stage_call *call) {
    struct worker *worker = ctx;
    tpp_comm_count before = collectives(worker);
    tpp_status status = tpp_stage_ops_get()->forward(worker->stage, call);
    note(&worker->pieces[call->chunk].forward, worker, &before);
    return status;
}

static tpp_status backward(void *ctx, const tpp_stage_call *call) {
    struct worker *worker = ctx;
    tpp_comm_count before = collectives(worker);
    tpp_status status = tpp_stage_ops_get()->backward(worker->stage, call);
    note(&worker->pieces[call->chunk].backward, worker, &before);
    return status;
}

static tpp_status backward_input(void *ctx, const tpp_stage_call *call) {
    struct worker *worker = ctx;
    tpp_comm_count before = collectives(worker);
    tpp_status status = tpp_stage_ops_get()->backward_input(worker->stage, call);
    note(&worker->pieces[call->chunk].backward, worker, &before);
    return status;
}

/* Reduces nothing. */
static tpp_status backward_weight(void *ctx, const tpp_stage_call *call) {
    const struct worker *worker = ctx;
    return tpp_stage_ops_get()->backward_weight(worker->stage, call);
}

static void enter(void *ctx) {
    const struct worker *worker = ctx;
    if (tpp_stage_ops_get()->enter) {
        tpp_stage_ops_get()->enter(worker->stage);
    }
}

/* The step's last action is done: both halves of the micro-batches have their gradients. */
static void leave(void *ctx) {
    const struct worker *worker = ctx;
    tpp_stage_join_grads(worker->stage);
    if (tpp_stage_ops_get()->leave) {
        tpp_stage_ops_get()->leave(worker->stage);
    }
}

static void stop(void *ctx) {
    const struct worker *worker = ctx;
    if (tpp_stage_ops_get()->abort) {
        tpp_stage_ops_get()->abort(worker->stage);
    }
}

const tpp_stage_ops *worker_ops(void) {
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
