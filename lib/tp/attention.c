/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/attention_impl.h"
#include "tp/operators.h"
#include "tp/partition_1d.h"

/* Parameters: the projections' weights, out.weight, the projections' biases, out.bias. */
static int32_t out_of(const tpp_layer *layer) {
    return ((const tpp__attention_layer *)layer)->projections;
}

static int32_t bias_of(const tpp_layer *layer, int32_t weight) {
    return out_of(layer) + 1 + weight;
}

int64_t tpp__attention_heads_cols(const tpp_layer *layer) {
    const tpp__attention_layer *self = (const tpp__attention_layer *)layer;
    return self->heads * self->head_cols;
}

int64_t tpp__attention_cols(const tpp_layer *layer, int32_t index) {
    const tpp__attention_layer *self = (const tpp__attention_layer *)layer;
    if (self->projections == 1)
        return 3 * tpp__attention_heads_cols(layer);
    return (index == TPP__Q ? self->heads : self->kv_heads) * self->head_cols;
}

tpp__projected tpp__attention_projected(const tpp_layer *layer, int64_t tokens, tpp__arena *arena) {
    tpp__projected projected = {{NULL}};
    for (int32_t i = 0; i < out_of(layer); i++)
        projected.matrix[i] =
            tpp__arena_take(arena, tokens * tpp__attention_cols(layer, i), layer->width);
    return projected;
}

static tpp__attention_saved take_saved(const tpp_layer *layer, int64_t tokens, tpp__arena *arena) {
    const tpp__attention_layer *self = (const tpp__attention_layer *)layer;
    tpp__attention_saved saved;
    saved.qkv = tpp__attention_projected(layer, tokens, arena);
    saved.heads = tpp__arena_take(arena, tokens * tpp__attention_heads_cols(layer), layer->width);
    saved.lse = tpp__arena_take(arena, tokens * self->heads, layer->wide_width);
    return saved;
}

static void needs_of(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs) {
    int64_t tokens = batch * seq;
    tpp__arena saved = tpp__arena_counting();
    take_saved(layer, tokens, &saved);
    tpp__arena split = tpp__arena_counting(); /* gradients of qkv */
    tpp__attention_projected(layer, tokens, &split);
    tpp__arena core = split; /* gradient of the heads' outputs, then what heads need */
    tpp__arena_take(&core, tokens * tpp__attention_heads_cols(layer), layer->width);
    tpp__attention_heads_scratch(layer, seq, &core);
    tpp__arena sums = split;
    tpp__block_sum_scratch(layer, tokens * layer->out_cols, &sums);
    needs->saved = saved.used;
    needs->split = split.used;
    needs->scratch = core.used > sums.used ? core.used : sums.used;
    needs->overflow =
        !tpp__arena_fits(&saved) || !tpp__arena_fits(&core) || !tpp__arena_fits(&sums);
}

static tpp__linear_shape in_shape(const tpp_layer *layer, const tpp__work *work, int32_t index) {
    return (tpp__linear_shape){work->tokens, layer->in_cols, tpp__attention_cols(layer, index)};
}

static tpp__linear_shape out_shape(const tpp_layer *layer, const tpp__work *work) {
    return (tpp__linear_shape){work->tokens, tpp__attention_heads_cols(layer), layer->out_cols};
}

static tpp_status project(const tpp_layer *layer, const tpp__work *work,
                          const tpp__projected *qkv) {
    tpp_status status = TPP_OK;
    for (int32_t i = 0; i < out_of(layer) && status == TPP_OK; i++)
        status = tpp__col_forward(layer, in_shape(layer, work, i), work->in,
                                  tpp__param_of(layer, work, i),
                                  tpp__param_of(layer, work, bias_of(layer, i)), qkv->matrix[i]);
    return status;
}

static tpp_status forward(const tpp_layer *layer, const tpp__work *work) {
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    tpp__attention_saved saved = take_saved(layer, work->tokens, &memory);
    tpp__linear_shape out = out_shape(layer, work);
    const void *bias = tpp__param_of(layer, work, bias_of(layer, out_of(layer)));
    tpp_status status = project(layer, work, &saved.qkv);
    if (status == TPP_OK)
        status = tpp__attention_heads_forward(layer, work, &saved);
    if (status == TPP_OK)
        status =
            tpp__row_forward(layer, out, saved.heads, tpp__param_of(layer, work, out_of(layer)),
                             work->out, work->scratch);
    if (status == TPP_OK)
        status = tpp__g_forward(layer, work->out, out.tokens * out.out);
    if (status == TPP_OK && bias)
        tpp__kern_bias_add(layer->dtype, out.tokens, out.out, bias, work->out, out.out);
    return status;
}

/* Gradients of qkv and, partial, of the input. */
static tpp_status input_half(const tpp_layer *layer, const tpp__work *work,
                             const tpp__attention_saved *saved, const tpp__projected *grads) {
    tpp__linear_shape out = out_shape(layer, work);
    tpp__arena arena = work->scratch;
    char *grad_heads = tpp__arena_take(&arena, out.tokens * out.in, layer->width);
    tpp__col_operand operands[TPP__QKV];
    for (int32_t i = 0; i < out_of(layer); i++)
        operands[i] = (tpp__col_operand){tpp__attention_cols(layer, i), grads->matrix[i],
                                         tpp__param_of(layer, work, i)};
    tpp_status status = tpp__row_input(layer, out, work->grad_out,
                                       tpp__param_of(layer, work, out_of(layer)), grad_heads);
    if (status == TPP_OK)
        status = tpp__attention_heads_backward(layer, work, saved, grad_heads, grads, arena);
    if (status == TPP_OK)
        status = tpp__col_input_all(layer, work->tokens, layer->in_cols, operands, out_of(layer),
                                    work->grad_in, work->scratch);
    return status;
}

static tpp_status weight_half(const tpp_layer *layer, const tpp__work *work,
                              const tpp__attention_saved *saved, const tpp__projected *grads) {
    tpp_status status = TPP_OK;
    int32_t out = out_of(layer);
    for (int32_t i = 0; i < out && status == TPP_OK; i++)
        status = tpp__col_weight(layer, in_shape(layer, work, i), work->in, grads->matrix[i],
                                 tpp__grad_of(layer, work, i),
                                 tpp__grad_of(layer, work, bias_of(layer, i)));
    if (status == TPP_OK)
        status = tpp__row_weight(layer, out_shape(layer, work), saved->heads, work->grad_out,
                                 tpp__grad_of(layer, work, out),
                                 tpp__grad_of(layer, work, bias_of(layer, out)));
    return status;
}

static tpp_status backward(const tpp_layer *layer, const tpp__work *work, int32_t parts) {
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    tpp__arena split = tpp__arena_over(work->split, INT64_MAX);
    tpp__attention_saved saved = take_saved(layer, work->tokens, &memory);
    tpp__projected grads = tpp__attention_projected(layer, work->tokens, &split);
    tpp_request sum = {0};
    tpp_status status = TPP_OK;
    if (parts & TPP__INPUT) {
        status = input_half(layer, work, &saved, &grads);
        if (status == TPP_OK)
            status =
                tpp__f_backward_start(layer, work->grad_in, work->tokens * layer->in_cols, &sum);
    }
    if (status == TPP_OK && (parts & TPP__WEIGHT))
        status = weight_half(layer, work, &saved, &grads);
    return tpp__f_backward_finish(&sum, status);
}

const tpp__layer_ops tpp__attention_ops = {needs_of, forward, backward};
