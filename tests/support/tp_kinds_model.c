/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/tp_parts.h"

#include <stdio.h>
#include <stdlib.h>

/* embedding.h */

static tpp_status embedding_create(tpp_layer **out, const tpp_layer_env *env, const void *desc) {
    return tpp_embedding_create(out, env, desc);
}

static void embedding_params(tp_full *full, const char *prefix, int64_t vocab, int64_t hidden,
                             int64_t positions) {
    tp_add_param(full, prefix, "tokens.weight", vocab, hidden);
    if (positions)
        tp_add_param(full, prefix, "positions.weight", positions, hidden);
}

static void embedding_describe(const void *desc, tp_full *full) {
    const tpp_embedding_desc *d = desc;
    full->ids_below = d->vocab;
    full->in_cols = 1;
    full->out_cols = d->hidden;
    embedding_params(full, "", d->vocab, d->hidden, d->positions);
}

static void embedding_reference(const void *desc, tp_full *full) {
    const tpp_embedding_desc *d = desc;
    ref_size s = tp_size_of(full);
    s.vocab = d->vocab;
    s.hidden = d->hidden;
    s.positions = d->positions;
    ref_embedding_forward(&s, tp_value(full, "", "tokens.weight"),
                          tp_value(full, "", "positions.weight"), full->ids, full->out);
    ref_embedding_backward(&s, full->ids, full->grad_out, tp_grad(full, "", "tokens.weight"),
                           tp_grad(full, "", "positions.weight"));
}

const tp_kind tp_kind_embedding = {embedding_create, embedding_describe, embedding_reference};

/* loss.h */

static tpp_status loss_create(tpp_layer **out, const tpp_layer_env *env, const void *desc) {
    return tpp_loss_create(out, env, desc);
}

static void loss_ends(tp_full *full, const tpp_loss_desc *d) {
    full->targets_below = d->vocab;
    full->ignores = d->flags & TPP_LOSS_IGNORE;
    full->ignore = d->ignore;
    full->one_row = d->reduction != TPP_LOSS_TOKENS;
}

static ref_loss loss_of(const tp_full *full, const tpp_loss_desc *d) {
    return (ref_loss){
        .vocab = d->vocab,
        .ignores = full->ignores,
        .others = (d->flags & TPP_LOSS_SMOOTH_OTHERS) != 0,
        .reduction = d->reduction == TPP_LOSS_SUM    ? REF_SUM
                     : d->reduction == TPP_LOSS_MEAN ? REF_MEAN
                                                     : REF_TOKENS,
        .ignore = d->ignore,
        .smoothing = (ref_real)d->smoothing,
        .z_loss = (ref_real)d->z_loss,
        .weight = full->weights,
        .weight_sum = full->weight_sum,
    };
}

static void loss_describe(const void *desc, tp_full *full) {
    const tpp_loss_desc *d = desc;
    full->in_cols = d->vocab;
    full->in_split = 1;
    full->out_cols = 1;
    loss_ends(full, d);
}

static void weighted_describe(const void *desc, tp_full *full) {
    loss_describe(desc, full);
    full->weighted = 1;
}

static void loss_reference(const void *desc, tp_full *full) {
    ref_loss p = loss_of(full, desc);
    ref_loss_forward(full->tokens, &p, full->in, full->targets, full->out);
    ref_loss_backward(full->tokens, &p, full->in, full->targets, full->grad_out, full->grad_in);
}

const tp_kind tp_kind_loss = {loss_create, loss_describe, loss_reference};
const tp_kind tp_kind_loss_weighted = {loss_create, weighted_describe, loss_reference};

/* head.h */

static tpp_status head_create(tpp_layer **out, const tpp_layer_env *env, const void *desc) {
    return tpp_head_create(out, env, desc);
}

static void head_describe(const void *desc, tp_full *full) {
    const tpp_head_desc *d = desc;
    full->in_cols = d->hidden;
    full->out_cols = d->loss ? 1 : d->vocab;
    full->out_split = full->out_low = !d->loss;
    if (d->loss)
        loss_ends(full, d->loss);
    tp_add_param(full, "", "weight", d->vocab, d->hidden);
}

static void head_weighted(const void *desc, tp_full *full) {
    head_describe(desc, full);
    full->weighted = 1;
}

