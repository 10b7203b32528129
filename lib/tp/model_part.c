/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/layer_impl.h"
#include "tp/model_desc.h"

#include <stdio.h>
#include <tpp/embedding.h>
#include <tpp/norm.h>

/* Layers on their way into a chain. The first failure sticks, later calls do nothing. */
typedef struct pile {
    const tpp_model_desc *model;
    const tpp_model_part_desc *part;
    tpp_layer_env env;
    tpp_layer **layers;
    int32_t count;
    tpp_status status;
} pile;

enum { OUTER_LAYERS = 4 /* embedding, dropout, norm, head */ };
static const char EMBEDDING[] = "embed.";

static bool has_embedding(const pile *p) {
    return p->part->first == 0;
}

static bool has_head(const pile *p) {
    return p->part->first + p->part->count == p->model->layers;
}

/* One table for both ends, and no copies. */
static bool one_table(const pile *p) {
    return (p->part->flags & TPP_MODEL_PART_ONE_TABLE) && has_embedding(p) && has_head(p);
}

static tpp_layer **next(pile *p, const char *name) {
    p->env.name = name;
    return &p->layers[p->count];
}

static void note(pile *p, tpp_status status) {
    p->env.name = NULL; /* was copied, and may be gone soon */
    p->status = status;
    p->count += status == TPP_OK;
}

static void add_embedding(pile *p) {
    bool copied = (p->model->flags & TPP_MODEL_TIED) && !one_table(p);
    tpp_embedding_desc d = {.size = sizeof d,
                            .flags = copied ? TPP_EMBEDDING_TIED : 0,
                            .vocab = p->model->vocab,
                            .hidden = p->model->hidden,
                            .positions = p->model->positions,
                            .init_std = p->model->init_std};
    note(p, tpp_embedding_create(next(p, EMBEDDING), &p->env, &d));
}

static void add_dropout(pile *p) {
    tpp_dropout_desc d = {.size = sizeof d, .cols = p->model->hidden, .rate = p->part->dropout};
    note(p, tpp_dropout_create(next(p, "embed.dropout"), &p->env, &d));
}

static tpp_rope_desc rope_of(const tpp_model_desc *m) {
    return (tpp_rope_desc){.size = sizeof(tpp_rope_desc),
                           .flags = m->rope_flags,
                           .theta = m->rope_theta,
                           .cols = m->rope_cols,
                           .scaling = m->rope_scaling,
                           .factor = m->rope_factor,
                           .low_freq_factor = m->rope_low_freq_factor,
                           .high_freq_factor = m->rope_high_freq_factor,
                           .original_positions = m->rope_original_positions};
}

static void add_block(pile *p, int32_t number) {
    char name[TPP__NAME_MAX];
    snprintf(name, sizeof name, "h.%d.", number);
    const tpp_model_desc *m = p->model;
    tpp_rope_desc rope = rope_of(m);
    tpp_block_desc d = {.size = sizeof d,
                        .flags = m->block_flags,
                        .hidden = m->hidden,
                        .ffn = m->ffn,
                        .heads = m->heads,
                        .act = m->act,
                        .epsilon = m->epsilon,
                        .init_std = m->init_std,
                        .out_std = m->out_std,
                        .norm = m->norm,
                        .kv_heads = m->kv_heads,
                        .rope = m->rope_theta > 0 ? &rope : NULL,
                        .window = number >= m->window_first ? m->window : 0,
                        .head_cols = m->head_cols,
                        .dropout = p->part->dropout,
                        .recompute = p->part->recompute};
    note(p, tpp_block_create(next(p, name), &p->env, &d));
}

static void add_norm(pile *p) {
    tpp_norm_desc d = {.size = sizeof d,
                       .flags = p->model->block_flags & TPP_BLOCK_NO_BIAS ? TPP_NORM_NO_BIAS : 0,
                       .cols = p->model->hidden,
                       .epsilon = p->model->epsilon,
                       .kind = p->model->norm};
    note(p, tpp_norm_create(next(p, "ln_f."), &p->env, &d));
}

