/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/copies.h"
#include "tp/part.h"
#include "tp/tied.h"

#include <math.h>
#include <string.h>

tpp__needs tpp__layer_needs(const tpp_layer *layer, int64_t batch, int64_t seq) {
    tpp__needs needs = {0};
    layer->ops->needs(layer, batch, seq, &needs);
    return needs;
}

void tpp__needs_join(tpp__needs *needs, const tpp__needs *child) {
    needs->overflow |= child->overflow;
    if (needs->failed == TPP_OK)
        needs->failed = child->failed;
}

tpp_status tpp__check_shape(int64_t batch, int64_t seq) {
    int64_t tokens;
    if (batch < 0 || seq < 0)
        return tpp__fail(TPP_ERR_INVALID, "%s = %lld is negative; it must be 0 or more",
                         batch < 0 ? "batch" : "seq", (long long)(batch < 0 ? batch : seq));
    if (batch > INT32_MAX || seq > INT32_MAX || !tpp__mul(batch, seq, &tokens) ||
        tokens > INT32_MAX)
        return tpp__fail(TPP_ERR_OVERFLOW, "batch %lld x seq %lld is more than %d tokens",
                         (long long)batch, (long long)seq, INT32_MAX);
    return TPP_OK;
}

/* What a sequence that is spread over ranks must be. */
static tpp_status check_context(const tpp_layer *layer, const tpp_call *call) {
    if (!layer->context)
        return TPP_OK;
    if (call->seq % 2 != 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "call.seq = %lld is odd; over the %d ranks of env.context each holds two "
                         "chunks of a sequence, so it must be even",
                         (long long)call->seq, layer->context_size);
    if (call->lengths || call->past)
        return tpp__fail(TPP_ERR_UNSUPPORTED,
                         "call.%s is set; with env.context sequences are whole: it must be NULL",
                         call->lengths ? "lengths" : "past");
    return TPP_OK;
}

/* Rows of the call's matrices. */
static tpp_status count_tokens(const tpp_call *call, int64_t *tokens) {
    *tokens = call->lengths ? 0 : call->batch * call->seq;
    for (int64_t i = 0; i < call->batch && (call->lengths || call->past); i++) {
        int64_t length = call->lengths ? call->lengths[i] : call->seq;
        if (length < 0 || length > call->seq)
            return tpp__fail(TPP_ERR_INVALID,
                             "call.lengths[%lld] = %lld is out of range; accepted: 0 .. call.seq = "
                             "%lld",
                             (long long)i, (long long)length, (long long)call->seq);
        if (call->past && (call->past[i] < 0 || call->past[i] > INT32_MAX - length))
            return tpp__fail(TPP_ERR_INVALID,
                             "call.past[%lld] = %d is out of range; accepted: 0 .. %lld",
                             (long long)i, call->past[i], INT32_MAX - (long long)length);
        *tokens += call->lengths ? length : 0;
    }
    return TPP_OK;
}

static tpp_status needs_of(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs) {
    *needs = tpp__layer_needs(layer, batch, seq);
    int64_t halves;
    if (needs->failed != TPP_OK)
        return needs->failed;
    if (needs->overflow || !tpp__add(needs->saved, needs->split, &halves))
        return tpp__fail(TPP_ERR_OVERFLOW,
                         "memory for batch %lld x seq %lld does not fit into 64 bits",
                         (long long)batch, (long long)seq);
    return TPP_OK;
}

/* Rows of a matrix of a call. */
static int64_t rows_of(const tpp_layer *layer, bool part, int64_t tokens) {
    return part ? tpp__part_of(layer, tokens).count : tokens;
}

