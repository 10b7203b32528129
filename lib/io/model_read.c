/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "io_support.h"
#include "model_json.h"

#include <stdio.h>
#include <string.h>
#include <tpp/io.h>
#include <tpp/mlp.h>

/* Hugging Face's config.json. What a field that is absent means is what that family's
 * configuration class of `transformers` takes. */

static const tpp__word families[] = {
    {"gpt2", TPP_FAMILY_GPT2},   {"llama", TPP_FAMILY_LLAMA}, {"mistral", TPP_FAMILY_MISTRAL},
    {"qwen2", TPP_FAMILY_QWEN2}, {"qwen3", TPP_FAMILY_QWEN3}, {NULL, 0},
};

static const tpp__word plain_acts[] = {
    {"gelu_new", TPP_ACT_GELU_TANH},
    {"gelu_pytorch_tanh", TPP_ACT_GELU_TANH},
    {"gelu_fast", TPP_ACT_GELU_TANH},
    {"gelu", TPP_ACT_GELU_ERF},
    {"relu", TPP_ACT_RELU},
    {"relu2", TPP_ACT_SQUARED_RELU},
    {"silu", TPP_ACT_SILU},
    {"swish", TPP_ACT_SILU},
    {NULL, 0},
};

static const tpp__word gated_acts[] = {
    {"silu", TPP_ACT_SWIGLU},
    {"swish", TPP_ACT_SWIGLU},
    {"gelu_new", TPP_ACT_GEGLU},
    {"gelu_pytorch_tanh", TPP_ACT_GEGLU},
    {NULL, 0},
};

static const tpp__word scalings[] = {
    {"default", TPP_ROPE_PLAIN},
    {"linear", TPP_ROPE_LINEAR},
    {"llama3", TPP_ROPE_LLAMA3},
    {NULL, 0},
};

/* What the classes of the Llama kind differ in. */
static const struct defaults {
    int32_t vocab, ffn, kv_heads /* 0: heads */, head_cols /* 0: hidden / heads */;
    int32_t max_positions, window;
} defaults_of[] = {
    [TPP_FAMILY_LLAMA] = {32000, 11008, 0, 0, 2048, 0},
    [TPP_FAMILY_MISTRAL] = {32000, 14336, 8, 0, 131072, 4096},
    [TPP_FAMILY_QWEN2] = {151936, 22016, 32, 0, 32768, 4096},
    [TPP_FAMILY_QWEN3] = {151936, 22016, 32, 128, 32768, 4096},
};
enum { QWEN_WINDOW_FIRST = 28 };

/* The architecture that a family's models have, beside the bare "<start>Model". */
static const char *const architectures[] = {
    [TPP_FAMILY_GPT2] = "GPT2LMHeadModel",       [TPP_FAMILY_LLAMA] = "LlamaForCausalLM",
    [TPP_FAMILY_MISTRAL] = "MistralForCausalLM", [TPP_FAMILY_QWEN2] = "Qwen2ForCausalLM",
    [TPP_FAMILY_QWEN3] = "Qwen3ForCausalLM",
};

static const char *word_of(const tpp__word *words, int32_t value) {
    while (words->text && words->value != value)
        words++;
    return words->text;
}

const char *tpp__family_word(tpp_family family) {
    return word_of(families, family);
}

const char *tpp__act_word(tpp_family family, int32_t act) {
    return word_of(family == TPP_FAMILY_GPT2 ? plain_acts : gated_acts, act);
}

const char *tpp__scaling_word(tpp_rope_scaling scaling) {
    return word_of(scalings, scaling);
}

const char *tpp__architecture(tpp_family family) {
    return architectures[family];
}

/* Is it the family's language model, or the same without a head? */
static bool is_architecture(const char *text, tpp_family family) {
    const char *whole = architectures[family];
    const char *end = family == TPP_FAMILY_GPT2 ? "LMHeadModel" : "ForCausalLM";
    size_t start = strlen(whole) - strlen(end);
    return strcmp(text, whole) == 0 ||
           (strncmp(text, whole, start) == 0 && strcmp(text + start, "Model") == 0);
}

static tpp_family read_family(tpp__fields *f) {
    const json_t *list = json_object_get(f->object, "architectures");
    const char *first = json_string_value(json_array_get(list, 0));
    if (!tpp__field_is(f, "model_type")) {
        for (tpp_family i = TPP_FAMILY_GPT2; first && i <= TPP_FAMILY_QWEN3; i++) {
            if (is_architecture(first, i))
                return i;
        }
        tpp__field_refuse(f, "model_type",
                          "\"gpt2\", \"llama\", \"mistral\", \"qwen2\", \"qwen3\"");
        return TPP_FAMILY_GPT2;
    }
    tpp_family family = tpp__field_word(f, "model_type", families, TPP_FAMILY_GPT2);
    if (f->status == TPP_OK && first && !is_architecture(first, family)) {
        char accepted[64];
        snprintf(accepted, sizeof accepted, "[\"%s\"]", architectures[family]);
        tpp__field_refuse(f, "architectures", accepted);
    }
    return family;
}

