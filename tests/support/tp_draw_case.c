/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/tp_draw_fields.h"

#include <string.h>

static tpp_act act_of(const tp_draw *d) {
    static const tpp_act acts[] = {TPP_ACT_GELU_TANH,    TPP_ACT_GELU_ERF, TPP_ACT_RELU,
                                   TPP_ACT_SQUARED_RELU, TPP_ACT_SILU,     TPP_ACT_SWIGLU,
                                   TPP_ACT_GEGLU};
    return acts[d->of[ACT] - 1];
}

static const tpp_rope_desc *rope_of(const tp_draw *d, tpp_rope_desc *rope) {
    *rope = (tpp_rope_desc){.size = sizeof *rope, .theta = 100, .cols = d->of[ROPE_COLS]};
    if (d->of[ROPE] == 2)
        rope->flags = TPP_ROPE_INTERLEAVED;
    if (d->of[ROPE] >= 3)
        rope->factor = 4;
    if (d->of[ROPE] == 3)
        rope->scaling = TPP_ROPE_LINEAR;
    if (d->of[ROPE] == 4) {
        rope->scaling = TPP_ROPE_LLAMA3;
        rope->low_freq_factor = 1;
        rope->high_freq_factor = 3;
        rope->original_positions = 20;
    }
    return d->of[ROPE] ? rope : NULL;
}

static uint32_t flag(const tp_draw *d, int field, uint32_t bit) {
    return d->of[field] ? bit : 0;
}

static const tp_kind *describe_parts(const tp_draw *d, tp_draw_desc *r) {
    switch (d->of[KIND]) {
    case COLUMN:
    case ROW:
        r->desc.linear = (tpp_linear_desc){
            .size = sizeof r->desc.linear,
            .flags = flag(d, BARE, TPP_LINEAR_NO_BIAS) | flag(d, PADDED, TPP_LINEAR_PAD),
            .kind = d->of[KIND] == ROW ? TPP_LINEAR_ROW : TPP_LINEAR_COLUMN,
            .in = d->of[HIDDEN],
            .out = d->of[WIDTH]};
        return &tp_kind_linear;
    case MLP:
        r->desc.mlp = (tpp_mlp_desc){.size = sizeof r->desc.mlp,
                                     .flags = flag(d, BARE, TPP_MLP_NO_BIAS) |
                                              flag(d, SEPARATE, TPP_MLP_SEPARATE_GATE),
                                     .hidden = d->of[HIDDEN],
                                     .ffn = d->of[WIDTH],
                                     .act = act_of(d)};
        return &tp_kind_mlp;
    case ATTENTION:
        r->desc.attention = (tpp_attention_desc){
            .size = sizeof r->desc.attention,
            .flags = flag(d, BARE, TPP_ATTENTION_NO_BIAS) |
                     flag(d, QKV_BIAS, TPP_ATTENTION_QKV_BIAS) |
                     flag(d, SPLIT_QKV, TPP_ATTENTION_SEPARATE_QKV) |
                     flag(d, QK_NORM, TPP_ATTENTION_QK_NORM) | flag(d, FULL, TPP_ATTENTION_FULL),
            .hidden = d->of[HIDDEN],
            .heads = d->of[HEADS],
            .head_cols = d->of[HEAD_COLS],
            .kv_heads = d->of[KV_HEADS],
            .rope = rope_of(d, &r->rope),
            .window = d->of[WINDOW]};
        return &tp_kind_attention;
    default:
        r->desc.norm = (tpp_norm_desc){.size = sizeof r->desc.norm,
                                       .flags = flag(d, BARE, TPP_NORM_NO_BIAS),
                                       .cols = d->of[HIDDEN],
                                       .kind = d->of[RMS] ? TPP_NORM_RMS : TPP_NORM_LAYER};
        return &tp_kind_norm;
    }
}

static tpp_loss_desc loss_of(const tp_draw *d) {
    return (tpp_loss_desc){.size = sizeof(tpp_loss_desc),
                           .flags = flag(d, IGNORE, TPP_LOSS_IGNORE) |
                                    flag(d, OTHERS, TPP_LOSS_SMOOTH_OTHERS),
                           .vocab = d->of[VOCAB],
                           .ignore = d->of[IGNORE] == 1 ? -100 : 0,
                           .reduction = d->of[REDUCTION],
                           .smoothing = d->of[SMOOTHING] / 4.0,
                           .z_loss = d->of[Z_LOSS] / 8.0};
}

