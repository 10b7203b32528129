/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/mlp_impl.h"

#include <tpp/mlp.h>

static bool is_gated(tpp_act act) {
    return act == TPP_ACT_SWIGLU || act == TPP_ACT_GEGLU;
}

/* The function of kern.h; 0 for what is none. */
static int32_t kernel_of(tpp_act act) {
    switch (act) {
    case TPP_ACT_GELU_TANH:
    case TPP_ACT_GEGLU:
        return TPP__ACT_GELU_TANH;
    case TPP_ACT_GELU_ERF:
        return TPP__ACT_GELU_ERF;
    case TPP_ACT_RELU:
        return TPP__ACT_RELU;
    case TPP_ACT_SQUARED_RELU:
        return TPP__ACT_SQUARED_RELU;
    case TPP_ACT_SILU:
    case TPP_ACT_SWIGLU:
        return TPP__ACT_SILU;
    default:
        return 0;
    }
}

static tpp_status check_act(const tpp_mlp_desc *desc) {
    if (!kernel_of(desc->act))
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.act = %d is not accepted; accepted: 0 or 1 (GeLU tanh), 2 (GeLU "
                         "erf), 3 (ReLU), 4 (squared ReLU), 5 (SiLU), 16 (SwiGLU), 17 (GeGLU)",
                         desc->act);
    bool separate = desc->flags & TPP_MLP_SEPARATE_GATE;
    if (separate && !is_gated(desc->act))
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.flags has TPP_MLP_SEPARATE_GATE, and desc.act = %d has no gate; "
                         "accepted: 16 (SwiGLU), 17 (GeGLU)",
                         desc->act);
    if (is_gated(desc->act) && !separate && desc->ffn > INT32_MAX / 2) /* [G | U] must suit BLAS */
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.ffn = %lld is too wide for a fused gate; accepted: 1 .. %d",
                         (long long)desc->ffn, INT32_MAX / 2);
    return TPP_OK;
}

static tpp_status check_desc(tpp_mlp_desc *desc) {
    tpp_status status = tpp__check_positive("desc.hidden", desc->hidden);
    if (status == TPP_OK && desc->ffn == 0)
        desc->ffn = 4 * desc->hidden;
    if (desc->act == 0)
        desc->act = TPP_ACT_GELU_TANH;
    if (status == TPP_OK)
        status = tpp__check_positive("desc.ffn", desc->ffn);
    if (status == TPP_OK)
        status = check_act(desc);
    if (status == TPP_OK)
        status = tpp__check_std("desc.init_std", desc->init_std, 0.02, &desc->init_std);
    if (status == TPP_OK)
        status = tpp__check_std("desc.out_std", desc->out_std, desc->init_std, &desc->out_std);
    return status;
}

static int32_t add_weight(tpp_layer *layer, const char *name, tpp_shard shard, double std) {
    tpp__layer_add_param(layer, name, shard, TPP_INIT_NORMAL, std, 0);
    return layer->param_count - 1;
}

static int32_t add_bias(tpp_layer *layer, const char *name, tpp_shard shard) {
    tpp__layer_add_param(layer, name, shard, TPP_INIT_ZERO, 0, TPP_PARAM_NO_DECAY);
    return layer->param_count - 1;
}

/* `rows` rows of one of the first matrices, or of its bias. */
static tpp_shard first_shard(const tpp_layer *layer, int64_t rows, int64_t ffn) {
    const mlp *self = (const mlp *)layer;
    int64_t cols = self->first_out * layer->ranks;
    int32_t sections = self->gated && self->matrices == 1 ? 2 : 1;
    return tpp__shard_axis(layer, rows, cols, TPP_AXIS_COLS, sections, sections * ffn);
}

static void add_params(tpp_layer *layer, const tpp_mlp_desc *desc) {
    mlp *self = (mlp *)layer;
    int64_t h = desc->hidden, f = desc->ffn;
    int32_t up = self->matrices - 1;
    self->first_bias[0] = self->first_bias[1] = self->down_bias = TPP__NO_PARAM;
    if (up)
        self->first[0] = add_weight(layer, "gate.weight", first_shard(layer, h, f), desc->init_std);
    self->first[up] = add_weight(layer, "up.weight", first_shard(layer, h, f), desc->init_std);
    self->down = add_weight(layer, "down.weight",
                            tpp__shard_axis(layer, tpp__padded(layer, f), h, TPP_AXIS_ROWS, 1, f),
                            desc->out_std);
    if (desc->flags & TPP_MLP_NO_BIAS)
        return;
    if (up)
        self->first_bias[0] = add_bias(layer, "gate.bias", first_shard(layer, 1, f));
    self->first_bias[up] = add_bias(layer, "up.bias", first_shard(layer, 1, f));
    self->down_bias = add_bias(layer, "down.bias", tpp__shard_whole(1, h));
}

static void fill(tpp_layer *layer, const tpp_mlp_desc *desc) {
    mlp *self = (mlp *)layer;
    self->ffn = tpp__padded(layer, desc->ffn) / layer->ranks;
    self->act = kernel_of(desc->act);
    self->gated = is_gated(desc->act);
    self->matrices = desc->flags & TPP_MLP_SEPARATE_GATE ? 2 : 1;
    self->first_out = self->gated && self->matrices == 1 ? 2 * self->ffn : self->ffn;
    layer->in_cols = layer->out_cols = desc->hidden;
    layer->in_part = layer->out_part = layer->sequence;
    add_params(layer, desc);
}

tpp_status tpp_mlp_create(tpp_layer **out, const tpp_layer_env *env, const tpp_mlp_desc *given) {
    tpp_mlp_desc desc;
    tpp_layer *layer;
    uint32_t flags = TPP_MLP_NO_BIAS | TPP_MLP_SEPARATE_GATE;
    tpp_status status = tpp__sized_read(&desc, sizeof desc, flags, given, "desc");
    if (status == TPP_OK)
        status = check_desc(&desc);
    if (status == TPP_OK)
        status = tpp__layer_new(&layer, env, sizeof(mlp), &tpp__mlp_ops, 6, 0);
    if (status != TPP_OK)
        return tpp__layer_hand_over(out, NULL, status);
    status = tpp__check_blocks(layer, "desc.ffn", desc.ffn);
    if (status == TPP_OK)
        fill(layer, &desc);
    return tpp__layer_hand_over(out, layer, status);
}