tpp_status tpp_layer_query(const tpp_layer *layer, int64_t batch, int64_t seq,
                           tpp_layer_info *out) {
    if (!layer)
        return tpp__fail(TPP_ERR_INVALID, "layer is NULL");
    tpp__needs needs = {0};
    tpp_status status = tpp__check_shape(batch, seq);
    if (status == TPP_OK)
        status = needs_of(layer, batch, seq, &needs);
    if (status != TPP_OK)
        return status;
    tpp_layer_info info = {
        .in_dtype = layer->in_dtype,
        .out_dtype = layer->out_dtype,
        .in_cols = layer->in_cols,
        .out_cols = layer->out_cols,
        .params = layer->param_count,
        .blocks = layer->blocks,
        .targets = layer->targets,
        .state_bytes = layer->state_bytes,
        .saved_bytes = needs.saved,
        .split_bytes = needs.split,
        .scratch_bytes = needs.scratch,
        .copies_bytes = tpp__copies_bytes(layer),
        .grad_bytes = layer->grad_bytes,
        .moments_bytes = tpp__moments_bytes(layer),
        .grad_dtype = layer->wide,
        .tied_bytes = tpp__tied_bytes(layer),
        .out_rows = layer->one_row ? 1 : rows_of(layer, layer->out_part, batch * seq),
        .in_rows = rows_of(layer, layer->in_part, batch * seq),
        .undo_bytes = tpp__undo_bytes(layer),
    };
    return tpp__sized_write(out, &info, sizeof info, "out");
}

tpp_status tpp_layer_serve_query(const tpp_layer *layer, int64_t batch, int64_t seq,
                                 int64_t cache_seq, tpp_serve_info *out) {
    tpp__serve serve = {0};
    if (!layer)
        return tpp__fail(TPP_ERR_INVALID, "layer is NULL");
    tpp_status status = tpp__check_shape(batch, seq);
    if (status == TPP_OK)
        status = tpp__serve_needs(layer, batch, seq, cache_seq, &serve);
    if (status != TPP_OK)
        return status;
    tpp_serve_info info = {.scratch_bytes = serve.scratch, .cache_bytes = serve.cache};
    return tpp__sized_write(out, &info, sizeof info, "out");
}

tpp_status tpp_layer_param(const tpp_layer *layer, int32_t index, tpp_param_info *out) {
    if (!layer)
        return tpp__fail(TPP_ERR_INVALID, "layer is NULL");
    if (index < 0 || index >= layer->param_count)
        return tpp__fail(TPP_ERR_INVALID,
                         "index = %d is out of range; this layer has %d parameters", index,
                         layer->param_count);
    const tpp__param *param = &layer->params[index];
    tpp_param_info info = {
        .flags = param->flags,
        .name = param->name,
        .shard = param->shard,
        .local_rows = tpp_shard_rows(&param->shard),
        .local_cols = tpp_shard_cols(&param->shard),
        .offset = param->offset,
        .init = param->init,
        .init_std = param->std,
        .grad_offset = param->grad_offset,
    };
    return tpp__sized_write(out, &info, sizeof info, "out");
}

static tpp_status check_mat(const char *name, const tpp_mat *mat, int64_t rows, int64_t cols,
                            tpp_dtype dtype) {
    if (mat->rows != rows || mat->cols != cols)
        return tpp__fail(TPP_ERR_INVALID, "call.%s is [%lld, %lld]; it must be [%lld, %lld]", name,
                         (long long)mat->rows, (long long)mat->cols, (long long)rows,
                         (long long)cols);
    if (mat->dtype != dtype)
        return tpp__fail(TPP_ERR_INVALID, "call.%s.dtype is %s; it must be %s", name,
                         tpp__dtype_name(mat->dtype), tpp__dtype_name(dtype));
    if (mat->stride != 0 && mat->stride != cols)
        return tpp__fail(TPP_ERR_INVALID,
                         "call.%s.stride = %lld; it must be 0 or %lld (contiguous)", name,
                         (long long)mat->stride, (long long)cols);
    if (!mat->data && rows > 0 && cols > 0)
        return tpp__fail(TPP_ERR_INVALID, "call.%s.data is NULL; it must hold [%lld, %lld]", name,
                         (long long)rows, (long long)cols);
    return TPP_OK;
}

static tpp_status check_memory(const char *name, const void *memory, int64_t bytes, int64_t need) {
    if (bytes < need)
        return tpp__fail(TPP_ERR_TOO_SMALL,
                         "call.%s_bytes = %lld is too small; this call needs %lld", name,
                         (long long)bytes, (long long)need);
    if (need > 0 && (!memory || (uintptr_t)memory % TPP__ALIGN != 0))
        return tpp__fail(TPP_ERR_INVALID, "call.%s is %s; it must be aligned to %d bytes", name,
                         memory ? "not aligned" : "NULL", TPP__ALIGN);
    return TPP_OK;
}

