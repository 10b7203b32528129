/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/tp_parts.h"

#include <stdio.h>

ref_size tp_size_of(const tp_full *full) {
    ref_size s = {0};
    s.batch = full->batch;
    s.seq = full->seq;
    s.past = full->past;
    s.epsilon = (ref_real)1e-5;
    s.act = REF_GELU_TANH;
    return s;
}

tpp_layer_env tp_uneven(const tpp_layer_env *env) {
    tpp_layer_env uneven = *env;
    uneven.flags |= TPP_ENV_UNEVEN;
    return uneven;
}

/* linear.h */

static tpp_status linear_create(tpp_layer **out, const tpp_layer_env *env, const void *desc) {
    return tpp_linear_create(out, env, desc);
}

static void linear_describe(const void *desc, tp_full *full) {
    const tpp_linear_desc *d = desc;
    full->in_cols = d->in;
    full->out_cols = d->out;
    full->in_split = d->kind == TPP_LINEAR_ROW;
    full->out_split = d->kind == TPP_LINEAR_COLUMN;
    full->out_low = (d->flags & TPP_LINEAR_PAD) != 0;
    tp_add_param(full, "", "weight", d->in, d->out);
    if (!(d->flags & TPP_LINEAR_NO_BIAS))
        tp_add_param(full, "", "bias", 1, d->out);
}

static void linear_reference(const void *desc, tp_full *full) {
    const tpp_linear_desc *d = desc;
    const ref_real *weight = tp_value(full, "", "weight");
    ref_linear_forward(full->tokens, d->in, d->out, full->in, weight, tp_value(full, "", "bias"),
                       full->out);
    ref_linear_backward(full->tokens, d->in, d->out, full->in, weight, full->grad_out,
                        full->grad_in, tp_grad(full, "", "weight"), tp_grad(full, "", "bias"));
}

static tpp_status linear_uneven(tpp_layer **out, const tpp_layer_env *env, const void *desc) {
    tpp_layer_env uneven = tp_uneven(env);
    return tpp_linear_create(out, &uneven, desc);
}

const tp_kind tp_kind_linear = {linear_create, linear_describe, linear_reference};
const tp_kind tp_kind_linear_uneven = {linear_uneven, linear_describe, linear_reference};

/* mlp.h */

static tpp_status mlp_create(tpp_layer **out, const tpp_layer_env *env, const void *desc) {
    return tpp_mlp_create(out, env, desc);
}

int tp_act_of(tpp_act act) {
    static const struct {
        tpp_act act;
        int ref;
    } map[] = {{TPP_ACT_GELU_ERF, REF_GELU_ERF}, {TPP_ACT_RELU, REF_RELU},
               {TPP_ACT_SILU, REF_SILU},         {TPP_ACT_SQUARED_RELU, REF_SQUARED_RELU},
               {TPP_ACT_SWIGLU, REF_SWIGLU},     {TPP_ACT_GEGLU, REF_GEGLU}};
    for (size_t i = 0; i < sizeof map / sizeof *map; i++) {
        if (map[i].act == act)
            return map[i].ref;
    }
    return REF_GELU_TANH;
}

static void first_params(tp_full *full, const char *prefix, const char *name, int64_t hidden,
                         int64_t cols, int bias) {
    char whole[TP_NAME];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    tp_add_param(full, whole, "weight", hidden, cols);
    if (bias)
        tp_add_param(full, whole, "bias", 1, cols);
}

void tp_mlp_params(tp_full *full, const char *prefix, const tpp_mlp_desc *d) {
    int64_t ffn = d->ffn ? d->ffn : 4 * d->hidden;
    int bias = !(d->flags & TPP_MLP_NO_BIAS);
    int gated = d->act == TPP_ACT_SWIGLU || d->act == TPP_ACT_GEGLU;
    int separate = (d->flags & TPP_MLP_SEPARATE_GATE) != 0;
    if (separate)
        first_params(full, prefix, "gate.", d->hidden, ffn, bias);
    first_params(full, prefix, "up.", d->hidden, gated && !separate ? 2 * ffn : ffn, bias);
    tp_add_param(full, prefix, "down.weight", ffn, d->hidden);
    if (bias)
        tp_add_param(full, prefix, "down.bias", 1, d->hidden);
}

