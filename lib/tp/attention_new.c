/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/attention_context.h"

static tpp__attention_layer *attention_of(tpp_layer *layer) {
    return (tpp__attention_layer *)layer;
}

static int32_t add_weight(tpp_layer *layer, const char *name, tpp_shard shard, double std) {
    tpp__layer_add_param(layer, name, shard, TPP_INIT_NORMAL, std, 0);
    return layer->param_count - 1;
}

static int32_t add_bias(tpp_layer *layer, const char *name, tpp_shard shard) {
    tpp__layer_add_param(layer, name, shard, TPP_INIT_ZERO, 0, TPP_PARAM_NO_DECAY);
    return layer->param_count - 1;
}

/* The map of projection `index`, of its weight or, with one row, its bias. */
static tpp_shard shard_of(const tpp_layer *layer, const tpp_attention_desc *desc, int32_t index,
                          int64_t rows) {
    const tpp__attention_layer *self = (const tpp__attention_layer *)layer;
    int64_t cols = self->heads * layer->ranks * desc->head_cols;
    int64_t valid = (int64_t)desc->heads * desc->head_cols;
    if (self->projections == 1)
        return tpp__shard_axis(layer, rows, 3 * cols, TPP_AXIS_COLS, 3, 3 * valid);
    if (index == TPP__Q)
        return tpp__shard_axis(layer, rows, cols, TPP_AXIS_COLS, 1, valid);
    valid = (int64_t)desc->kv_heads * desc->head_cols;
    if (self->copies > 1)
        return tpp__shard_copied(layer, rows, valid, TPP_AXIS_COLS, self->copies);
    cols = self->kv_heads * layer->ranks * desc->head_cols;
    return tpp__shard_axis(layer, rows, cols, TPP_AXIS_COLS, 1, valid);
}

static void add_weights(tpp_layer *layer, const tpp_attention_desc *desc) {
    static const char *const names[TPP__QKV] = {"q.weight", "k.weight", "v.weight"};
    tpp__attention_layer *self = attention_of(layer);
    int64_t rows = self->heads * layer->ranks * desc->head_cols;
    int64_t valid = (int64_t)desc->heads * desc->head_cols;
    for (int32_t i = 0; i < TPP__QKV && i < self->projections; i++)
        self->weight[i] = add_weight(layer, self->projections == 1 ? "qkv.weight" : names[i],
                                     shard_of(layer, desc, i, desc->hidden), desc->init_std);
    self->out = add_weight(layer, "out.weight",
                           tpp__shard_axis(layer, rows, desc->hidden, TPP_AXIS_ROWS, 1, valid),
                           desc->out_std);
}

/* Weights of the norms of Q's and K's heads: one for all heads, of which every block has a copy, so
 * that its gradient is summed like that of copied heads. */
static void add_norms(tpp_layer *layer, const tpp_attention_desc *desc) {
    static const char *const names[2] = {"q_norm.weight", "k_norm.weight"};
    for (int32_t i = TPP__Q; i <= TPP__K; i++) {
        tpp__layer_add_param(
            layer, names[i],
            tpp__shard_copied(layer, 1, desc->head_cols, TPP_AXIS_COLS, layer->blocks),
            TPP_INIT_ONE, 0, TPP_PARAM_NO_DECAY);
        attention_of(layer)->norm[i] = layer->param_count - 1;
    }
}

static void add_biases(tpp_layer *layer, const tpp_attention_desc *desc) {
    static const char *const names[TPP__QKV] = {"q.bias", "k.bias", "v.bias"};
    tpp__attention_layer *self = attention_of(layer);
    bool none = desc->flags & TPP_ATTENTION_NO_BIAS;
    bool qkv = !none || desc->flags & TPP_ATTENTION_QKV_BIAS;
    for (int32_t i = 0; i < TPP__QKV && i < self->projections && qkv; i++)
        self->bias[i] = add_bias(layer, self->projections == 1 ? "qkv.bias" : names[i],
                                 shard_of(layer, desc, i, 1));
    if (!none)
        self->out_bias = add_bias(layer, "out.bias", tpp__shard_whole(1, desc->hidden));
}

/* Heads of this rank, and how Q, K and V are stored. */
static tpp_status fill_heads(tpp_layer *layer, const tpp_attention_desc *desc) {
    tpp__attention_layer *self = attention_of(layer);
    int64_t heads, kv_heads;
    tpp_status status = tpp__attention_split_heads(layer, desc, &heads, &kv_heads);
    if (status != TPP_OK)
        return status;
    bool separate = desc->kv_heads != desc->heads ||
                    desc->flags & (TPP_ATTENTION_SEPARATE_QKV | TPP_ATTENTION_QK_NORM);
    self->projections = separate ? TPP__QKV : 1;
    self->heads = heads / layer->ranks;
    self->copies = kv_heads < layer->blocks ? (int32_t)(layer->blocks / kv_heads) : 1;
    self->kv_heads = self->copies > 1 ? layer->count : kv_heads / layer->ranks;
    self->context = desc->context;
    return tpp__attention_check_context(layer);
}

static void fill(tpp_layer *layer, const tpp_attention_desc *desc, const tpp_rope_desc *rope,
                 void *rope_memory) {
    tpp__attention_layer *self = attention_of(layer);
    self->head_cols = desc->head_cols;
    self->full = desc->flags & TPP_ATTENTION_FULL;
    self->window = desc->window;
    self->normed = desc->flags & TPP_ATTENTION_QK_NORM;
    self->epsilon = desc->norm_epsilon;
    if (rope->cols > 0)
        self->rope = tpp__rope_over(rope, rope_memory);
    for (int32_t i = 0; i < TPP__QKV; i++)
        self->weight[i] = self->bias[i] = TPP__NO_PARAM;
    self->norm[TPP__Q] = self->norm[TPP__K] = self->out_bias = TPP__NO_PARAM;
    layer->in_cols = layer->out_cols = desc->hidden;
    layer->in_part = layer->out_part = layer->sequence;
    add_weights(layer, desc);
    if (self->normed)
        add_norms(layer, desc);
    add_biases(layer, desc);
}

tpp_status tpp_attention_create(tpp_layer **out, const tpp_layer_env *env,
                                const tpp_attention_desc *given) {
    tpp_attention_desc desc;
    tpp_rope_desc rope;
    tpp_layer *layer;
    int64_t own = (sizeof(tpp__attention_layer) + TPP__ALIGN - 1) / TPP__ALIGN * TPP__ALIGN;
    tpp_status status = tpp__attention_read(given, &desc, &rope);
    if (status == TPP_OK)
        status = tpp__layer_new(&layer, env, own + tpp__rope_bytes(rope.cols), &tpp__attention_ops,
                                10, 0);
    if (status != TPP_OK)
        return tpp__layer_hand_over(out, NULL, status);
    status = fill_heads(layer, &desc);
    if (status == TPP_OK)
        fill(layer, &desc, &rope, (char *)layer + own);
    return tpp__layer_hand_over(out, layer, status);
}