static tpp_status read_loss(const pile *p, tpp_loss_desc *out) {
    tpp_status status = tpp__sized_read(out, sizeof *out, UINT32_MAX, p->part->loss, "desc.loss");
    if (status == TPP_OK && out->vocab == 0)
        out->vocab = p->model->vocab;
    out->size = sizeof *out;
    return status;
}

static void add_head(pile *p) {
    bool tied = p->model->flags & TPP_MODEL_TIED;
    tpp_loss_desc loss;
    tpp_head_desc d = {.size = sizeof d,
                       .flags = tied && !one_table(p) ? TPP_HEAD_COPY : 0,
                       .hidden = p->model->hidden,
                       .vocab = p->model->vocab,
                       .tied = tied && one_table(p) ? p->layers[0] : NULL,
                       .loss = p->part->loss ? &loss : NULL,
                       .block = p->part->head_block,
                       .init_std = p->model->init_std};
    if (d.loss)
        p->status = read_loss(p, &loss);
    if (p->status == TPP_OK) /* a copy has the name of the embedding's table */
        note(p, tpp_head_create(next(p, d.flags ? EMBEDDING : "lm_head."), &p->env, &d));
}

static void add_all(pile *p) {
    if (has_embedding(p))
        add_embedding(p);
    if (has_embedding(p) && p->part->dropout != 0 && p->status == TPP_OK)
        add_dropout(p);
    for (int32_t i = 0; i < p->part->count && p->status == TPP_OK; i++)
        add_block(p, p->part->first + i);
    if (has_head(p) && p->status == TPP_OK)
        add_norm(p);
    if (has_head(p) && p->status == TPP_OK)
        add_head(p);
}

static tpp_status check_part(const tpp_model_part_desc *d, const tpp_model_desc *m) {
    if (d->first < 0 || d->first >= m->layers)
        return tpp__fail(TPP_ERR_INVALID, "desc.first = %d is not accepted; accepted: 0 .. %d",
                         d->first, m->layers - 1);
    if (d->count < 1 || d->count > m->layers - d->first)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.count = %d with desc.first = %d is not accepted; accepted: 1 .. %d",
                         d->count, d->first, m->layers - d->first);
    return TPP_OK;
}

/* With room for all layers. */
static tpp_status make_chain(tpp_layer **out, const tpp_layer_env *given, pile *p) {
    tpp_allocator allocator;
    p->status = tpp__sized_read(&p->env, sizeof p->env, UINT32_MAX, given, "env");
    p->env.size = sizeof p->env;
    if (p->status == TPP_OK)
        p->status = tpp__allocator_read(&allocator, p->env.allocator);
    if (p->status != TPP_OK)
        return p->status;
    int64_t bytes = ((int64_t)p->part->count + OUTER_LAYERS) * (int64_t)sizeof *p->layers;
    p->layers = tpp__alloc(&allocator, bytes);
    if (!p->layers)
        return TPP_ERR_NO_MEMORY;
    add_all(p);
    if (p->status == TPP_OK)
        p->status = tpp_chain_create(out, &p->env, p->layers, p->count);
    for (int32_t i = 0; i < p->count && p->status != TPP_OK; i++) /* else the chain's */
        tpp_layer_destroy(p->layers[i]);
    tpp__free(&allocator, p->layers, bytes);
    return p->status;
}

tpp_status tpp_model_part_create(tpp_layer **out, const tpp_layer_env *env,
                                 const tpp_model_part_desc *given) {
    tpp_model_part_desc part;
    tpp_model_desc model;
    pile p = {.model = &model, .part = &part};
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a layer pointer");
    *out = NULL;
    tpp_status status =
        tpp__sized_read(&part, sizeof part, TPP_MODEL_PART_ONE_TABLE, given, "desc");
    if (status == TPP_OK)
        status = tpp__model_read(&model, part.model);
    if (status == TPP_OK)
        status = check_part(&part, &model);
    return status == TPP_OK ? make_chain(out, env, &p) : status;
}
