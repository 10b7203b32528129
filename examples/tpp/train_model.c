/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "train_model.h"

#include <inttypes.h>

#include "say.h"
#include "weights.h"

/* With --model nothing else describes the model. */
static int check_alone(const struct train_config *c) {
    const struct {
        const char *option;
        int given;
    } options[] = {
        {"family", c->family >= 0},
        {"layers", c->layers > 0},
        {"hidden", c->hidden > 0},
        {"heads", c->heads > 0},
        {"kv-heads", c->kv_heads > 0},
        {"head-cols", c->head_cols > 0},
        {"ffn", c->ffn > 0},
        {"act", c->act != 0},
        {"norm", c->norm >= 0},
        {"rope", c->rope >= 0},
        {"window", c->window > 0},
        {"qk-norm", c->qk_norm},
        {"no-bias", c->no_bias},
        {"parallel-block", c->parallel},
        {"tied", c->tied},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (options[i].given) {
            return usage_error("--%s and --model %s both describe the model; accepted: one of them",
                               options[i].option, c->model);
        }
    }
    return 0;
}

static int read_model(struct train_config *c) {
    int code = check_alone(c);
    code = code ? code : weights_model(&c->desc, c->model);
    if (code == 0 && c->desc.vocab < VOCAB) {
        return usage_error("--model %s has a vocabulary of %" PRId64
                           "; accepted: %d or more, one for each byte",
                           c->model, c->desc.vocab, VOCAB);
    }
    if (code == 0 && c->desc.positions > 0 && c->seq > c->desc.positions) {
        return usage_error("--seq %" PRId32 " is longer than the positions of --model %s; "
                           "accepted: 1 to %" PRId64,
                           c->seq, c->model, c->desc.positions);
    }
    return code;
}

static void set_flags(struct train_config *c) {
    tpp_model_desc *m = &c->desc;
    m->flags = c->tied ? TPP_MODEL_TIED : 0;
    m->block_flags |= c->qk_norm ? TPP_BLOCK_QK_NORM : 0;
    m->block_flags |= c->parallel ? TPP_BLOCK_PARALLEL : 0;
    if (c->no_bias) {
        m->block_flags |= TPP_BLOCK_NO_BIAS;
        m->block_flags &= ~(uint32_t)TPP_BLOCK_QKV_BIAS;
    }
    if (m->act < TPP_ACT_SWIGLU) { /* nothing to separate */
        m->block_flags &= ~(uint32_t)TPP_BLOCK_SEPARATE_GATE;
    }
}

static void describe(struct train_config *c) {
    const struct train_config standard = train_config_default();
    tpp_model_desc *m = &c->desc;
    m->vocab = VOCAB;
    m->layers = c->layers ? c->layers : standard.layers;
    m->hidden = c->hidden ? c->hidden : standard.hidden;
    m->heads = c->heads ? c->heads : standard.heads;
    m->max_positions = c->seq;
    tpp_model_family_set(m, c->family >= 0 ? c->family : standard.family);
    m->kv_heads = c->kv_heads;
    m->head_cols = c->head_cols;
    m->ffn = c->ffn;
    m->act = c->act ? c->act : m->act;
    m->norm = c->norm >= 0 ? c->norm : m->norm;
    m->window = c->window;
    if (c->rope >= 0) {
        m->rope_theta = c->rope;
        m->positions = 0;
    }
    set_flags(c);
}

/* The sizes that come with the model, where they were not given. */
static void mirror(struct train_config *c) {
    const tpp_model_desc *m = &c->desc;
    c->family = m->family;
    c->layers = m->layers;
    c->hidden = (int32_t)m->hidden;
    c->heads = m->heads;
    c->kv_heads = m->kv_heads ? m->kv_heads : m->heads;
    c->head_cols = m->head_cols ? m->head_cols : (int32_t)(m->hidden / m->heads);
    c->ffn = m->ffn ? (int32_t)m->ffn : 4 * (int32_t)m->hidden;
    c->act = m->act;
    c->norm = m->norm;
}

int train_model_make(struct train_config *c) {
    c->desc.size = sizeof c->desc;
    int code = 0;
    if (c->model) {
        code = read_model(c);
    } else {
        describe(c);
    }
    if (code == 0) {
        mirror(c);
    }
    return code;
}