ref_mlp tp_mlp_of(const tp_full *full, const char *prefix, tp_lookup get) {
    return (ref_mlp){get(full, prefix, "gate.weight"), get(full, prefix, "gate.bias"),
                     get(full, prefix, "up.weight"),   get(full, prefix, "up.bias"),
                     get(full, prefix, "down.weight"), get(full, prefix, "down.bias")};
}

static void mlp_describe(const void *desc, tp_full *full) {
    const tpp_mlp_desc *d = desc;
    full->in_cols = full->out_cols = d->hidden;
    tp_mlp_params(full, "", d);
}

static void mlp_reference(const void *desc, tp_full *full) {
    const tpp_mlp_desc *d = desc;
    ref_size s = tp_size_of(full);
    s.hidden = d->hidden;
    s.ffn = d->ffn ? d->ffn : 4 * d->hidden;
    s.act = tp_act_of(d->act);
    ref_mlp p = tp_mlp_of(full, "", tp_value);
    ref_mlp g = tp_mlp_of(full, "", tp_grad);
    ref_mlp_forward(&s, &p, full->in, full->out);
    ref_mlp_backward(&s, &p, full->in, full->grad_out, full->grad_in, &g);
}

static tpp_status mlp_uneven(tpp_layer **out, const tpp_layer_env *env, const void *desc) {
    tpp_layer_env uneven = tp_uneven(env);
    return tpp_mlp_create(out, &uneven, desc);
}

const tp_kind tp_kind_mlp = {mlp_create, mlp_describe, mlp_reference};
const tp_kind tp_kind_mlp_uneven = {mlp_uneven, mlp_describe, mlp_reference};

/* attention.h */

static tpp_status attention_create(tpp_layer **out, const tpp_layer_env *env, const void *desc) {
    return tpp_attention_create(out, env, desc);
}

static int one_projection(const tpp_attention_desc *d) {
    return (d->kv_heads == 0 || d->kv_heads == d->heads) &&
           !(d->flags & (TPP_ATTENTION_SEPARATE_QKV | TPP_ATTENTION_QK_NORM));
}

static int64_t head_cols_of(const tpp_attention_desc *d) {
    return d->head_cols ? d->head_cols : d->hidden / d->heads;
}

/* Weights of Q, K and V, or with rows 1 their biases. */
static void qkv_params(tp_full *full, const char *prefix, const tpp_attention_desc *d,
                       const char *const names[4], int64_t rows) {
    int64_t cols = d->heads * head_cols_of(d);
    if (one_projection(d)) {
        tp_add_param(full, prefix, names[0], rows, 3 * cols);
        return;
    }
    for (int i = 0; i < 3; i++)
        tp_add_param(full, prefix, names[1 + i], rows,
                     i == 0 || d->kv_heads == 0 ? cols : d->kv_heads * head_cols_of(d));
}

void tp_attention_params(tp_full *full, const char *prefix, const tpp_attention_desc *d) {
    static const char *const weights[] = {"qkv.weight", "q.weight", "k.weight", "v.weight"};
    static const char *const biases[] = {"qkv.bias", "q.bias", "k.bias", "v.bias"};
    int bare = (d->flags & TPP_ATTENTION_NO_BIAS) != 0;
    qkv_params(full, prefix, d, weights, d->hidden);
    tp_add_param(full, prefix, "out.weight", d->heads * head_cols_of(d), d->hidden);
    if (d->flags & TPP_ATTENTION_QK_NORM) {
        tp_add_param(full, prefix, "q_norm.weight", 1, head_cols_of(d));
        tp_add_param(full, prefix, "k_norm.weight", 1, head_cols_of(d));
    }
    if (!bare || d->flags & TPP_ATTENTION_QKV_BIAS)
        qkv_params(full, prefix, d, biases, 1);
    if (!bare)
        tp_add_param(full, prefix, "out.bias", 1, d->hidden);
}