/* A field that is only accepted when it has its usual value. */
static void expect_bool(tpp__fields *f, const char *name, bool usual) {
    if (tpp__field_bool(f, name, usual) != usual)
        tpp__field_refuse(f, name, usual ? "true" : "false");
}

static void read_gpt2(tpp__fields *f, tpp_model_desc *m) {
    m->vocab = tpp__field_int(f, "vocab_size", 1, 50257);
    m->hidden = tpp__field_int(f, "n_embd", 1, 768);
    m->layers = (int32_t)tpp__field_int(f, "n_layer", 1, 12);
    m->heads = (int32_t)tpp__field_int(f, "n_head", 1, 12);
    m->ffn = tpp__field_int(f, "n_inner", 1, 4 * m->hidden);
    m->positions = m->max_positions = tpp__field_int(f, "n_positions", 1, 1024);
    m->act = tpp__field_word(f, "activation_function", plain_acts, TPP_ACT_GELU_TANH);
    m->epsilon = tpp__field_real(f, "layer_norm_epsilon", 1e-5);
    expect_bool(f, "scale_attn_weights", true);
    expect_bool(f, "scale_attn_by_inverse_layer_idx", false);
    expect_bool(f, "add_cross_attention", false);
    if (tpp__field_bool(f, "tie_word_embeddings", true))
        m->flags |= TPP_MODEL_TIED;
}

/* `f` are the fields that hold the scaling: an object of its own. */
static void read_scaling(tpp__fields *f, tpp_model_desc *m) {
    const char *name = tpp__field_is(f, "rope_type") ? "rope_type" : "type";
    m->rope_scaling = tpp__field_word(f, name, scalings, TPP_ROPE_PLAIN);
    if (m->rope_scaling == TPP_ROPE_PLAIN)
        return;
    m->rope_factor = tpp__field_real(f, "factor", 0);
    if (m->rope_factor < 1)
        tpp__field_refuse(f, "factor", "1 or more");
    if (m->rope_scaling == TPP_ROPE_LINEAR)
        return;
    static const char *const needed[] = {"low_freq_factor", "high_freq_factor",
                                         "original_max_position_embeddings"};
    for (int i = 0; i < 3; i++) {
        if (!tpp__field_is(f, needed[i]))
            tpp__field_refuse(f, needed[i], "a number above 0");
    }
    m->rope_low_freq_factor = tpp__field_real(f, needed[0], 0);
    m->rope_high_freq_factor = tpp__field_real(f, needed[1], 0);
    m->rope_original_positions = tpp__field_int(f, needed[2], 1, 0);
    if (m->rope_high_freq_factor <= m->rope_low_freq_factor)
        tpp__field_refuse(f, needed[1], "numbers above low_freq_factor");
}

/* The share of a head that is turned, a field of `f`. */
static void read_partial(tpp__fields *f, tpp_model_desc *m, int64_t head_cols) {
    if (!tpp__field_is(f, "partial_rotary_factor"))
        return;
    double share = tpp__field_real(f, "partial_rotary_factor", 1);
    int64_t cols = share <= 1 ? (int64_t)((double)head_cols * share) : 0;
    if (cols < 2 || cols % 2 != 0)
        tpp__field_refuse(f, "partial_rotary_factor",
                          "numbers to 1 that leave an even number of columns of a head");
    m->rope_cols = cols < head_cols ? (int32_t)cols : 0;
}

/* rope_theta and rope_scaling, or rope_parameters, which holds both. */
static void read_rope(tpp__fields *f, tpp_model_desc *m, int64_t head_cols) {
    const char *name = tpp__field_is(f, "rope_parameters") ? "rope_parameters" : "rope_scaling";
    tpp__fields inner = {json_object_get(f->object, name), f->path, NULL, f->status};
    inner.prefix = name[5] == 'p' ? "rope_parameters." : "rope_scaling.";
    m->rope_theta = tpp__field_real(f, "rope_theta", 10000);
    read_partial(f, m, head_cols);
    if (!tpp__field_is(f, name) || f->status != TPP_OK)
        return;
    if (!json_is_object(inner.object) || tpp__field_is(&inner, "full_attention")) {
        tpp__field_refuse(f, name, "null, or one object for all layers");
        return;
    }
    m->rope_theta = tpp__field_real(&inner, "rope_theta", m->rope_theta);
    read_partial(&inner, m, head_cols);
    read_scaling(&inner, m);
    f->status = inner.status;
}

/* The first block with a window: blocks before it must see all, those behind it not. */
static int32_t read_layer_types(tpp__fields *f, const tpp_model_desc *m, int32_t otherwise) {
    const json_t *list = json_object_get(f->object, "layer_types");
    if (!tpp__field_is(f, "layer_types") || f->status != TPP_OK)
        return otherwise;
    int32_t first = m->layers;
    bool good = json_is_array(list) && json_array_size(list) == (size_t)m->layers;
    for (int32_t i = 0; i < m->layers && good; i++) {
        const char *text = json_string_value(json_array_get(list, (size_t)i));
        bool window = text && strcmp(text, "sliding_attention") == 0;
        good = window || (text && strcmp(text, "full_attention") == 0 && first == m->layers);
        first = window && i < first ? i : first;
    }
    if (!good)
        tpp__field_refuse(f, "layer_types",
                          "one per layer, \"full_attention\" then \"sliding_attention\"");
    return first;
}

