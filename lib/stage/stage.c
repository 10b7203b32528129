/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "stage/stage_impl.h"

#include "base/check.h"
#include "tp/layer_impl.h"

#include <math.h>
#include <string.h>

/* Cut the one allocation of a stage; the first part is the struct itself. */
static tpp_stage *lay_out(tpp__arena *arena, tpp_stage *stage) {
    int64_t tokens = stage->batch * stage->seq;
    void *self = tpp__arena_take(arena, 1, sizeof *stage);
    stage->layers = tpp__arena_take(arena, stage->chunks, sizeof *stage->layers);
    stage->params = tpp__arena_take(arena, stage->chunks, sizeof *stage->params);
    stage->grads = tpp__arena_take(arena, stage->chunks, sizeof *stage->grads);
    stage->late = tpp__arena_take(arena, stage->chunks, sizeof *stage->late);
    stage->infos = tpp__arena_take(arena, stage->chunks, sizeof *stage->infos);
    stage->losses = tpp__arena_take(arena, stage->has_loss ? tokens : 0, sizeof(double));
    stage->slopes = tpp__arena_take(arena, stage->has_loss ? tokens : 0, sizeof(double));
    stage->sums = tpp__arena_take(arena, stage->has_loss ? stage->micros : 0, sizeof *stage->sums);
    int64_t before = arena->used;
    stage->saved = tpp__arena_take(arena, stage->slots, stage->saved_bytes);
    stage->scratch = tpp__arena_take(arena, stage->scratch_bytes, 1);
    stage->work_bytes = arena->used - before;
    return self;
}

static tpp_status check_desc(const tpp_stage_desc *desc) {
    const struct {
        const char *name;
        int64_t value;
    } counts[] = {{"chunks", desc->chunks},
                  {"micros", desc->micros},
                  {"slots", desc->slots},
                  {"batch", desc->batch},
                  {"seq", desc->seq}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (counts[i].value < 1)
            return tpp__fail(TPP_ERR_INVALID, "desc.%s = %lld; it must be 1 or more",
                             counts[i].name, (long long)counts[i].value);
    }
    bool no_grad = desc->flags & TPP_STAGE_NO_GRAD;
    if (!desc->layers || !desc->params || (!desc->grads && !no_grad))
        return tpp__fail(TPP_ERR_INVALID, "desc.%s is NULL; it must hold %d entries",
                         !desc->layers  ? "layers"
                         : desc->params ? "grads"
                                        : "params",
                         desc->chunks);
    if (!isfinite(desc->loss_weight))
        return tpp__fail(TPP_ERR_INVALID, "desc.loss_weight = %g; it must be a finite number",
                         desc->loss_weight);
    for (int32_t c = 0; c < desc->chunks; c++) {
        if (!desc->layers[c])
            return tpp__fail(TPP_ERR_INVALID, "desc.layers[%d] is NULL", c);
    }
    return TPP_OK;
}

static void *entry_of(void *const *list, int32_t c) {
    return list ? list[c] : NULL;
}

static tpp_status check_chunk(const tpp_stage_desc *desc, int32_t c, const tpp_layer_info *info) {
    bool grads = desc->flags & TPP_STAGE_NO_GRAD || entry_of(desc->grads, c);
    if (info->state_bytes == 0 || (desc->params[c] && grads))
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID, "desc.%s[%d] is NULL; the layer needs %lld bytes",
                     desc->params[c] ? "grads" : "params", c,
                     (long long)(desc->params[c] ? info->grad_bytes : info->state_bytes));
}

/* What calls of a chunk need. */
typedef struct need {
    int64_t saved, scratch;
} need;

static tpp_status need_of(const tpp_stage_desc *desc, const tpp_layer *layer,
                          const tpp_layer_info *info, need *out) {
    *out = (need){info->saved_bytes + (desc->halves ? info->split_bytes : 0), info->scratch_bytes};
    if (!(desc->flags & TPP_STAGE_NO_GRAD))
        return TPP_OK;
    tpp_serve_info serve = {.size = sizeof serve};
    tpp_status status = tpp_layer_serve_query(layer, desc->batch, desc->seq, 0, &serve);
    *out = (need){0, serve.scratch_bytes};
    return status;
}

