/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "stage/stage_impl.h"

#include "base/check.h"
#include "tp/part.h"

#include <string.h>

/* The callbacks: an executor's job becomes a call of a layer. */

/* A view of memory that the layer will only read where it is `const`. */
static tpp_mat view(const void *data, int64_t rows, int64_t cols, tpp_dtype dtype) {
    tpp_mat mat = {.rows = rows, .cols = cols, .dtype = dtype};
    memcpy(&mat.data, &data, sizeof data);
    return mat;
}

/* Of a micro-batch, by the rule in stage.h. */
static uint64_t dropout_seed_of(const tpp_stage *stage, int32_t micro) {
    uint64_t seed = stage->dropout_seed + (uint64_t)micro * 0x9e3779b97f4a7c15u;
    if (stage->dropout_seed == 0)
        return 0;
    return seed != 0 ? seed : 1;
}

/* Rows of a job's input and output. */
typedef struct height {
    int64_t in, out;
} height;

static height height_of(const tpp_stage *stage, const tpp_stage_call *job) {
    const tpp_layer *layer = stage->layers[job->chunk];
    int64_t tokens = tpp__stage_tokens(stage, job->micro);
    int64_t part = tpp__part_of(layer, tokens).count, out = layer->out_part ? part : tokens;
    return (height){layer->in_part ? part : tokens, layer->one_row ? 1 : out};
}

static const int32_t *of_micro(const tpp_stage *stage, const int32_t *numbers, int32_t micro) {
    return numbers ? numbers + micro * stage->batch : NULL;
}

static bool is_late(const tpp_stage *stage, int32_t micro) {
    return micro >= stage->micros / 2 + stage->micros % 2;
}

static void *grads_of(const tpp_stage *stage, const tpp_stage_call *job) {
    void *late = stage->late[job->chunk];
    return late && is_late(stage, job->micro) ? late : stage->grads[job->chunk];
}

static tpp_call call_of(const tpp_stage *stage, const tpp_stage_call *job) {
    const tpp_layer_info *info = &stage->infos[job->chunk];
    int64_t at = job->micro * stage->batch * stage->seq;
    height rows = height_of(stage, job);
    const void *in = info->in_dtype == TPP_I32 ? stage->ids + at : job->in;
    tpp_call call = {
        .flags = stage->no_grad ? TPP_CALL_NO_GRAD : 0,
        .size = sizeof call,
        .batch = stage->batch,
        .seq = stage->seq,
        .in = view(in, rows.in, info->in_cols, info->in_dtype),
        .out = view(info->targets ? stage->losses : job->out, rows.out, info->out_cols,
                    info->out_dtype),
        .grad_out = view(info->targets ? stage->slopes : job->grad_out, rows.out, info->out_cols,
                         info->out_dtype),
        .grad_in = view(job->grad_in, rows.in, info->in_cols, info->in_dtype),
        .params = stage->params[job->chunk],
        .grads = grads_of(stage, job),
        .saved = stage->saved + job->slot * stage->saved_bytes,
        .saved_bytes = stage->saved_bytes,
        .scratch = stage->scratch,
        .scratch_bytes = stage->scratch_bytes,
        .targets = stage->targets ? stage->targets + at : NULL,
        .weights = stage->weights ? stage->weights + at : NULL,
        .weight_sum = stage->weight_sum,
        .lengths = of_micro(stage, stage->lengths, job->micro),
        .past = of_micro(stage, stage->past, job->micro),
        .dropout_seed = dropout_seed_of(stage, job->micro),
    };
    return call;
}

/* Sum of what the layer gave, in order. */
static double sum_losses(const tpp_stage *stage, const tpp_layer_info *info, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += info->out_dtype == TPP_F32 ? (double)((float *)(void *)stage->losses)[i]
                                          : ((double *)(void *)stage->losses)[i];
    return sum;
}

static tpp_status check_job(const tpp_stage *stage, const tpp_stage_call *job) {
    bool known = job->chunk >= 0 && job->chunk < stage->chunks && job->micro >= 0 &&
                 job->micro < stage->micros && job->slot >= 0 && job->slot < stage->slots;
    if (!known)
        return tpp__fail(TPP_ERR_INVALID,
                         "chunk %d, micro-batch %d, slot %d: the stage was made for %d chunks, %d "
                         "micro-batches, %d slots",
                         job->chunk, job->micro, job->slot, stage->chunks, stage->micros,
                         stage->slots);
    const tpp_layer_info *info = &stage->infos[job->chunk];
    if ((info->in_dtype == TPP_I32 && !stage->ids) || (info->targets && !stage->targets))
        return tpp__fail(TPP_ERR_INVALID, "chunk %d has no %s; call tpp_stage_set_data first",
                         job->chunk, info->targets && !stage->targets ? "targets" : "ids");
    return TPP_OK;
}

