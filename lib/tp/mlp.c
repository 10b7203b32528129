/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/operators.h"
#include "tp/partition_1d.h"

#include <tpp/mlp.h>

typedef struct mlp {
    tpp_layer base;
    int64_t ffn; /* columns between the matrices, on this rank */
    int32_t act;
} mlp;

enum { UP, DOWN, UP_BIAS, DOWN_BIAS };

/* saved: the up projection before and behind the activation. */
typedef struct mlp_saved {
    void *up;
    void *active;
} mlp_saved;

static mlp_saved take_saved(const tpp_layer *layer, int64_t tokens, tpp__arena *arena) {
    mlp_saved saved;
    saved.up = tpp__arena_take(arena, tokens * ((const mlp *)layer)->ffn, layer->width);
    saved.active = tpp__arena_take(arena, tokens * ((const mlp *)layer)->ffn, layer->width);
    return saved;
}

static void needs_of(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs) {
    int64_t tokens = batch * seq;
    tpp__arena saved = tpp__arena_counting();
    take_saved(layer, tokens, &saved);
    tpp__arena split = tpp__arena_counting(); /* gradient of `up` */
    tpp__arena_take(&split, tokens * ((const mlp *)layer)->ffn, layer->width);
    tpp__arena scratch = split;
    tpp__block_sum_scratch(layer, tokens * layer->out_cols, &scratch);
    needs->saved = saved.used;
    needs->split = split.used;
    needs->scratch = scratch.used;
    needs->overflow = !tpp__arena_fits(&saved) || !tpp__arena_fits(&scratch);
}

static tpp_status forward(const tpp_layer *layer, const tpp__work *work) {
    const mlp *self = (const mlp *)layer;
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    mlp_saved saved = take_saved(layer, work->tokens, &memory);
    tpp__linear_shape up = {work->tokens, layer->in_cols, self->ffn};
    tpp__linear_shape down = {work->tokens, self->ffn, layer->out_cols};
    tpp_status status = tpp__col_forward(layer, up, work->in, tpp__param_of(layer, work, UP),
                                         tpp__param_of(layer, work, UP_BIAS), saved.up);
    if (status != TPP_OK)
        return status;
    tpp__kern_act_forward(layer->dtype, self->act, up.tokens * up.out, saved.up, saved.active);
    status = tpp__row_forward(layer, down, saved.active, tpp__param_of(layer, work, DOWN),
                              work->out, work->scratch);
    if (status == TPP_OK)
        status = tpp__g_forward(layer, work->out, down.tokens * down.out);
    const void *bias = tpp__param_of(layer, work, DOWN_BIAS);
    if (status == TPP_OK && bias)
        tpp__kern_bias_add(layer->dtype, down.tokens, down.out, bias, work->out, down.out);
    return status;
}

static tpp_status backward_input(const tpp_layer *layer, const tpp__work *work, mlp_saved saved,
                                 tpp_request *sum) {
    const mlp *self = (const mlp *)layer;
    tpp__linear_shape up = {work->tokens, layer->in_cols, self->ffn};
    tpp__linear_shape down = {work->tokens, self->ffn, layer->out_cols};
    void *grad_up = work->split;
    tpp_status status =
        tpp__row_input(layer, down, work->grad_out, tpp__param_of(layer, work, DOWN), grad_up);
    if (status != TPP_OK)
        return status;
    tpp__kern_act_backward(layer->dtype, self->act, up.tokens * up.out, saved.up, grad_up, grad_up);
    status = tpp__col_input(layer, up, grad_up, tpp__param_of(layer, work, UP), work->grad_in,
                            work->scratch);
    if (status == TPP_OK)
        status = tpp__f_backward_start(layer, work->grad_in, up.tokens * up.in, sum);
    return status;
}

static tpp_status backward_weight(const tpp_layer *layer, const tpp__work *work, mlp_saved saved) {
    const mlp *self = (const mlp *)layer;
    tpp__linear_shape up = {work->tokens, layer->in_cols, self->ffn};
    tpp__linear_shape down = {work->tokens, self->ffn, layer->out_cols};
    tpp_status status =
        tpp__col_weight(layer, up, work->in, work->split, tpp__grad_of(layer, work, UP),
                        tpp__grad_of(layer, work, UP_BIAS));
    if (status == TPP_OK)
        status =
            tpp__row_weight(layer, down, saved.active, work->grad_out,
                            tpp__grad_of(layer, work, DOWN), tpp__grad_of(layer, work, DOWN_BIAS));
    return status;
}

