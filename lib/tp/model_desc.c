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

/* A sum of products; overflow is sticky. */
typedef struct sum {
    int64_t value;
    bool overflow;
} sum;

static void add(sum *s, int64_t a, int64_t b) {
    int64_t product = 0;
    s->overflow |= !tpp__mul(a, b, &product) || !tpp__add(s->value, product, &s->value);
}

/* Has a bias that NO_BIAS takes away, but for an exception. */
static bool biased(const tpp_model_desc *m, uint32_t exception) {
    return !(m->block_flags & TPP_BLOCK_NO_BIAS) || (m->block_flags & exception);
}

/* Of a block. */
static int64_t norms_of(const tpp_model_desc *m) {
    bool one = (m->block_flags & TPP_BLOCK_PARALLEL) && !(m->block_flags & TPP_BLOCK_TWO_NORMS);
    return one ? 1 : 2;
}

static int64_t vectors_of_norm(const tpp_model_desc *m) {
    return m->norm == TPP_NORM_LAYER && biased(m, 0) ? 2 : 1;
}

/* The numbers of a block. */
static sum count_block(const tpp_model_desc *m) {
    int64_t q = (int64_t)m->heads * m->head_cols, kv = (int64_t)m->kv_heads * m->head_cols;
    int64_t ups = m->act >= TPP_ACT_SWIGLU ? 2 : 1; /* gate and up */
    sum s = {0};
    add(&s, m->hidden, q + 2 * kv);
    add(&s, q, m->hidden);
    add(&s, biased(m, TPP_BLOCK_QKV_BIAS), q + 2 * kv);
    add(&s, biased(m, TPP_BLOCK_OUT_BIAS), m->hidden);
    add(&s, m->block_flags & TPP_BLOCK_QK_NORM ? 2 : 0, m->head_cols);
    for (int64_t i = 0; i <= ups; i++) /* and down */
        add(&s, m->hidden, m->ffn);
    add(&s, biased(m, TPP_BLOCK_MLP_BIAS) ? ups : 0, m->ffn);
    add(&s, biased(m, TPP_BLOCK_MLP_BIAS), m->hidden);
    add(&s, norms_of(m) * vectors_of_norm(m), m->hidden);
    return s;
}

tpp_status tpp_model_params(const tpp_model_desc *given, int64_t *out) {
    tpp_model_desc m;
    tpp_status status = tpp__model_read(&m, given);
    if (status == TPP_OK && !out)
        status = tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a number");
    if (status != TPP_OK)
        return status;
    sum block = count_block(&m), s = {.overflow = block.overflow};
    add(&s, m.vocab, m.hidden);
    add(&s, m.positions, m.hidden);
    add(&s, m.layers, block.value);
    add(&s, vectors_of_norm(&m), m.hidden);
    if (!(m.flags & TPP_MODEL_TIED))
        add(&s, m.vocab, m.hidden);
    if (s.overflow)
        return tpp__fail(TPP_ERR_OVERFLOW, "the model's parameters do not fit into 64 bits");
    *out = s.value;
    return TPP_OK;
}
