/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/attention_impl.h"

#include <stdio.h>

static tpp_status check_heads(tpp_attention_desc *desc) {
    tpp_status status = tpp__check_positive("desc.heads", desc->heads);
    if (status == TPP_OK && desc->head_cols < 0)
        status = tpp__check_positive("desc.head_cols", desc->head_cols);
    if (status == TPP_OK && desc->head_cols == 0 && desc->hidden % desc->heads != 0)
        status = tpp__fail(TPP_ERR_INVALID,
                           "desc.heads = %d does not divide desc.hidden = %lld; set desc.head_cols",
                           desc->heads, (long long)desc->hidden);
    if (status == TPP_OK && desc->head_cols == 0)
        desc->head_cols = (int32_t)(desc->hidden / desc->heads);
    int64_t cols = (int64_t)desc->heads * desc->head_cols;
    if (status == TPP_OK && cols > INT32_MAX / 3) /* Q, K and V side by side must suit BLAS */
        status = tpp__fail(TPP_ERR_INVALID,
                           "desc.heads x desc.head_cols = %lld is too wide; accepted: 1 .. %d",
                           (long long)cols, INT32_MAX / 3);
    return status;
}

static tpp_status check_kv_heads(tpp_attention_desc *desc) {
    if (desc->kv_heads == 0)
        desc->kv_heads = desc->heads;
    if (desc->kv_heads > 0 && desc->heads % desc->kv_heads == 0)
        return TPP_OK;
    char accepted[160];
    tpp__divisors(desc->heads, accepted, sizeof accepted);
    return tpp__fail(TPP_ERR_INVALID,
                     "desc.kv_heads = %d does not divide desc.heads = %d; accepted: 0 (heads), %s",
                     desc->kv_heads, desc->heads, accepted);
}

static tpp_status check_desc(tpp_attention_desc *desc) {
    tpp_status status = tpp__check_positive("desc.hidden", desc->hidden);
    if (status == TPP_OK)
        status = check_heads(desc);
    if (status == TPP_OK)
        status = check_kv_heads(desc);
    if (status == TPP_OK)
        status = tpp__check_std("desc.init_std", desc->init_std, 0.02, &desc->init_std);
    if (status == TPP_OK)
        status = tpp__check_std("desc.out_std", desc->out_std, desc->init_std, &desc->out_std);
    return status;
}

/* Blocks that these heads can be cut into: each has whole query heads, and whole K/V heads or one
 * that its neighbours share. */
static bool fits(const tpp_attention_desc *desc, int32_t blocks) {
    return desc->heads % blocks == 0 &&
           (desc->kv_heads % blocks == 0 || blocks % desc->kv_heads == 0);
}

static tpp_status check_blocks(const tpp_layer *layer, const tpp_attention_desc *desc) {
    if (desc->kv_heads == desc->heads && !(layer->env.flags & TPP_ENV_UNEVEN))
        return tpp__check_blocks(layer, "desc.heads", desc->heads);
    if (fits(desc, layer->blocks))
        return TPP_OK;
    char accepted[160] = "";
    int used = 0;
    for (int32_t n = 1; n <= desc->heads && used < (int)sizeof accepted - 16; n++)
        if (fits(desc, n))
            used += snprintf(accepted + used, sizeof accepted - (size_t)used, "%s%d",
                             used ? ", " : "", n);
    return tpp__fail(
        TPP_ERR_INVALID,
        "desc.heads = %d with desc.kv_heads = %d cannot be split into %s = %d; they allow: %s",
        desc->heads, desc->kv_heads, layer->blocks != layer->ranks ? "blocks" : "tp", layer->blocks,
        accepted);
}

/* A projection's weight, or its bias when rows is 1. */
static void add_projection(tpp_layer *layer, const char *name, int64_t rows, int64_t cols,
                           int32_t copies, double std) {
    tpp__layer_add_param(layer, name, tpp__shard_copied(layer, rows, cols, TPP_AXIS_COLS, copies),
                         std > 0 ? TPP_INIT_NORMAL : TPP_INIT_ZERO, std,
                         std > 0 ? 0 : TPP_PARAM_NO_DECAY);
}