static tpp_status backward(const tpp_layer *layer, const tpp__work *work, int32_t parts) {
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    mlp_saved saved = take_saved(layer, work->tokens, &memory);
    tpp_request sum = {0};
    tpp_status status = TPP_OK;
    if (parts & TPP__INPUT)
        status = backward_input(layer, work, saved, &sum);
    if (status == TPP_OK && (parts & TPP__WEIGHT))
        status = backward_weight(layer, work, saved);
    return tpp__f_backward_finish(&sum, status);
}

static tpp_status check_desc(tpp_mlp_desc *desc) {
    tpp_status status = tpp__check_positive("desc.hidden", desc->hidden);
    if (status == TPP_OK && desc->ffn == 0)
        desc->ffn = 4 * desc->hidden;
    if (desc->act == 0)
        desc->act = TPP_ACT_GELU_TANH;
    if (status == TPP_OK)
        status = tpp__check_positive("desc.ffn", desc->ffn);
    if (status == TPP_OK && desc->act != TPP_ACT_GELU_TANH && desc->act != TPP_ACT_GELU_ERF)
        status = tpp__fail(
            TPP_ERR_INVALID,
            "desc.act = %d is not accepted; accepted: 0 or 1 (GeLU tanh), 2 (GeLU erf)", desc->act);
    if (status == TPP_OK)
        status = tpp__check_std("desc.init_std", desc->init_std, 0.02, &desc->init_std);
    if (status == TPP_OK)
        status = tpp__check_std("desc.out_std", desc->out_std, desc->init_std, &desc->out_std);
    return status;
}

static void add_params(tpp_layer *layer, const tpp_mlp_desc *desc) {
    int64_t h = desc->hidden, f = desc->ffn;
    tpp__layer_add_param(layer, "up.weight", tpp__shard_axis(layer, h, f, TPP_AXIS_COLS, 1, f),
                         TPP_INIT_NORMAL, desc->init_std, 0);
    tpp__layer_add_param(layer, "down.weight", tpp__shard_axis(layer, f, h, TPP_AXIS_ROWS, 1, f),
                         TPP_INIT_NORMAL, desc->out_std, 0);
    if (desc->flags & TPP_MLP_NO_BIAS)
        return;
    tpp__layer_add_param(layer, "up.bias", tpp__shard_axis(layer, 1, f, TPP_AXIS_COLS, 1, f),
                         TPP_INIT_ZERO, 0, TPP_PARAM_NO_DECAY);
    tpp__layer_add_param(layer, "down.bias", tpp__shard_whole(1, h), TPP_INIT_ZERO, 0,
                         TPP_PARAM_NO_DECAY);
}

static const tpp__layer_ops ops = {needs_of, forward, backward};

tpp_status tpp_mlp_create(tpp_layer **out, const tpp_layer_env *env, const tpp_mlp_desc *given) {
    tpp_mlp_desc desc;
    tpp_layer *layer;
    tpp_status status = tpp__sized_read(&desc, sizeof desc, TPP_MLP_NO_BIAS, given, "desc");
    if (status == TPP_OK)
        status = check_desc(&desc);
    if (status == TPP_OK)
        status = tpp__layer_new(&layer, env, sizeof(mlp), &ops, 4, 0);
    if (status != TPP_OK)
        return tpp__layer_hand_over(out, NULL, status);
    status = tpp__check_blocks(layer, "desc.ffn", desc.ffn);
    if (status == TPP_OK) {
        mlp *self = (mlp *)layer;
        self->ffn = desc.ffn / layer->ranks;
        self->act = desc.act == TPP_ACT_GELU_ERF ? TPP__ACT_GELU_ERF : TPP__ACT_GELU_TANH;
        layer->in_cols = layer->out_cols = desc.hidden;
        add_params(layer, &desc);
    }
    return tpp__layer_hand_over(out, layer, status);
}