/* A message must be exactly what flows in or out of the chunk. */
static tpp_status check_flow(const tpp_stage_call *job, const void *data, int64_t rows,
                             int64_t cols, tpp_dtype dtype) {
    int64_t count = rows * cols;
    if (!data || (job->count == count && job->dtype == dtype))
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID,
                     "run.message_count = %lld of %s does not fit virtual stage %d, which takes "
                     "%lld of %s",
                     (long long)job->count, tpp__dtype_name(job->dtype), job->stage,
                     (long long)count, tpp__dtype_name(dtype));
}

/* Rows of a message behind the tokens. */
static void clear_rest(void *message, int64_t used, int64_t rows, int64_t cols, tpp_dtype dtype) {
    int64_t row = cols * tpp__dtype_bytes(dtype);
    if (message && used < rows)
        memset((char *)message + used * row, 0, (size_t)((rows - used) * row));
}

typedef tpp_status (*layer_call)(const tpp_layer *layer, const tpp_call *call);

static tpp_status run(tpp_stage *stage, const tpp_stage_call *job, layer_call work) {
    tpp_status status = check_job(stage, job);
    if (status != TPP_OK)
        return status;
    const tpp_layer_info *info = &stage->infos[job->chunk];
    const tpp_layer *layer = stage->layers[job->chunk];
    int64_t tokens = stage->batch * stage->seq;
    int64_t in_rows = tpp__in_room(layer, tokens), out_rows = tpp__out_room(layer, tokens);
    status = check_flow(job, job->in, in_rows, info->in_cols, info->in_dtype);
    if (status == TPP_OK)
        status = check_flow(job, job->out ? job->out : job->grad_out, out_rows, info->out_cols,
                            info->out_dtype);
    if (status != TPP_OK)
        return status;
    height used = height_of(stage, job);
    if (!info->targets) /* nobody else writes to the rest of a message */
        clear_rest(job->out, used.out, out_rows, info->out_cols, info->out_dtype);
    clear_rest(job->grad_in, used.in, in_rows, info->in_cols, info->in_dtype);
    tpp_call call = call_of(stage, job);
    return work(layer, &call);
}

static tpp_status forward(void *ctx, const tpp_stage_call *job) {
    tpp_stage *stage = ctx;
    tpp_status status = run(stage, job, tpp_layer_forward);
    if (status == TPP_OK && stage->infos[job->chunk].targets)
        stage->sums[job->micro] =
            sum_losses(stage, &stage->infos[job->chunk], height_of(stage, job).out);
    return status;
}

static tpp_status backward_of(tpp_stage *stage, const tpp_stage_call *job, layer_call work) {
    if (stage->no_grad)
        return tpp__fail(TPP_ERR_INVALID, "the stage was made with TPP_STAGE_NO_GRAD; the schedule "
                                          "must be forward-only");
    return run(stage, job, work);
}

static tpp_status backward(void *ctx, const tpp_stage_call *job) {
    return backward_of(ctx, job, tpp_layer_backward);
}

static tpp_status half(tpp_stage *stage, const tpp_stage_call *job, layer_call work) {
    if (!stage->halves)
        return tpp__fail(TPP_ERR_INVALID,
                         "the schedule has I and W; set desc.halves = 1 when making the stage");
    return backward_of(stage, job, work);
}

static tpp_status backward_input(void *ctx, const tpp_stage_call *job) {
    return half(ctx, job, tpp_layer_backward_input);
}

static tpp_status backward_weight(void *ctx, const tpp_stage_call *job) {
    return half(ctx, job, tpp_layer_backward_weight);
}

/* Several pipeline ranks share this process's BLAS, whatever their layers do: one thread each. */
static void enter(void *ctx) {
    (void)ctx;
    tpp_blas_single_begin();
}

static void leave(void *ctx) {
    (void)ctx;
    tpp_blas_single_end();
}

static void abort_comm(void *ctx) {
    tpp_comm_abort(((tpp_stage *)ctx)->comm);
}

const tpp_stage_ops *tpp_stage_ops_get(void) {
    static const tpp_stage_ops ops = {
        .size = sizeof ops,
        .forward = forward,
        .backward = backward,
        .backward_input = backward_input,
        .backward_weight = backward_weight,
        .enter = enter,
        .leave = leave,
        .abort = abort_comm,
    };
    return &ops;
}