static void head_reference(const void *desc, tp_full *full) {
    const tpp_head_desc *d = desc;
    const ref_real *table = tp_value(full, "", "weight");
    ref_real *z = ref_new(full->tokens * d->vocab), *dz = ref_new(full->tokens * d->vocab);
    ref_head_forward(full->tokens, d->hidden, d->vocab, full->in, table, d->loss ? z : full->out);
    if (d->loss) {
        ref_loss p = loss_of(full, d->loss);
        ref_loss_forward(full->tokens, &p, z, full->targets, full->out);
        ref_loss_backward(full->tokens, &p, z, full->targets, full->grad_out, dz);
    }
    ref_head_backward(full->tokens, d->hidden, d->vocab, full->in, table,
                      d->loss ? dz : full->grad_out, full->grad_in, tp_grad(full, "", "weight"));
    free(z);
    free(dz);
}

const tp_kind tp_kind_head = {head_create, head_describe, head_reference};
const tp_kind tp_kind_head_weighted = {head_create, head_weighted, head_reference};

/* dropout.h */

static tpp_status dropout_create(tpp_layer **out, const tpp_layer_env *env, const void *desc) {
    return tpp_dropout_create(out, env, desc);
}

static void dropout_describe(const void *desc, tp_full *full) {
    const tpp_dropout_desc *d = desc;
    full->in_cols = full->out_cols = d->cols;
    full->dropout_seed = 5;
}

static void dropout_reference(const void *desc, tp_full *full) {
    const tpp_dropout_desc *d = desc;
    int64_t count = full->tokens * d->cols;
    ref_real *factor = ref_new(count);
    ref_dropout(full->dropout_seed, "", d->rate, full->tokens, d->cols, factor);
    for (int64_t i = 0; i < count; i++) {
        full->out[i] = full->in[i] * factor[i];
        full->grad_in[i] = full->grad_out[i] * factor[i];
    }
    free(factor);
}

const tp_kind tp_kind_dropout = {dropout_create, dropout_describe, dropout_reference};

/* block.h */

static tpp_status block_create(tpp_layer **out, const tpp_layer_env *env, const void *desc) {
    return tpp_block_create(out, env, desc);
}

/* The attention and the MLP inside, by block.h. */
static tpp_attention_desc attention_of(const tpp_block_desc *d) {
    tpp_attention_desc a = {.hidden = d->hidden, .heads = d->heads, .head_cols = d->head_cols};
    if ((d->flags & TPP_BLOCK_NO_BIAS) && !(d->flags & TPP_BLOCK_OUT_BIAS))
        a.flags |= TPP_ATTENTION_NO_BIAS;
    if (d->flags & TPP_BLOCK_QKV_BIAS)
        a.flags |= TPP_ATTENTION_QKV_BIAS;
    if (d->flags & TPP_BLOCK_SEPARATE_QKV)
        a.flags |= TPP_ATTENTION_SEPARATE_QKV;
    if (d->flags & TPP_BLOCK_QK_NORM)
        a.flags |= TPP_ATTENTION_QK_NORM;
    if (d->flags & TPP_BLOCK_FULL)
        a.flags |= TPP_ATTENTION_FULL;
    a.kv_heads = d->kv_heads;
    a.rope = d->rope;
    a.window = d->window;
    a.norm_epsilon = d->epsilon;
    return a;
}

static tpp_mlp_desc mlp_of(const tpp_block_desc *d) {
    tpp_mlp_desc m = {.hidden = d->hidden, .ffn = d->ffn, .act = d->act};
    if ((d->flags & TPP_BLOCK_NO_BIAS) && !(d->flags & TPP_BLOCK_MLP_BIAS))
        m.flags |= TPP_MLP_NO_BIAS;
    if (d->flags & TPP_BLOCK_SEPARATE_GATE)
        m.flags |= TPP_MLP_SEPARATE_GATE;
    return m;
}

static void block_params(tp_full *full, const char *prefix, const tpp_block_desc *d) {
    char part[TP_NAME];
    tpp_attention_desc attention = attention_of(d);
    tpp_mlp_desc mlp = mlp_of(d);
    int bias = !(d->flags & TPP_BLOCK_NO_BIAS) && d->norm == TPP_NORM_LAYER;
    snprintf(part, sizeof part, "%sln_1.", prefix);
    tp_norm_params(full, part, d->hidden, bias);
    snprintf(part, sizeof part, "%sattn.", prefix);
    tp_attention_params(full, part, &attention);
    snprintf(part, sizeof part, "%sln_2.", prefix);
    if (!(d->flags & TPP_BLOCK_PARALLEL) || d->flags & TPP_BLOCK_TWO_NORMS)
        tp_norm_params(full, part, d->hidden, bias);
    snprintf(part, sizeof part, "%smlp.", prefix);
    tp_mlp_params(full, part, &mlp);
}