static const tp_kind *describe_loss(const tp_draw *d, tp_draw_desc *r) {
    int32_t head = d->of[HEAD];
    r->fused = loss_of(d);
    if (head == 0) {
        r->desc.loss = r->fused;
        return d->of[WEIGHTED] ? &tp_kind_loss_weighted : &tp_kind_loss;
    }
    r->desc.head = (tpp_head_desc){.size = sizeof r->desc.head,
                                   .flags = head == 3 ? TPP_HEAD_EARLY : 0,
                                   .hidden = d->of[HIDDEN],
                                   .vocab = d->of[VOCAB],
                                   .loss = head > 1 ? &r->fused : NULL,
                                   .block = head > 1 ? d->of[STEP] : 0};
    return head > 1 && d->of[WEIGHTED] ? &tp_kind_head_weighted : &tp_kind_head;
}

static uint32_t parallel_flags(int32_t norms) {
    static const uint32_t flags[] = {0, TPP_BLOCK_PARALLEL,
                                     TPP_BLOCK_PARALLEL | TPP_BLOCK_TWO_NORMS};
    return flags[norms];
}

static const tp_kind *describe_models(const tp_draw *d, tp_draw_desc *r) {
    switch (d->of[KIND]) {
    case EMBEDDING:
        r->desc.embedding = (tpp_embedding_desc){.size = sizeof r->desc.embedding,
                                                 .vocab = d->of[VOCAB],
                                                 .hidden = d->of[HIDDEN],
                                                 .positions = d->of[POSITIONS]};
        return &tp_kind_embedding;
    case LOSS:
        return describe_loss(d, r);
    case BLOCK:
        r->desc.block = (tpp_block_desc){.size = sizeof r->desc.block,
                                         .flags = flag(d, BARE, TPP_BLOCK_NO_BIAS) |
                                                  flag(d, SEPARATE, TPP_BLOCK_SEPARATE_GATE) |
                                                  parallel_flags(d->of[PARALLEL]),
                                         .hidden = d->of[HIDDEN],
                                         .ffn = d->of[WIDTH],
                                         .heads = d->of[HEADS],
                                         .act = act_of(d),
                                         .norm = d->of[RMS] ? TPP_NORM_RMS : TPP_NORM_LAYER,
                                         .kv_heads = d->of[KV_HEADS],
                                         .rope = rope_of(d, &r->rope),
                                         .window = d->of[WINDOW],
                                         .head_cols = d->of[HEAD_COLS],
                                         .dropout = d->of[DROPOUT] / 4.0};
        return &tp_kind_block;
    default:
        r->desc.gpt = (tp_gpt_desc){.vocab = d->of[VOCAB],
                                    .hidden = d->of[HIDDEN],
                                    .positions = d->of[POSITIONS],
                                    .heads = d->of[HEADS],
                                    .blocks = d->of[LAYERS],
                                    .kv_heads = d->of[KV_HEADS]};
        return &tp_kind_gpt;
    }
}

tp_case tp_draw_case(const tp_draw *d, tp_draw_desc *room) {
    memset(room, 0, sizeof *room);
    int part = d->of[KIND] <= NORM;
    return (tp_case){"draw", part ? describe_parts(d, room) : describe_models(d, room),
                     &room->desc};
}

tp_setup tp_draw_setup(const tp_draw *d) {
    static const tpp_dtype types[] = {TPP_F32, TPP_F64, TPP_BF16};
    return (tp_setup){.ranks = d->of[RANKS],
                      .blocks = d->of[BLOCKS],
                      .dtype = types[d->of[TYPE]],
                      .halves = d->of[HALVES],
                      .flags =
                          flag(d, UNEVEN, TPP_ENV_UNEVEN) | flag(d, SEQUENCE, TPP_ENV_SEQUENCE)};
}

/* Lengths and beginnings of the sequences. */
static void draw_sequences(const tp_draw *d, tp_draw_desc *room) {
    uint64_t state = (uint64_t)d->of[SEED] + 1;
    for (int32_t i = 0; i < d->of[BATCH]; i++) {
        room->lengths[i] = (int32_t)((tp_random(&state) + 1) / 2 * (d->of[SEQ] + 1));
        room->pasts[i] = (int32_t)((tp_random(&state) + 1) / 2 * (LATEST + 1));
    }
}

tp_full *tp_draw_full(const tp_draw *d, const tp_case *c, tp_draw_desc *room) {
    int32_t packed = d->of[PACKED];
    draw_sequences(d, room);
    tp_full *full =
        tp_full_packed_inputs(c, d->of[BATCH], d->of[SEQ], packed ? room->lengths : NULL,
                              packed == 2 ? room->pasts : NULL, (uint64_t)d->of[SEED]);
    if (d->of[TYPE] == 2)
        tp_full_round(full);
    tp_full_answer(c, full);
    return full;
}
