/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "io_file.h"
#include "io_support.h"
#include "model_json.h"

#include <string.h>
#include <tpp/io.h>
#include <tpp/mlp.h>

/* A config.json, made of what the model says; then read again: what the family's fields cannot say
 * comes back different, and is refused. */

enum { DIGITS = 17 };

/* Fields of an object; a failure is one of memory. */
typedef struct making {
    json_t *object;
    int bad;
} making;

static void put(making *m, const char *name, json_t *value) {
    m->bad |= json_object_set_new(m->object, name, value);
}

static void put_int(making *m, const char *name, int64_t value) {
    put(m, name, json_integer(value));
}

static void put_text(making *m, const char *name, const char *text) {
    put(m, name, text ? json_string(text) : json_null());
}

static void put_gpt2(making *m, const tpp_model_desc *d) {
    put_int(m, "n_embd", d->hidden);
    put_int(m, "n_layer", d->layers);
    put_int(m, "n_head", d->heads);
    put_int(m, "n_inner", d->ffn);
    put_int(m, "n_positions", d->positions);
    put_text(m, "activation_function", tpp__act_word(d->family, d->act));
    put(m, "layer_norm_epsilon", json_real(d->epsilon));
}

static json_t *scaling_of(const tpp_model_desc *d) {
    making inner = {json_object(), 0};
    put_text(&inner, "rope_type", tpp__scaling_word(d->rope_scaling));
    put(&inner, "factor", json_real(d->rope_factor));
    if (d->rope_scaling == TPP_ROPE_LLAMA3) {
        put(&inner, "low_freq_factor", json_real(d->rope_low_freq_factor));
        put(&inner, "high_freq_factor", json_real(d->rope_high_freq_factor));
        put_int(&inner, "original_max_position_embeddings", d->rope_original_positions);
    }
    if (inner.bad) {
        json_decref(inner.object);
        return NULL;
    }
    return inner.object;
}

static void put_window(making *m, const tpp_model_desc *d) {
    bool qwen = d->family == TPP_FAMILY_QWEN2 || d->family == TPP_FAMILY_QWEN3;
    put(m, "sliding_window", d->window > 0 ? json_integer(d->window) : json_null());
    if (!qwen)
        return;
    put(m, "use_sliding_window", json_boolean(d->window > 0));
    put_int(m, "max_window_layers", d->window > 0 ? d->window_first : d->layers);
}

static void put_llama(making *m, const tpp_model_desc *d) {
    put_int(m, "hidden_size", d->hidden);
    put_int(m, "intermediate_size", d->ffn);
    put_int(m, "num_hidden_layers", d->layers);
    put_int(m, "num_attention_heads", d->heads);
    put_int(m, "num_key_value_heads", d->kv_heads);
    put_int(m, "head_dim", d->head_cols);
    if (d->max_positions > 0)
        put_int(m, "max_position_embeddings", d->max_positions);
    put_text(m, "hidden_act", tpp__act_word(d->family, d->act));
    put(m, "rms_norm_eps", json_real(d->epsilon));
    put(m, "rope_theta", d->rope_theta > 0 ? json_real(d->rope_theta) : json_null());
    put(m, "rope_scaling", d->rope_scaling ? scaling_of(d) : json_null());
    if (d->rope_cols > 0 && d->rope_cols < d->head_cols)
        put(m, "partial_rotary_factor", json_real((double)d->rope_cols / d->head_cols));
    if (d->family != TPP_FAMILY_LLAMA)
        put_window(m, d);
    bool out_bias = d->block_flags & TPP_BLOCK_OUT_BIAS;
    put(m, "attention_bias", json_boolean(out_bias));
    if (d->family == TPP_FAMILY_LLAMA)
        put(m, "mlp_bias", json_boolean(d->block_flags & TPP_BLOCK_MLP_BIAS));
}

static json_t *object_of(const tpp_model_desc *d) {
    making m = {json_object(), 0};
    put(&m, "architectures", json_pack("[s]", tpp__architecture(d->family)));
    put_text(&m, "model_type", tpp__family_word(d->family));
    put_int(&m, "vocab_size", d->vocab);
    if (d->family == TPP_FAMILY_GPT2)
        put_gpt2(&m, d);
    else
        put_llama(&m, d);
    put(&m, "initializer_range", json_real(d->init_std));
    put(&m, "tie_word_embeddings", json_boolean(d->flags & TPP_MODEL_TIED));
    if (m.bad) {
        json_decref(m.object);
        return NULL;
    }
    return m.object;
}