static ref_block block_of(const tp_full *full, const char *prefix, tp_lookup get) {
    char part[4][TP_NAME];
    snprintf(part[0], sizeof part[0], "%sln_1.", prefix);
    snprintf(part[1], sizeof part[1], "%sattn.", prefix);
    snprintf(part[2], sizeof part[2], "%sln_2.", prefix);
    snprintf(part[3], sizeof part[3], "%smlp.", prefix);
    return (ref_block){tp_norm_of(full, part[0], get),
                       tp_attention_of(full, part[1], get),
                       tp_norm_of(full, part[2], get),
                       tp_mlp_of(full, part[3], get),
                       {NULL, NULL}};
}

static ref_size block_size(const tpp_block_desc *d, const tp_full *full) {
    tpp_attention_desc attention = attention_of(d);
    ref_size s = tp_attention_size(&attention, full);
    s.ffn = d->ffn ? d->ffn : 4 * d->hidden;
    s.act = tp_act_of(d->act);
    return s;
}

static void block_describe(const void *desc, tp_full *full) {
    const tpp_block_desc *d = desc;
    full->dropout_seed = d->dropout > 0 ? 0x0123456789abcdef : 0;
    full->in_cols = full->out_cols = d->hidden;
    block_params(full, "", d);
}

static void block_reference(const void *desc, tp_full *full) {
    const tpp_block_desc *d = desc;
    ref_size s = block_size(d, full);
    ref_block p = block_of(full, "", tp_value);
    p.norm_1.rms = p.norm_2.rms = d->norm == TPP_NORM_RMS;
    ref_block g = block_of(full, "", tp_grad);
    int parallel = (d->flags & TPP_BLOCK_PARALLEL) != 0;
    const char *const names[2] = {parallel ? "dropout" : "attn.dropout",
                                  parallel ? "dropout" : "mlp.dropout"};
    ref_real *drop[2];
    for (int i = 0; i < 2; i++) {
        drop[i] = ref_new(full->tokens * d->hidden);
        ref_dropout(full->dropout_seed, names[i], d->dropout, full->tokens, d->hidden, drop[i]);
        p.drop[i] = drop[i];
    }
    if (parallel) {
        ref_parallel_forward(&s, &p, full->in, full->out);
        ref_parallel_backward(&s, &p, full->in, full->grad_out, full->grad_in, &g);
    } else {
        ref_block_forward(&s, &p, full->in, full->out);
        ref_block_backward(&s, &p, full->in, full->grad_out, full->grad_in, &g);
    }
    free(drop[0]);
    free(drop[1]);
}

const tp_kind tp_kind_block = {block_create, block_describe, block_reference};

/* A chain of layers. Those before `made` are there. */

static void drop(tpp_layer **layers, int32_t made) {
    for (int32_t i = 0; i < made; i++)
        tpp_layer_destroy(layers[i]);
}

static tpp_status gpt_head_create(tpp_layer **out, const tpp_layer_env *env, const tp_gpt_desc *d,
                                  const tpp_layer *first) {
    tpp_loss_desc loss = {.size = sizeof loss, .vocab = d->vocab};
    tpp_head_desc head = {.size = sizeof head, .hidden = d->hidden, .vocab = d->vocab};
    head.tied = d->head & TP_HEAD_TIED ? first : NULL;
    head.loss = d->head & TP_HEAD_FUSED ? &loss : NULL;
    head.block = head.loss ? d->step : 0;
    return tpp_head_create(out, env, &head);
}

/* Layer number i of the model; `first` is number 0. */
static tpp_status part_create(tpp_layer **out, const tpp_layer_env *env, const tp_gpt_desc *d,
                              int32_t i, const tpp_layer *first) {
    tpp_layer_env e = *env;
    char name[TP_NAME];
    snprintf(name, sizeof name, "h.%d.", i - 1);
    e.name = i == 0 ? "embed." : i <= d->blocks ? name : i == d->blocks + 1 ? "ln_f." : "head.";
    if (i == 0) {
        tpp_embedding_desc embedding = {0};
        embedding.size = sizeof embedding;
        embedding.vocab = d->vocab;
        embedding.hidden = d->hidden;
        embedding.positions = d->positions;
        return tpp_embedding_create(out, &e, &embedding);
    }
    if (i <= d->blocks) {
        tpp_block_desc block = {0};
        block.size = sizeof block;
        block.hidden = d->hidden;
        block.heads = d->heads;
        block.kv_heads = d->kv_heads;
        return tpp_block_create(out, &e, &block);
    }
    if (i == d->blocks + 1) {
        tpp_norm_desc norm = {0};
        norm.size = sizeof norm;
        norm.cols = d->hidden;
        return tpp_norm_create(out, &e, &norm);
    }
    if (i == d->blocks + 2 && d->head)
        return gpt_head_create(out, &e, d, first);
    if (i == d->blocks + 2) {
        tpp_linear_desc head = {0};
        head.size = sizeof head;
        head.flags = TPP_LINEAR_PAD | TPP_LINEAR_NO_BIAS;
        head.kind = TPP_LINEAR_COLUMN;
        head.in = d->hidden;
        head.out = d->vocab;
        return tpp_linear_create(out, &e, &head);
    }
    tpp_loss_desc loss = {0};
    loss.size = sizeof loss;
    loss.vocab = d->vocab;
    return tpp_loss_create(out, &e, &loss);
}

