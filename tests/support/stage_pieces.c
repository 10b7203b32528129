/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/stage_pieces.h"

#include "support/tp_custom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void check(tpp_status status) {
    if (status < 0)
        fail_msg("%s: %s", tpp_status_name(status), tpp_message());
}

/* The end of a tied model. */
static tpp_layer *make_tied_head(const tpp_layer_env *base) {
    tpp_layer_env env = *base;
    tpp_layer *layer;
    tpp_loss_desc loss = {.size = sizeof loss, .vocab = STAGE_VOCAB};
    tpp_head_desc head = {.size = sizeof head,
                          .flags = TPP_HEAD_COPY,
                          .hidden = STAGE_HIDDEN,
                          .vocab = STAGE_VOCAB,
                          .loss = &loss,
                          .block = 4};
    env.name = "p0.";
    check(tpp_head_create(&layer, &env, &head));
    return layer;
}

/* A block, and behind it a custom layer. */
static tpp_layer *make_block(const tpp_layer_env *env, const stage_layout *l, int32_t piece) {
    static const tp_custom gate = {STAGE_HIDDEN, 0, 0};
    tpp_block_desc d = {
        .size = sizeof d, .hidden = STAGE_HIDDEN, .heads = 4, .init_std = 0.2, .dropout = 0.25};
    tpp_layer *both[2], *layer;
    d.recompute = l->recompute ? piece % 3 : TPP_RECOMPUTE_NONE;
    check(tpp_block_create(&both[0], env, &d));
    if (!l->custom)
        return both[0];
    check(tp_kind_custom_gate.create(&both[1], env, &gate));
    check(tpp_chain_create(&layer, env, both, 2));
    return layer;
}

static tpp_layer *make_piece(const tpp_layer_env *base, const stage_layout *l, int32_t piece) {
    char name[16];
    tpp_layer_env env = *base;
    tpp_layer *layer;
    if (l->tied && piece == STAGE_PIECES - 1)
        return make_tied_head(base);
    snprintf(name, sizeof name, "p%d.", piece);
    env.name = name;
    if (piece == 0) {
        tpp_embedding_desc d = {
            .size = sizeof d, .vocab = STAGE_VOCAB, .hidden = STAGE_HIDDEN, .positions = STAGE_SEQ};
        d.flags = l->tied ? TPP_EMBEDDING_TIED : 0;
        check(tpp_embedding_create(&layer, &env, &d));
    } else if (piece < STAGE_PIECES - 2) {
        layer = make_block(&env, l, piece);
    } else if (piece == STAGE_PIECES - 2) {
        tpp_norm_desc d = {.size = sizeof d, .cols = STAGE_HIDDEN};
        check(tpp_norm_create(&layer, &env, &d));
    } else {
        tpp_linear_desc head = {.size = sizeof head,
                                .flags = TPP_LINEAR_PAD | TPP_LINEAR_NO_BIAS,
                                .kind = TPP_LINEAR_COLUMN,
                                .in = STAGE_HIDDEN,
                                .out = STAGE_VOCAB,
                                .init_std = 0.2};
        tpp_loss_desc loss = {.size = sizeof loss, .vocab = STAGE_VOCAB};
        tpp_layer *both[2];
        check(tpp_linear_create(&both[0], &env, &head));
        check(tpp_loss_create(&both[1], &env, &loss));
        check(tpp_chain_create(&layer, &env, both, 2));
    }
    return layer;
}

tpp_layer *stage_make(const tpp_layer_env *env, const stage_layout *l, int32_t stage,
                      int32_t stages) {
    tpp_layer *pieces[STAGE_PIECES], *chain;
    int32_t first, count;
    check(tpp_schedule_partition(STAGE_PIECES, stages, stage, &first, &count));
    for (int32_t i = 0; i < count; i++)
        pieces[i] = make_piece(env, l, first + i);
    check(tpp_chain_create(&chain, env, pieces, count));
    return chain;
}