/* What a caller asks for. */
typedef struct door {
    bool forward;
    int32_t parts; /* of backward */
} door;

static tpp_status check_state(const tpp_layer *layer, const tpp_call *call, door want) {
    if (layer->state_bytes == 0)
        return TPP_OK;
    tpp_status status =
        check_memory("params", call->params, layer->state_bytes, layer->state_bytes);
    if (status == TPP_OK && (want.parts & TPP__WEIGHT))
        status = check_memory("grads", call->grads, layer->grad_bytes, layer->grad_bytes);
    return status;
}

static tpp_status check_mats(const tpp_layer *layer, const tpp_call *call, door want,
                             int64_t tokens) {
    int64_t rows = layer->one_row ? 1 : rows_of(layer, layer->out_part, tokens);
    int64_t in_rows = rows_of(layer, layer->in_part, tokens);
    tpp_status status = check_mat("in", &call->in, in_rows, layer->in_cols, layer->in_dtype);
    if (status == TPP_OK && want.forward)
        status = check_mat("out", &call->out, rows, layer->out_cols, layer->out_dtype);
    if (status == TPP_OK && !want.forward)
        status = check_mat("grad_out", &call->grad_out, rows, layer->out_cols, layer->out_dtype);
    if (status == TPP_OK && (want.parts & TPP__INPUT) && layer->in_dtype == layer->dtype)
        status = check_mat("grad_in", &call->grad_in, in_rows, layer->in_cols, layer->in_dtype);
    if (status == TPP_OK && layer->targets && !call->targets && tokens > 0)
        status = tpp__fail(TPP_ERR_INVALID, "call.targets is NULL; it must hold %lld numbers",
                           (long long)tokens);
    if (status == TPP_OK && !isfinite(call->weight_sum))
        status = tpp__fail(TPP_ERR_INVALID, "call.weight_sum = %g; it must be a finite number",
                           call->weight_sum);
    return status;
}

/* Memory of a call with TPP_CALL_NO_GRAD. */
static tpp_status check_serving(const tpp_layer *layer, const tpp_call *call, door want) {
    tpp__serve serve = {0};
    if (!want.forward)
        return tpp__fail(
            TPP_ERR_INVALID,
            "call.flags has TPP_CALL_NO_GRAD, and a backward needs what such a forward "
            "does not save");
    if (call->cache && call->cache_seq == 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "call.cache is set and call.cache_seq = 0; it must be the tokens of a "
                         "sequence that the cache has room for, or call.cache NULL");
    tpp_status status = tpp__serve_needs(layer, call->batch, call->seq, call->cache_seq, &serve);
    if (status == TPP_OK && call->cache_seq > 0)
        status = tpp__check_cached(call);
    if (status == TPP_OK)
        status = check_memory("cache", call->cache, call->cache_bytes, serve.cache);
    if (status == TPP_OK)
        status = check_memory("scratch", call->scratch, call->scratch_bytes, serve.scratch);
    return status;
}

static tpp_status check_training(const tpp_layer *layer, const tpp_call *call, door want,
                                 int64_t *saved) {
    tpp__needs needs = {0};
    if (call->cache || call->cache_seq != 0)
        return tpp__fail(
            TPP_ERR_INVALID,
            "call.cache without TPP_CALL_NO_GRAD in call.flags: what a cache holds has "
            "no gradients");
    bool halves = !want.forward && want.parts != TPP__BOTH;
    tpp_status status = needs_of(layer, call->batch, call->seq, &needs);
    if (status == TPP_OK)
        status = check_memory("saved", call->saved, call->saved_bytes,
                              needs.saved + (halves ? needs.split : 0));
    if (status == TPP_OK)
        status = check_memory("scratch", call->scratch, call->scratch_bytes, needs.scratch);
    *saved = needs.saved;
    return status;
}