static tpp_status gpt_create(tpp_layer **out, const tpp_layer_env *env, const void *desc) {
    const tp_gpt_desc *d = desc;
    tpp_layer *layers[REF_BLOCKS + 4] = {0};
    int32_t count = d->blocks + (d->head & TP_HEAD_FUSED ? 3 : 4);
    for (int32_t i = 0; i < count; i++) {
        tpp_status status = part_create(&layers[i], env, d, i, layers[0]);
        if (status < 0) {
            drop(layers, i);
            return status;
        }
    }
    tpp_status status = tpp_chain_create(out, env, layers, count);
    if (status < 0)
        drop(layers, count);
    return status;
}

static ref_size gpt_size(const tp_gpt_desc *d, const tp_full *full) {
    ref_size s = tp_size_of(full);
    s.hidden = d->hidden;
    s.ffn = 4 * d->hidden;
    s.heads = d->heads;
    s.head_cols = d->hidden / d->heads;
    s.vocab = d->vocab;
    s.positions = d->positions;
    s.blocks = d->blocks;
    s.kv_heads = d->kv_heads;
    return s;
}

static void gpt_describe(const void *desc, tp_full *full) {
    const tp_gpt_desc *d = desc;
    char prefix[TP_NAME / 2];
    tpp_block_desc block = {.hidden = d->hidden, .heads = d->heads, .kv_heads = d->kv_heads};
    full->ids_below = full->targets_below = d->vocab;
    full->in_cols = full->out_cols = 1;
    embedding_params(full, "embed.", d->vocab, d->hidden, d->positions);
    for (int32_t i = 0; i < d->blocks; i++) {
        snprintf(prefix, sizeof prefix, "h.%d.", i);
        block_params(full, prefix, &block);
    }
    tp_norm_params(full, "ln_f.", d->hidden, 1);
    if (!d->head)
        tp_add_param(full, "head.", "weight", d->hidden, d->vocab);
    else if (!(d->head & TP_HEAD_TIED))
        tp_add_param(full, "head.", "weight", d->vocab, d->hidden);
}

static ref_gpt gpt_of(const tp_full *full, const tp_gpt_desc *d, tp_lookup get) {
    ref_gpt p = {0};
    char prefix[TP_NAME / 2];
    p.tokens = get(full, "embed.", "tokens.weight");
    p.positions = get(full, "embed.", "positions.weight");
    for (int32_t i = 0; i < d->blocks; i++) {
        snprintf(prefix, sizeof prefix, "h.%d.", i);
        p.block[i] = block_of(full, prefix, get);
    }
    p.norm = tp_norm_of(full, "ln_f.", get);
    p.head = get(full, "head.", "weight");
    return p;
}

static void gpt_reference(const void *desc, tp_full *full) {
    const tp_gpt_desc *d = desc;
    ref_size s = gpt_size(d, full);
    ref_gpt p = gpt_of(full, d, tp_value);
    ref_gpt g = gpt_of(full, d, tp_grad);
    int tied = d->head & TP_HEAD_TIED;
    int64_t count = d->vocab * d->hidden;
    ref_real *table_grad = tied ? g.tokens : g.head;
    ref_real *head = ref_new(count), *head_grad = ref_new(count), *table = ref_new(count);
    if (d->head) { /* ref_gpt's is [hidden, vocab] */
        ref_transpose(d->vocab, d->hidden, tied ? p.tokens : p.head, head);
        p.head = head;
        g.head = head_grad;
    }
    ref_gpt_forward(&s, &p, full->ids, full->targets, full->out);
    ref_gpt_backward(&s, &p, full->ids, full->targets, full->grad_out, &g);
    ref_transpose(d->hidden, d->vocab, head_grad, table);
    for (int64_t i = 0; d->head && i < count; i++)
        table_grad[i] = table[i] + (tied ? table_grad[i] : 0);
    free(head);
    free(head_grad);
    free(table);
}

const tp_kind tp_kind_gpt = {gpt_create, gpt_describe, gpt_reference};