ref_attention tp_attention_of(const tp_full *full, const char *prefix, tp_lookup get) {
    return (ref_attention){
        get(full, prefix, "qkv.weight"),
        get(full, prefix, "qkv.bias"),
        get(full, prefix, "out.weight"),
        get(full, prefix, "out.bias"),
        {get(full, prefix, "q.weight"), get(full, prefix, "k.weight"),
         get(full, prefix, "v.weight")},
        {get(full, prefix, "q.bias"), get(full, prefix, "k.bias"), get(full, prefix, "v.bias")},
        {get(full, prefix, "q_norm.weight"), get(full, prefix, "k_norm.weight")}};
}

static void rope_size(const tpp_rope_desc *rope, ref_size *s) {
    s->rope_theta = rope->theta > 0 ? (ref_real)rope->theta : 10000;
    s->rope_cols = rope->cols;
    s->rope_interleaved = (rope->flags & TPP_ROPE_INTERLEAVED) != 0;
    if (rope->scaling != TPP_ROPE_PLAIN)
        s->rope_factor = (ref_real)rope->factor;
    if (rope->scaling == TPP_ROPE_LLAMA3) {
        s->rope_low = (ref_real)rope->low_freq_factor;
        s->rope_high = (ref_real)rope->high_freq_factor;
        s->rope_original = (ref_real)rope->original_positions;
    }
}

ref_size tp_attention_size(const tpp_attention_desc *d, const tp_full *full) {
    ref_size s = tp_size_of(full);
    s.hidden = d->hidden;
    s.heads = d->heads;
    s.head_cols = head_cols_of(d);
    s.kv_heads = d->kv_heads;
    s.window = d->window;
    s.full = (d->flags & TPP_ATTENTION_FULL) != 0;
    if (d->norm_epsilon > 0)
        s.epsilon = (ref_real)d->norm_epsilon;
    if (d->rope)
        rope_size(d->rope, &s);
    return s;
}

static void attention_describe(const void *desc, tp_full *full) {
    const tpp_attention_desc *d = desc;
    full->in_cols = full->out_cols = d->hidden;
    tp_attention_params(full, "", d);
}

static void attention_reference(const void *desc, tp_full *full) {
    const tpp_attention_desc *d = desc;
    ref_size s = tp_attention_size(d, full);
    ref_attention p = tp_attention_of(full, "", tp_value);
    ref_attention g = tp_attention_of(full, "", tp_grad);
    ref_attention_forward(&s, &p, full->in, full->out);
    ref_attention_backward(&s, &p, full->in, full->grad_out, full->grad_in, &g);
}

const tp_kind tp_kind_attention = {attention_create, attention_describe, attention_reference};

/* norm.h */

static tpp_status norm_create(tpp_layer **out, const tpp_layer_env *env, const void *desc) {
    return tpp_norm_create(out, env, desc);
}

void tp_norm_params(tp_full *full, const char *prefix, int64_t cols, int bias) {
    tp_add_param(full, prefix, "weight", 1, cols);
    if (bias)
        tp_add_param(full, prefix, "bias", 1, cols);
}

ref_norm tp_norm_of(const tp_full *full, const char *prefix, tp_lookup get) {
    return (ref_norm){get(full, prefix, "weight"), get(full, prefix, "bias"), 0};
}

static void norm_describe(const void *desc, tp_full *full) {
    const tpp_norm_desc *d = desc;
    full->in_cols = full->out_cols = d->cols;
    tp_norm_params(full, "", d->cols, d->kind == TPP_NORM_LAYER && !(d->flags & TPP_NORM_NO_BIAS));
}

static void norm_reference(const void *desc, tp_full *full) {
    const tpp_norm_desc *d = desc;
    ref_real epsilon = (ref_real)(d->epsilon > 0 ? d->epsilon : 1e-5);
    ref_norm p = tp_norm_of(full, "", tp_value);
    p.rms = d->kind == TPP_NORM_RMS;
    ref_norm g = tp_norm_of(full, "", tp_grad);
    ref_norm_forward(full->tokens, d->cols, epsilon, &p, full->in, full->out);
    ref_norm_backward(full->tokens, d->cols, epsilon, &p, full->in, full->grad_out, full->grad_in,
                      &g);
}

const tp_kind tp_kind_norm = {norm_create, norm_describe, norm_reference};