static void read_window(tpp__fields *f, tpp_model_desc *m) {
    bool mistral = m->family == TPP_FAMILY_MISTRAL;
    if (m->family == TPP_FAMILY_LLAMA)
        return;
    bool none = json_is_null(json_object_get(f->object, "sliding_window"));
    int64_t window = tpp__field_int(f, "sliding_window", 1, defaults_of[m->family].window);
    bool used = mistral || tpp__field_bool(f, "use_sliding_window", false);
    int32_t first = 0;
    if (!mistral)
        first = (int32_t)tpp__field_int(f, "max_window_layers", 0, QWEN_WINDOW_FIRST);
    first = read_layer_types(f, m, first);
    if (none || !used || first >= m->layers)
        return;
    m->window = window;
    m->window_first = first;
}

/* Biases that a field asks for. */
static void read_biases(tpp__fields *f, tpp_model_desc *m) {
    if (m->family == TPP_FAMILY_LLAMA || m->family == TPP_FAMILY_QWEN3) {
        if (tpp__field_bool(f, "attention_bias", false))
            m->block_flags |= TPP_BLOCK_QKV_BIAS | TPP_BLOCK_OUT_BIAS;
    } else if (m->family == TPP_FAMILY_MISTRAL) {
        expect_bool(f, "attention_bias", false);
    }
    if (m->family == TPP_FAMILY_LLAMA && tpp__field_bool(f, "mlp_bias", false))
        m->block_flags |= TPP_BLOCK_MLP_BIAS;
}

static void read_llama(tpp__fields *f, tpp_model_desc *m) {
    const struct defaults *d = &defaults_of[m->family];
    m->vocab = tpp__field_int(f, "vocab_size", 1, d->vocab);
    m->hidden = tpp__field_int(f, "hidden_size", 1, 4096);
    m->ffn = tpp__field_int(f, "intermediate_size", 1, d->ffn);
    m->layers = (int32_t)tpp__field_int(f, "num_hidden_layers", 1, 32);
    m->heads = (int32_t)tpp__field_int(f, "num_attention_heads", 1, 32);
    bool given = json_object_get(f->object, "num_key_value_heads"); /* null: as heads */
    int64_t kv_heads = given || d->kv_heads == 0 ? m->heads : d->kv_heads;
    m->kv_heads = (int32_t)tpp__field_int(f, "num_key_value_heads", 1, kv_heads);
    m->head_cols = (int32_t)tpp__field_int(f, "head_dim", 1, d->head_cols);
    m->max_positions = tpp__field_int(f, "max_position_embeddings", 1, d->max_positions);
    m->act = tpp__field_word(f, "hidden_act", gated_acts, TPP_ACT_SWIGLU);
    m->epsilon = tpp__field_real(f, "rms_norm_eps", 1e-6);
    read_rope(f, m, m->head_cols ? m->head_cols : m->hidden / m->heads);
    read_window(f, m);
    read_biases(f, m);
    if (tpp__field_bool(f, "tie_word_embeddings", false))
        m->flags |= TPP_MODEL_TIED;
}

static tpp_status read_fields(tpp__fields *f, tpp_model_desc *m) {
    tpp_family family = read_family(f);
    tpp_model_family_set(m, family);
    if (family == TPP_FAMILY_GPT2)
        read_gpt2(f, m);
    else
        read_llama(f, m);
    m->init_std = tpp__field_real(f, "initializer_range", 0.02);
    if (f->status != TPP_OK)
        return f->status;
    /* What fields demand of each other is the model's own rule. */
    int64_t numbers;
    char why[256];
    tpp_status status = tpp_model_params(m, &numbers);
    if (status == TPP_OK)
        return TPP_OK;
    snprintf(why, sizeof why, "%s", tpp_message());
    return tpp__io_fail(status, "%.200s: %s", f->path, why);
}

tpp_status tpp__model_of_json(tpp_model_desc *out, const json_t *object, const char *path) {
    tpp__fields fields = {object, path, "", TPP_OK};
    return read_fields(&fields, out);
}

tpp_status tpp_model_read(tpp_model_desc *out, const char *path) {
    json_t *object = NULL;
    tpp_model_desc model = {.size = sizeof model};
    if (!path)
        return tpp__io_fail(TPP_ERR_INVALID, "path is NULL");
    tpp_status status = tpp__json_read(&object, path);
    if (status == TPP_OK)
        status = tpp__model_of_json(&model, object, path);
    json_decref(object);
    return status == TPP_OK ? tpp__io_sized_write(out, &model, sizeof model, "out") : status;
}
