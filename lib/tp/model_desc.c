/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/model_desc.h"

#include "base/check.h"
#include "tp/layer_impl.h"

#include <math.h>
#include <tpp/mlp.h>
#include <tpp/norm.h>

tpp_status tpp_model_family_set(tpp_model_desc *model, tpp_family family) {
    const uint32_t llama = TPP_BLOCK_NO_BIAS | TPP_BLOCK_SEPARATE_GATE | TPP_BLOCK_SEPARATE_QKV;
    static const uint32_t more[] = {
        [TPP_FAMILY_QWEN2] = TPP_BLOCK_QKV_BIAS, [TPP_FAMILY_QWEN3] = TPP_BLOCK_QK_NORM};
    tpp_model_desc m;
    tpp_status status = tpp__sized_read(&m, sizeof m, TPP_MODEL_TIED, model, "model");
    if (status == TPP_OK && (family < TPP_FAMILY_GPT2 || family > TPP_FAMILY_QWEN3))
        status = tpp__fail(TPP_ERR_INVALID,
                           "family = %d is not accepted; accepted: 0 (GPT-2), 1 (Llama), 2 "
                           "(Mistral), 3 (Qwen2), 4 (Qwen3)",
                           family);
    if (status != TPP_OK)
        return status;
    bool gpt2 = family == TPP_FAMILY_GPT2;
    m.family = family;
    m.block_flags = gpt2 ? 0 : llama | more[family];
    m.act = gpt2 ? TPP_ACT_GELU_TANH : TPP_ACT_SWIGLU;
    m.norm = gpt2 ? TPP_NORM_LAYER : TPP_NORM_RMS;
    m.epsilon = gpt2 ? 1e-5 : 1e-6;
    m.rope_theta = gpt2 ? 0 : 10000;
    m.positions = gpt2 ? m.max_positions : 0;
    return tpp__sized_write(model, &m, sizeof m, "model");
}

static tpp_status at_least(const char *field, int64_t value, int64_t least) {
    if (value >= least)
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID, "model.%s = %lld is not accepted; accepted: %lld or more",
                     field, (long long)value, (long long)least);
}

static tpp_status check_sizes(const tpp_model_desc *m) {
    const struct {
        const char *field;
        int64_t value, least;
    } rules[] = {
        {"vocab", m->vocab, 1},
        {"hidden", m->hidden, 1},
        {"ffn", m->ffn, 0},
        {"positions", m->positions, 0},
        {"max_positions", m->max_positions, 0},
        {"window", m->window, 0},
        {"window_first", m->window_first, 0},
        {"layers", m->layers, 1},
        {"heads", m->heads, 1},
        {"kv_heads", m->kv_heads, 0},
        {"head_cols", m->head_cols, 0},
    };
    tpp_status status = TPP_OK;
    for (size_t i = 0; i < sizeof rules / sizeof *rules && status == TPP_OK; i++)
        status = at_least(rules[i].field, rules[i].value, rules[i].least);
    return status;
}

static tpp_status check_heads(const tpp_model_desc *m) {
    char accepted[160];
    if (m->head_cols == 0 && m->hidden % m->heads != 0)
        return tpp__fail(
            TPP_ERR_INVALID,
            "model.heads = %d does not divide model.hidden = %lld; set model.head_cols", m->heads,
            (long long)m->hidden);
    tpp__divisors(m->heads, accepted, sizeof accepted);
    if (m->kv_heads > 0 && m->heads % m->kv_heads != 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "model.kv_heads = %d does not divide model.heads = %d; accepted: 0 "
                         "(heads), %s",
                         m->kv_heads, m->heads, accepted);
    return TPP_OK;
}

tpp_status tpp__model_read(tpp_model_desc *out, const tpp_model_desc *given) {
    tpp_status status = tpp__sized_read(out, sizeof *out, TPP_MODEL_TIED, given, "model");
    if (status == TPP_OK)
        status = check_sizes(out);
    if (status == TPP_OK)
        status = check_heads(out);
    if (status == TPP_OK)
        status = tpp__check_std("model.init_std", out->init_std, 0.02, &out->init_std);
    if (status == TPP_OK)
        status = tpp__check_std("model.out_std", out->out_std,
                                out->init_std / sqrt(2.0 * out->layers), &out->out_std);
    if (status == TPP_OK)
        status = tpp__check_std("model.rope_theta", out->rope_theta, 0, &out->rope_theta);
    if (status == TPP_OK && out->ffn == 0 && !tpp__mul(4, out->hidden, &out->ffn))
        status =
            tpp__fail(TPP_ERR_OVERFLOW, "model.hidden = %lld does not fit", (long long)out->hidden);
    if (status != TPP_OK)
        return status;
    if (out->kv_heads == 0)
        out->kv_heads = out->heads;
    if (out->head_cols == 0)
        out->head_cols = (int32_t)(out->hidden / out->heads);
    return TPP_OK;
}

/* Flags of a model in cost.h's words. */
static uint32_t cost_flags(const tpp_model_desc *m) {
    static const struct {
        uint32_t block, cost;
    } same[] = {
        {TPP_BLOCK_NO_BIAS, TPP_COST_NO_BIAS},     {TPP_BLOCK_QKV_BIAS, TPP_COST_QKV_BIAS},
        {TPP_BLOCK_OUT_BIAS, TPP_COST_OUT_BIAS},   {TPP_BLOCK_MLP_BIAS, TPP_COST_MLP_BIAS},
        {TPP_BLOCK_QK_NORM, TPP_COST_QK_NORM},     {TPP_BLOCK_PARALLEL, TPP_COST_PARALLEL_BLOCK},
        {TPP_BLOCK_TWO_NORMS, TPP_COST_TWO_NORMS},
    };
    uint32_t flags = m->flags & TPP_MODEL_TIED ? TPP_COST_TIED : 0;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        flags |= m->block_flags & same[i].block ? same[i].cost : 0;
    if (m->act >= TPP_ACT_SWIGLU)
        flags |= TPP_COST_GATED;
    if (m->norm != TPP_NORM_LAYER || (m->block_flags & TPP_BLOCK_NO_BIAS))
        flags |= TPP_COST_RMS_NORM; /* one vector: no bias */
    return flags;
}

tpp_status tpp_model_cost(const tpp_model_desc *model, tpp_cost_model *out) {
    tpp_model_desc m;
    tpp_status status = tpp__model_read(&m, model);
    if (status != TPP_OK)
        return status;
    const tpp_cost_model cost = {.size = sizeof cost,
                                 .flags = cost_flags(&m),
                                 .vocab = m.vocab,
                                 .hidden = m.hidden,
                                 .ffn = m.ffn,
                                 .positions = m.positions,
                                 .window = m.window,
                                 .layers = m.layers,
                                 .heads = m.heads,
                                 .kv_heads = m.kv_heads,
                                 .head_cols = m.head_cols,
                                 .window_first = m.window_first};
    return tpp__sized_write(out, &cost, sizeof cost, "out");
}

tpp_status tpp_model_params(const tpp_model_desc *model, int64_t *out) {
    tpp_cost_model cost = {.size = sizeof cost};
    tpp_cost_params params = {.size = sizeof params};
    tpp_status status = tpp_model_cost(model, &cost);
    if (status == TPP_OK)
        status = tpp_cost_params_query(&cost, &params);
    if (status != TPP_OK)
        return status;
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a number");
    *out = params.total;
    return TPP_OK;
}
