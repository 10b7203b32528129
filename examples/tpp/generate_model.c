/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "generate_model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"
#include "train_config.h"
#include "weights.h"

static int has(const tpp_weights *weights, tpp_family family, const char *param) {
    tpp_tensor_info info = {0};
    info.size = sizeof info;
    return tpp_weights_find(weights, family, param, &info) == TPP_OK;
}

/* Rows of a parameter, as the model has them. */
static int64_t side(const tpp_weights *weights, tpp_family family, const char *param, int row) {
    tpp_tensor_info info = {0};
    tpp_weight_info name = {0};
    info.size = sizeof info;
    name.size = sizeof name;
    if (tpp_weights_find(weights, family, param, &info) != TPP_OK || info.dims != 2 ||
        tpp_weight_query(family, param, &name) != TPP_OK) {
        return 0;
    }
    return info.shape[name.turned ? !row : row];
}

static int64_t number(const tpp_weights *weights, const char *key) {
    const char *text = tpp_weights_metadata_get(weights, key);
    return text ? strtoll(text, NULL, 10) : 0;
}

/* A choice of the program by its name; `otherwise` when the file says nothing. */
static int32_t choice(const tpp_weights *weights, const char *key,
                      const struct option_choice *choices, int32_t otherwise) {
    const char *text = tpp_weights_metadata_get(weights, key);
    for (; text && choices->name; choices++) {
        if (strcmp(choices->name, text) == 0) {
            return choices->value;
        }
    }
    return otherwise;
}

/* What tensors there are tells of biases and of what is separate. */
static void set_flags(tpp_model_desc *m, const tpp_weights *w) {
    const struct {
        const char *param;
        uint32_t flag;
    } there[] = {{"h.0.attn.q.weight", TPP_BLOCK_SEPARATE_QKV},
                 {"h.0.attn.q_norm.weight", TPP_BLOCK_QK_NORM},
                 {"h.0.mlp.gate.weight", TPP_BLOCK_SEPARATE_GATE}};
    m->block_flags = 0;
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) {
        m->block_flags |= has(w, m->family, there[i].param) ? there[i].flag : 0;
    }
    if (!has(w, m->family, "h.0.ln_1.bias")) {
        int qkv = has(w, m->family, "h.0.attn.q.bias") || has(w, m->family, "h.0.attn.qkv.bias");
        m->block_flags |= TPP_BLOCK_NO_BIAS;
        m->block_flags |= qkv ? TPP_BLOCK_QKV_BIAS : 0;
        m->block_flags |= has(w, m->family, "h.0.attn.out.bias") ? TPP_BLOCK_OUT_BIAS : 0;
        m->block_flags |= has(w, m->family, "h.0.mlp.down.bias") ? TPP_BLOCK_MLP_BIAS : 0;
    }
    m->block_flags |= has(w, m->family, "h.0.ln_2.weight") ? 0 : TPP_BLOCK_PARALLEL;
    m->flags = has(w, m->family, "lm_head.weight") ? 0 : TPP_MODEL_TIED;
}

/* The model of a file that tpp train --save wrote. */
static int describe(tpp_model_desc *m, const tpp_weights *w, const char *path) {
    int family = choice(w, "family", family_choices, -1);
    m->layers = (int32_t)number(w, "layers");
    m->hidden = number(w, "hidden");
    m->heads = (int32_t)number(w, "heads");
    if (family < 0 || m->layers < 1 || m->hidden < 1 || m->heads < 1) {
        return data_error("--load %s does not say what model it is of; give its config.json with "
                          "--model",
                          path);
    }
    m->max_positions = 1; /* any: the table of positions tells */
    tpp_model_family_set(m, family);
    m->vocab = side(w, family, "embed.tokens.weight", 0);
    m->positions = side(w, family, "embed.positions.weight", 0);
    m->max_positions = m->positions;
    m->kv_heads = (int32_t)number(w, "kv_heads");
    m->window = number(w, "window");
    m->ffn = side(w, family, "h.0.mlp.down.weight", 0);
    m->head_cols = (int32_t)(side(w, family, "h.0.attn.out.weight", 0) / m->heads);
    m->act = choice(w, "act", act_choices, m->act);
    m->norm = choice(w, "norm", norm_choices, m->norm);
    const char *rope = tpp_weights_metadata_get(w, "rope");
    m->rope_theta = rope ? strtod(rope, NULL) : 0;
    set_flags(m, w);
    return 0;
}

int generate_model(struct generate_config *c, const tpp_weights *weights) {
    c->desc.size = sizeof c->desc;
    int code = c->model ? weights_model(&c->desc, c->model) : describe(&c->desc, weights, c->load);
    if (code == 0 && c->desc.vocab < BYTES) {
        return data_error("%s has a vocabulary of %" PRId64
                          "; accepted: %d or more, one for each byte",
                          c->model ? c->model : c->load, c->desc.vocab, BYTES);
    }
    if (code == 0 && c->desc.layers < c->pp) {
        return usage_error("--pp %" PRId32 " is more than the %" PRId32
                           " layers of the model; accepted: 1 to %" PRId32,
                           c->pp, c->desc.layers, c->desc.layers);
    }
    if (code == 0 && c->desc.positions > 0 && c->context > c->desc.positions) {
        return usage_error("--context %" PRId32 " is more than the %" PRId64
                           " positions of the model; accepted: 1 to %" PRId64,
                           c->context, c->desc.positions, c->desc.positions);
    }
    return code;
}