/* Largest needs over the chunks. */
static tpp_status measure(tpp_stage *stage, const tpp_stage_desc *desc) {
    for (int32_t c = 0; c < desc->chunks; c++) {
        tpp_layer_info info = {.size = sizeof info};
        need own = {0};
        tpp_status status = tpp_layer_query(desc->layers[c], desc->batch, desc->seq, &info);
        if (status == TPP_OK)
            status = check_chunk(desc, c, &info);
        if (status == TPP_OK)
            status = need_of(desc, desc->layers[c], &info, &own);
        if (status != TPP_OK)
            return status;
        stage->saved_bytes = own.saved > stage->saved_bytes ? own.saved : stage->saved_bytes;
        stage->scratch_bytes =
            own.scratch > stage->scratch_bytes ? own.scratch : stage->scratch_bytes;
        stage->has_loss |= info.targets != 0;
    }
    return TPP_OK;
}

static void fill(tpp_stage *stage, const tpp_stage_desc *desc) {
    for (int32_t c = 0; c < desc->chunks; c++) {
        stage->layers[c] = desc->layers[c];
        stage->params[c] = desc->params[c];
        stage->grads[c] = entry_of(desc->grads, c);
        stage->late[c] = entry_of(desc->late_grads, c);
        stage->infos[c].size = sizeof stage->infos[c];
        tpp_layer_query(desc->layers[c], desc->batch, desc->seq, &stage->infos[c]);
    }
    tpp__stage_fill_slopes(stage);
}

tpp_status tpp_stage_create(tpp_stage **out, const tpp_stage_desc *given) {
    tpp_stage_desc desc;
    tpp_stage start = {0};
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a stage pointer");
    *out = NULL;
    tpp_status status = tpp__sized_read(&desc, sizeof desc, TPP_STAGE_NO_GRAD, given, "desc");
    if (status == TPP_OK)
        status = check_desc(&desc);
    if (status == TPP_OK)
        status = measure(&start, &desc);
    if (status == TPP_OK)
        status = tpp__allocator_read(&start.allocator, desc.allocator);
    if (status != TPP_OK)
        return status;
    start.comm = desc.comm ? desc.comm : desc.layers[0]->comm;
    start.chunks = desc.chunks;
    start.micros = desc.micros;
    start.slots = desc.slots;
    start.halves = desc.halves != 0;
    start.no_grad = desc.flags & TPP_STAGE_NO_GRAD;
    start.loss_weight = desc.loss_weight;
    start.batch = desc.batch;
    start.seq = desc.seq;
    tpp__arena arena = tpp__arena_counting();
    lay_out(&arena, &start);
    if (!tpp__arena_fits(&arena))
        return tpp__fail(TPP_ERR_OVERFLOW, "memory for %d slots does not fit into 64 bits",
                         desc.slots);
    start.bytes = arena.used;
    void *memory = tpp__alloc(&start.allocator, start.bytes);
    if (!memory)
        return TPP_ERR_NO_MEMORY;
    arena = tpp__arena_over(memory, start.bytes);
    tpp_stage *stage = lay_out(&arena, &start);
    *stage = start;
    fill(stage, &desc);
    *out = stage;
    return TPP_OK;
}

void tpp_stage_destroy(tpp_stage *stage) {
    if (!stage)
        return;
    tpp_allocator allocator = stage->allocator;
    tpp__free(&allocator, stage, stage->bytes);
}

tpp_status tpp_stage_set_data(tpp_stage *stage, const int32_t *ids, const int32_t *targets) {
    if (!stage)
        return tpp__fail(TPP_ERR_INVALID, "stage is NULL");
    for (int32_t c = 0; c < stage->chunks; c++) {
        if (stage->infos[c].in_dtype == TPP_I32 && !ids)
            return tpp__fail(TPP_ERR_INVALID, "ids is NULL, but chunk %d takes token ids", c);
        if (stage->infos[c].targets && !targets)
            return tpp__fail(TPP_ERR_INVALID, "targets is NULL, but chunk %d has a loss", c);
    }
    stage->ids = ids;
    stage->targets = targets;
    return TPP_OK;
}

tpp_status tpp_stage_set_weights(tpp_stage *stage, const double *weights, double weight_sum) {
    if (!stage)
        return tpp__fail(TPP_ERR_INVALID, "stage is NULL");
    if (!isfinite(weight_sum))
        return tpp__fail(TPP_ERR_INVALID, "weight_sum = %g; it must be a finite number",
                         weight_sum);
    stage->weights = weights;
    stage->weight_sum = weight_sum;
    return TPP_OK;
}

tpp_status tpp_stage_set_dropout(tpp_stage *stage, uint64_t seed) {
    if (!stage)
        return tpp__fail(TPP_ERR_INVALID, "stage is NULL");
    stage->dropout_seed = seed;
    return TPP_OK;
}

const double *tpp_stage_losses(const tpp_stage *stage) {
    return stage && stage->has_loss ? stage->sums : NULL;
}

int64_t tpp_stage_bytes(const tpp_stage *stage) {
    return stage ? stage->work_bytes : 0;
}