static tpp_status check_call(const tpp_layer *layer, const tpp_call *call, door want,
                             tpp__work *work) {
    int64_t tokens = 0, saved = 0;
    bool serving = call->flags & TPP_CALL_NO_GRAD;
    tpp_status status = tpp__check_shape(call->batch, call->seq);
    if (status == TPP_OK)
        status = check_context(layer, call);
    if (status == TPP_OK)
        status = count_tokens(call, &tokens);
    if (status == TPP_OK)
        status = check_mats(layer, call, want, tokens);
    if (status == TPP_OK)
        status = check_state(layer, call, want);
    if (status == TPP_OK)
        status =
            serving ? check_serving(layer, call, want) : check_training(layer, call, want, &saved);
    if (status != TPP_OK)
        return status;
    tpp__part part = tpp__part_of(layer, tokens);
    *work = (tpp__work){
        .batch = call->batch,
        .seq = call->seq,
        .tokens = tokens,
        .first = part.first,
        .rows = part.count,
        .in = call->in.data,
        .out = call->out.data,
        .grad_out = call->grad_out.data,
        .grad_in = call->grad_in.data,
        .params = call->params,
        .grads = call->grads,
        .saved = call->saved,
        .split = want.forward || want.parts == TPP__BOTH ? NULL : (char *)call->saved + saved,
        .scratch = tpp__arena_over(call->scratch, call->scratch_bytes),
        .targets = call->targets,
        .weights = call->weights,
        .weight_sum = call->weight_sum,
        .lengths = call->lengths,
        .past = call->past,
        .dropout_seed = call->dropout_seed,
        .no_grad = serving,
        .cache = call->cache_seq > 0 ? call->cache : NULL,
        .cache_seq = call->cache_seq,
    };
    return TPP_OK;
}

const void *tpp__param_of(const tpp_layer *layer, const tpp__work *work, int32_t index) {
    return index < layer->param_count ? work->params + layer->params[index].offset : NULL;
}

void *tpp__grad_of(const tpp_layer *layer, const tpp__work *work, int32_t index) {
    return index < layer->param_count ? work->grads + layer->params[index].grad_offset : NULL;
}

tpp_status tpp__layer_backward(const tpp_layer *layer, const tpp__work *work, int32_t parts) {
    if (parts != TPP__BOTH || layer->child_count > 0)
        return layer->ops->backward(layer, work, parts);
    tpp__work own = *work;
    own.split =
        tpp__arena_take(&own.scratch, tpp__layer_needs(layer, work->batch, work->seq).split, 1);
    return layer->ops->backward(layer, &own, parts);
}

static tpp_status enter(const tpp_layer *layer, const tpp_call *given, door want) {
    if (!layer)
        return tpp__fail(TPP_ERR_INVALID, "layer is NULL");
    if (layer->tied)
        return tpp__fail(TPP_ERR_INVALID,
                         "this layer is tied to an embedding outside of it; call the chain that "
                         "holds both");
    tpp_call call;
    tpp__work work;
    tpp_status status = tpp__sized_read(&call, sizeof call, TPP_CALL_NO_GRAD, given, "call");
    if (status == TPP_OK)
        status = check_call(layer, &call, want, &work);
    if (status != TPP_OK)
        return status;
    if (work.tokens == 0) { /* as on every rank, so no collective is owed */
        if (want.forward && layer->one_row)
            memset(work.out, 0, (size_t)(layer->out_cols * tpp__dtype_bytes(layer->out_dtype)));
        return TPP_OK;
    }
    if (layer->blas_single)
        tpp_blas_single_begin();
    status = want.forward ? tpp__layer_forward(layer, &work)
                          : tpp__layer_backward(layer, &work, want.parts);
    if (layer->blas_single)
        tpp_blas_single_end();
    return status;
}

tpp_status tpp_layer_forward(const tpp_layer *layer, const tpp_call *call) {
    return enter(layer, call, (door){.forward = true});
}

tpp_status tpp_layer_backward(const tpp_layer *layer, const tpp_call *call) {
    return enter(layer, call, (door){.parts = TPP__BOTH});
}

tpp_status tpp_layer_backward_input(const tpp_layer *layer, const tpp_call *call) {
    return enter(layer, call, (door){.parts = TPP__INPUT});
}

tpp_status tpp_layer_backward_weight(const tpp_layer *layer, const tpp_call *call) {
    return enter(layer, call, (door){.parts = TPP__WEIGHT});
}