static void add_fused(tpp_layer *layer, const tpp_attention_desc *desc, bool bias) {
    int64_t cols = 3 * (int64_t)desc->heads * desc->head_cols;
    if (bias)
        tpp__layer_add_param(layer, "qkv.bias",
                             tpp__shard_axis(layer, 1, cols, TPP_AXIS_COLS, 3, cols), TPP_INIT_ZERO,
                             0, TPP_PARAM_NO_DECAY);
    else
        tpp__layer_add_param(layer, "qkv.weight",
                             tpp__shard_axis(layer, desc->hidden, cols, TPP_AXIS_COLS, 3, cols),
                             TPP_INIT_NORMAL, desc->init_std, 0);
}

static void add_separate(tpp_layer *layer, const tpp_attention_desc *desc, bool bias) {
    static const char *const names[2][TPP__QKV] = {{"q.weight", "k.weight", "v.weight"},
                                                   {"q.bias", "k.bias", "v.bias"}};
    int32_t copies = layer->blocks > desc->kv_heads ? layer->blocks / desc->kv_heads : 1;
    for (int32_t i = 0; i < TPP__QKV; i++) {
        int64_t heads = i == TPP__Q ? desc->heads : desc->kv_heads;
        add_projection(layer, names[bias][i], bias ? 1 : desc->hidden, heads * desc->head_cols,
                       i == TPP__Q ? 1 : copies, bias ? 0 : desc->init_std);
    }
}

static void add_params(tpp_layer *layer, const tpp_attention_desc *desc) {
    bool fused = desc->kv_heads == desc->heads;
    int64_t h = desc->hidden, cols = (int64_t)desc->heads * desc->head_cols;
    (fused ? add_fused : add_separate)(layer, desc, false);
    tpp__layer_add_param(layer, "out.weight",
                         tpp__shard_axis(layer, cols, h, TPP_AXIS_ROWS, 1, cols), TPP_INIT_NORMAL,
                         desc->out_std, 0);
    if (desc->flags & TPP_ATTENTION_NO_BIAS)
        return;
    (fused ? add_fused : add_separate)(layer, desc, true);
    tpp__layer_add_param(layer, "out.bias", tpp__shard_whole(1, h), TPP_INIT_ZERO, 0,
                         TPP_PARAM_NO_DECAY);
}

static void fill(tpp_layer *layer, const tpp_attention_desc *desc) {
    tpp__attention_layer *self = (tpp__attention_layer *)layer;
    int32_t blocks = layer->blocks;
    self->projections = desc->kv_heads == desc->heads ? 1 : TPP__QKV;
    self->heads = desc->heads / layer->ranks;
    self->kv_heads = desc->kv_heads >= blocks ? desc->kv_heads / layer->ranks : layer->count;
    self->head_cols = desc->head_cols;
    layer->in_cols = layer->out_cols = desc->hidden;
    add_params(layer, desc);
}

tpp_status tpp_attention_create(tpp_layer **out, const tpp_layer_env *env,
                                const tpp_attention_desc *given) {
    tpp_attention_desc desc;
    tpp_layer *layer;
    tpp_status status = tpp__sized_read(&desc, sizeof desc, TPP_ATTENTION_NO_BIAS, given, "desc");
    if (status == TPP_OK)
        status = check_desc(&desc);
    if (status == TPP_OK)
        status =
            tpp__layer_new(&layer, env, sizeof(tpp__attention_layer), &tpp__attention_ops, 8, 0);
    if (status != TPP_OK)
        return tpp__layer_hand_over(out, NULL, status);
    status = check_blocks(layer, &desc);
    if (status == TPP_OK)
        fill(layer, &desc);
    return tpp__layer_hand_over(out, layer, status);
}
