/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/cost_impl.h"
#include "tp/custom_impl.h"

#include <string.h>

/* The doors' work becomes a call of a callback. */

static const tpp__custom *custom_of(const tpp_layer *layer) {
    return (const tpp__custom *)layer;
}

static tpp_custom_call about(const tpp_layer *layer, const tpp_call *call) {
    const tpp__custom *self = custom_of(layer);
    return (tpp_custom_call){
        .size = sizeof(tpp_custom_call),
        .call = call,
        .offsets = self->offsets,
        .grad_offsets = self->grad_offsets,
        .comm = layer->comm,
        .gemm = &layer->gemm,
        .rank = layer->rank,
        .ranks = layer->ranks,
        .blocks = layer->blocks,
    };
}

/* This thread's sentence, which a callback that succeeds leaves as it was. */
typedef struct sentence {
    char text[TPP__MESSAGE];
} sentence;

static sentence begin(void) {
    sentence before;
    memcpy(before.text, tpp_message(), sizeof before.text);
    tpp_message_set("");
    return before;
}

static tpp_status end(const tpp_layer *layer, const char *name, const sentence *before,
                      tpp_status status) {
    if (status == TPP_OK)
        tpp_message_set(before->text);
    if (status > 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "%s of the custom layer \"%s\" returned %d; it must return TPP_OK or a "
                         "negative status",
                         name, layer->prefix, status);
    if (status < 0 && !*tpp_message())
        return tpp__fail(status, "%s of the custom layer \"%s\" returned %d (%s) without a message",
                         name, layer->prefix, status, tpp_status_name(status));
    return status;
}

static tpp_status check_needs(const tpp_layer *layer, const tpp_custom_needs *needs) {
    const struct {
        const char *name;
        int64_t bytes;
    } parts[] = {{"saved", needs->saved_bytes},
                 {"split", needs->split_bytes},
                 {"scratch", needs->scratch_bytes}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].bytes < 0)
            return tpp__fail(TPP_ERR_INVALID,
                             "query of the custom layer \"%s\" gave %s_bytes = %lld; it must be 0 "
                             "or more",
                             layer->prefix, parts[i].name, (long long)parts[i].bytes);
    return TPP_OK;
}

static tpp_status ask(const tpp_layer *layer, int64_t batch, int64_t seq, tpp_custom_needs *out) {
    const tpp__custom *self = custom_of(layer);
    tpp_call call = {.size = sizeof call, .batch = batch, .seq = seq};
    tpp_custom_call own = about(layer, &call);
    *out = (tpp_custom_needs){.size = sizeof *out};
    if (!self->ops.query)
        return TPP_OK;
    sentence before = begin();
    tpp_status status = end(layer, "query", &before, self->ops.query(self->ctx, &own, out));
    return status == TPP_OK ? check_needs(layer, out) : status;
}

static void needs_of(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs) {
    tpp_custom_needs own;
    needs->failed = ask(layer, batch, seq, &own);
    if (needs->failed != TPP_OK)
        return;
    tpp__arena saved = tpp__arena_counting(), split = saved;
    tpp__arena_take(&saved, own.saved_bytes, 1);
    tpp__arena_take(&split, own.split_bytes, 1);
    tpp__arena scratch = split; /* where a whole backward has it */
    tpp__arena_take(&scratch, own.scratch_bytes, 1);
    needs->saved = saved.used;
    needs->split = split.used;
    needs->scratch = scratch.used;
    needs->overflow =
        !tpp__arena_fits(&saved) || !tpp__arena_fits(&split) || !tpp__arena_fits(&scratch);
}

static tpp_mat view(const void *data, int64_t rows, int64_t cols, tpp_dtype dtype) {
    tpp_mat mat = {.rows = rows, .cols = cols, .dtype = dtype};
    memcpy(&mat.data, &data, sizeof data); /* a callback only reads what it may only read */
    return mat;
}

static int64_t in_rows(const tpp_layer *layer, const tpp__work *work) {
    return layer->in_part ? work->rows : work->tokens;
}