/* Fields whose 0 means a number get it. */
static void complete(tpp_model_desc *d) {
    d->ffn = d->ffn ? d->ffn : 4 * d->hidden;
    d->kv_heads = d->kv_heads ? d->kv_heads : d->heads;
    d->head_cols = d->head_cols ? d->head_cols : (int32_t)(d->hidden / d->heads);
    d->epsilon = d->epsilon > 0 ? d->epsilon : 1e-5;
    d->init_std = d->init_std > 0 ? d->init_std : 0.02;
    d->act = d->act ? d->act : TPP_ACT_GELU_TANH;
    d->rope_cols = d->rope_cols == d->head_cols ? 0 : d->rope_cols;
    d->window_first = d->window ? d->window_first : 0;
}

/* The first field that the family's config.json does not keep; NULL: it keeps all. */
static const char *lost(const tpp_model_desc *a, const tpp_model_desc *b) {
    const struct {
        const char *field;
        bool kept;
    } fields[] = {
        {"positions", a->positions == b->positions},
        {"window", a->window == b->window},
        {"window_first", a->window_first == b->window_first},
        {"kv_heads", a->kv_heads == b->kv_heads},
        {"head_cols", a->head_cols == b->head_cols},
        {"block_flags", a->block_flags == b->block_flags},
        {"act", a->act == b->act},
        {"norm", a->norm == b->norm},
        {"rope_theta", !(a->rope_theta < b->rope_theta || a->rope_theta > b->rope_theta)},
        {"rope_cols", a->rope_cols == b->rope_cols},
        {"rope_scaling", a->rope_scaling == b->rope_scaling},
        {"rope_flags", a->rope_flags == b->rope_flags},
        {"sizes", a->vocab == b->vocab && a->hidden == b->hidden && a->ffn == b->ffn &&
                      a->layers == b->layers && a->heads == b->heads},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (!fields[i].kept)
            return fields[i].field;
    }
    return NULL;
}

static tpp_status check_kept(const tpp_model_desc *model, const json_t *object, const char *path) {
    tpp_model_desc back = {.size = sizeof back};
    tpp_status status = tpp__model_of_json(&back, object, path);
    if (status != TPP_OK)
        return status;
    complete(&back);
    const char *field = lost(model, &back);
    if (!field)
        return TPP_OK;
    return tpp__io_fail(TPP_ERR_UNSUPPORTED,
                        "model.%s has a value that a config.json of model_type \"%s\" cannot say",
                        field, tpp__family_word(model->family));
}

static tpp_status write_text(const json_t *object, const char *path) {
    tpp__io_output output = {0};
    const size_t flags = JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS);
    size_t bytes = json_dumpb(object, NULL, 0, flags);
    char *text = tpp__io_alloc((int64_t)bytes + 1, 1);
    if (!text)
        return TPP_ERR_NO_MEMORY;
    json_dumpb(object, text, bytes, flags);
    text[bytes] = '\n';
    tpp_status status = tpp__io_output_open(&output, path);
    if (status == TPP_OK)
        status = tpp__io_output_write(&output, text, (int64_t)bytes + 1);
    if (status == TPP_OK)
        status = tpp__io_output_commit(&output);
    tpp__io_output_discard(&output);
    tpp__io_free(text);
    return status;
}

tpp_status tpp_model_write(const tpp_model_desc *given, const char *path) {
    tpp_model_desc model = {0};
    int64_t numbers;
    if (!path || !path[0])
        return tpp__io_fail(TPP_ERR_INVALID, "path is %s", path ? "empty" : "NULL");
    tpp_status status = tpp_model_params(given, &numbers); /* all the rules of a model */
    if (status != TPP_OK)
        return status;
    memcpy(&model, given, given->size < sizeof model ? given->size : sizeof model);
    if (!tpp__family_word(model.family))
        return tpp__io_fail(TPP_ERR_INVALID, "model.family = %d is not accepted; accepted: 0 .. 4",
                            model.family);
    complete(&model);
    json_t *object = object_of(&model);
    if (!object)
        return tpp__io_fail(TPP_ERR_NO_MEMORY, "no memory for %.200s", path);
    status = check_kept(&model, object, path);
    if (status == TPP_OK)
        status = write_text(object, path);
    json_decref(object);
    return status;
}
