/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "gpt.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "reserve.h"

/* Layers on their way into a chain. The first failure sticks, later calls do nothing. */
struct pile {
    const struct train_config *config;
    tpp_layer_env env;
    tpp_layer **layers;
    int32_t count;
    tpp_status status;
};

enum { NAME_BYTES = 32, OUTER_LAYERS = 4 }; /* embedding, norm, head, loss */

static tpp_layer **next(struct pile *pile, const char *name) {
    pile->env.name = name;
    return &pile->layers[pile->count];
}

static void note(struct pile *pile, tpp_status status) {
    pile->env.name = NULL; /* was copied, and may be gone soon */
    pile->status = status;
    pile->count += status == TPP_OK;
}

static void add_embedding(struct pile *pile) {
    tpp_embedding_desc d = {0};
    d.size = sizeof d;
    d.vocab = VOCAB;
    d.hidden = pile->config->hidden;
    d.positions = pile->config->seq;
    note(pile, tpp_embedding_create(next(pile, "embed."), &pile->env, &d));
}

static void add_block(struct pile *pile, int32_t number) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "h.%" PRId32 ".", number);
    tpp_block_desc d = {0};
    d.size = sizeof d;
    d.hidden = pile->config->hidden;
    d.heads = pile->config->heads;
    d.init_std = 0.02;
    /* Two additions per block reach the residual stream: its variance stays that of one (GPT-2). */
    d.out_std = 0.02 / sqrt(2.0 * pile->config->layers);
    note(pile, tpp_block_create(next(pile, name), &pile->env, &d));
}

static void add_norm(struct pile *pile) {
    tpp_norm_desc d = {0};
    d.size = sizeof d;
    d.cols = pile->config->hidden;
    note(pile, tpp_norm_create(next(pile, "ln_f."), &pile->env, &d));
}

static void add_head(struct pile *pile) {
    tpp_linear_desc d = {0};
    d.size = sizeof d;
    d.flags = TPP_LINEAR_NO_BIAS | TPP_LINEAR_PAD;
    d.kind = TPP_LINEAR_COLUMN;
    d.in = pile->config->hidden;
    d.out = VOCAB;
    note(pile, tpp_linear_create(next(pile, "lm_head."), &pile->env, &d));
}

static void add_loss(struct pile *pile) {
    tpp_loss_desc d = {0};
    d.size = sizeof d;
    d.vocab = VOCAB;
    note(pile, tpp_loss_create(next(pile, "loss."), &pile->env, &d));
}

int32_t gpt_stage_blocks(const struct train_config *config, int32_t stages, int32_t stage) {
    int32_t first = 0;
    int32_t count = 0;
    tpp_schedule_partition(config->layers, stages, stage, &first, &count);
    return count;
}

static void add_stage(struct pile *pile, int32_t stages, int32_t stage) {
    int32_t first = 0;
    int32_t count = 0;
    pile->status = tpp_schedule_partition(pile->config->layers, stages, stage, &first, &count);
    if (stage == 0 && pile->status == TPP_OK) {
        add_embedding(pile);
    }
    for (int32_t i = 0; i < count && pile->status == TPP_OK; i++) {
        add_block(pile, first + i);
    }
    void (*const last[])(struct pile *) = {add_norm, add_head, add_loss};
    for (int i = 0; i < 3 && stage == stages - 1 && pile->status == TPP_OK; i++) {
        last[i](pile);
    }
}

tpp_status gpt_stage_create(tpp_layer **out, const struct train_config *config, tpp_comm *comm,
                            int32_t stages, int32_t stage) {
    struct pile pile = {.config = config};
    pile.env.size = sizeof pile.env;
    pile.env.comm = comm;
    pile.env.dtype = config->dtype;
    pile.env.blocks = config->blocks;
    pile.layers = reserve(config->layers + OUTER_LAYERS, sizeof *pile.layers);
    add_stage(&pile, stages, stage);
    if (pile.status == TPP_OK) {
        pile.status = tpp_chain_create(out, &pile.env, pile.layers, pile.count);
    }
    if (pile.status != TPP_OK) { /* else they belong to the chain */
        for (int32_t i = 0; i < pile.count; i++) {
            tpp_layer_destroy(pile.layers[i]);
        }
    }
    free(pile.layers);
    return pile.status;
}