/* What every callback of a call gets. */
static tpp_status open_call(const tpp_layer *layer, const tpp__work *work, tpp_call *call) {
    tpp_custom_needs needs;
    tpp__arena scratch = work->scratch;
    tpp_status status = ask(layer, work->batch, work->seq, &needs);
    *call = (tpp_call){
        .size = sizeof *call,
        .batch = work->batch,
        .seq = work->seq,
        .in = view(work->in, in_rows(layer, work), layer->in_cols, layer->in_dtype),
        .params = work->params,
        .saved = work->saved,
        .saved_bytes = needs.saved_bytes,
        .scratch = tpp__arena_take(&scratch, needs.scratch_bytes, 1),
        .scratch_bytes = needs.scratch_bytes,
        .targets = work->targets,
        .weights = work->weights,
        .weight_sum = work->weight_sum,
        .lengths = work->lengths,
        .past = work->past,
        .dropout_seed = work->dropout_seed,
    };
    return status;
}

static tpp_mat out_view(const tpp_layer *layer, const tpp__work *work, const void *data) {
    int64_t rows = layer->out_part ? work->rows : work->tokens;
    return view(data, layer->one_row ? 1 : rows, layer->out_cols, layer->out_dtype);
}

static tpp_status forward(const tpp_layer *layer, const tpp__work *work) {
    const tpp__custom *self = custom_of(layer);
    tpp_call call;
    tpp_status status = open_call(layer, work, &call);
    if (status != TPP_OK)
        return status;
    tpp_custom_call own = about(layer, &call);
    call.out = out_view(layer, work, work->out);
    sentence before = begin();
    return end(layer, "forward", &before, self->ops.forward(self->ctx, &own));
}

static tpp_status backward(const tpp_layer *layer, const tpp__work *work, int32_t parts) {
    const tpp__custom *self = custom_of(layer);
    tpp_call call;
    tpp_status status = open_call(layer, work, &call);
    tpp_custom_call own = about(layer, &call);
    own.split = work->split;
    call.grad_out = out_view(layer, work, work->grad_out);
    if (status == TPP_OK && (parts & TPP__INPUT) && self->ops.backward_input) {
        if (layer->in_dtype == layer->dtype)
            call.grad_in =
                view(work->grad_in, in_rows(layer, work), layer->in_cols, layer->in_dtype);
        sentence before = begin();
        status = end(layer, "backward_input", &before, self->ops.backward_input(self->ctx, &own));
    }
    if (status == TPP_OK && (parts & TPP__WEIGHT) && self->ops.backward_weight) {
        call.grad_in = (tpp_mat){0};
        call.grads = work->grads;
        sentence before = begin();
        status = end(layer, "backward_weight", &before, self->ops.backward_weight(self->ctx, &own));
    }
    return status;
}

static void destroy(tpp_layer *layer) {
    const tpp__custom *self = custom_of(layer);
    if (self->ops.destroy)
        self->ops.destroy(self->ctx);
}

/* Adds what the callback tells. */
static void cost_of(const tpp_layer *layer, tpp_cost_call kind, tpp__cost *c) {
    const tpp__custom *self = custom_of(layer);
    tpp_call call = {.size = sizeof call, .batch = c->batch, .seq = c->seq};
    tpp_custom_call own = about(layer, &call);
    tpp_layer_cost told = {.size = sizeof told};
    if (!self->ops.cost || c->failed != TPP_OK)
        return;
    sentence before = begin();
    c->failed = end(layer, "cost", &before, self->ops.cost(self->ctx, &own, kind, &told));
    for (int32_t i = 0; i < TPP_COMM_KINDS; i++) {
        tpp_comm_count *to = &c->sum.comm[i];
        to->calls += told.comm[i].calls;
        c->overflow |= !tpp__add(to->elements, told.comm[i].elements, &to->elements) ||
                       !tpp__add(to->bytes, told.comm[i].bytes, &to->bytes);
    }
    c->sum.gemm_flops += told.gemm_flops;
    if (c->repeated)
        return;
    c->sum.weight_flops += told.weight_flops;
    c->sum.attention_flops += told.attention_flops;
    c->sum.attention_flops_full += told.attention_flops_full;
}

static void cost(const tpp_layer *layer, int32_t parts, tpp__cost *c) {
    if (parts & TPP__FORWARDS)
        cost_of(layer, TPP_COST_FORWARD, c);
    if (parts & TPP__INPUT)
        cost_of(layer, TPP_COST_INPUT, c);
    if (parts & TPP__WEIGHT)
        cost_of(layer, TPP_COST_WEIGHT, c);
}

const tpp__layer_ops tpp__custom_ops = {
    .needs = needs_of, .forward = forward, .backward = backward, .destroy = destroy, .cost = cost};
