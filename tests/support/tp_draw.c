/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/tp_draw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMN, ROW, MLP, ATTENTION, NORM, EMBEDDING, LOSS, BLOCK, GPT, KINDS };
static const char *const kinds[KINDS] = {"column",    "row",  "mlp",   "attention", "norm",
                                         "embedding", "loss", "block", "gpt"};

enum {
    ON_ALL = (1 << KINDS) - 1,
    ON_LINEAR = 1 << COLUMN | 1 << ROW,
    ON_MLP = 1 << MLP | 1 << BLOCK,
    ON_HEADS = 1 << ATTENTION | 1 << BLOCK | 1 << GPT,
    ON_BIAS = ON_LINEAR | 1 << MLP | 1 << ATTENTION | 1 << NORM | 1 << BLOCK,
    ON_VOCAB = 1 << EMBEDDING | 1 << LOSS | 1 << GPT,
    ON_LOSS = 1 << LOSS,
    ON_HIDDEN = ON_ALL,
    ON_MEETING = 1 << ATTENTION | 1 << BLOCK,
    ON_SEQUENCES = ON_MEETING | 1 << EMBEDDING | 1 << GPT,
    ON_UNEVEN = ON_LINEAR | ON_MLP | ON_HEADS
};

enum {
    KIND,
    RANKS,
    BLOCKS,
    TYPE,
    HALVES,
    BATCH,
    SEQ,
    HIDDEN,
    WIDTH,
    ACT,
    HEADS,
    KV_HEADS,
    HEAD_COLS,
    VOCAB,
    POSITIONS,
    LAYERS,
    BARE,
    SEPARATE,
    RMS,
    UNEVEN,
    PADDED,
    WINDOW,
    FULL,
    QK_NORM,
    QKV_BIAS,
    SPLIT_QKV,
    ROPE,
    ROPE_COLS,
    SEED,
    REDUCTION,
    IGNORE,
    SMOOTHING,
    OTHERS,
    Z_LOSS,
    WEIGHTED,
    HEAD,
    STEP,
    PACKED,
    DROPOUT
}; /* clang-format keeps a list */

enum { LATEST = 3 }; /* position where a sequence begins */

/* A field: which kinds it matters for, its smallest and its largest value. */
static const struct {
    const char *name;
    int32_t kinds, least, most;
} fields[TP_DRAW_FIELDS] = {
    [KIND] = {"kind", ON_ALL, 0, KINDS - 1},
    [RANKS] = {"ranks", ON_ALL, 1, 8},
    [BLOCKS] = {"blocks", ON_ALL, 0, 8},
    [TYPE] = {"type", ON_ALL, 0, 2}, /* float32, float64, bfloat16 */
    [HALVES] = {"halves", ON_ALL, 0, 1},
    [BATCH] = {"batch", ON_ALL, 0, 3},
    [SEQ] = {"seq", ON_ALL, 0, 9},
    [HIDDEN] = {"hidden", ON_HIDDEN, 1, 24},
    [WIDTH] = {"width", ON_LINEAR | ON_MLP, 1, 40}, /* the other side of a linear layer; ffn */
    [ACT] = {"act", ON_MLP, 1, 7},
    [HEADS] = {"heads", ON_HEADS, 1, 16},
    [KV_HEADS] = {"kv_heads", ON_HEADS, 0, 16},
    [HEAD_COLS] = {"head_cols", ON_MEETING, 0, 6},
    [VOCAB] = {"vocab", ON_VOCAB, 1, 40},
    [POSITIONS] = {"positions", 1 << EMBEDDING | 1 << GPT, 0, 12},
    [LAYERS] = {"layers", 1 << GPT, 1, 2},
    [BARE] = {"bare", ON_BIAS, 0, 1}, /* no biases */
    [SEPARATE] = {"separate", ON_MLP, 0, 1},
    [RMS] = {"rms", 1 << NORM | 1 << BLOCK, 0, 1},
    [UNEVEN] = {"uneven", ON_UNEVEN, 0, 1},
    [PADDED] = {"padded", 1 << COLUMN, 0, 1},
    [WINDOW] = {"window", ON_MEETING, 0, 6},
    [FULL] = {"full", ON_MEETING, 0, 1},
    [QK_NORM] = {"qk_norm", ON_MEETING, 0, 1},
    [QKV_BIAS] = {"qkv_bias", ON_MEETING, 0, 1}, /* with bare */
    [SPLIT_QKV] = {"split_qkv", ON_MEETING, 0, 1},
    [ROPE] = {"rope", ON_MEETING, 0, 4}, /* none, plain, interleaved, linear, Llama 3's */
    [ROPE_COLS] = {"rope_cols", ON_MEETING, 0, 6},
    [SEED] = {"seed", ON_ALL, 0, INT32_MAX},
    [REDUCTION] = {"reduction", ON_LOSS, 0, 2},
    [IGNORE] = {"ignore", ON_LOSS, 0, 2},       /* no, a number that is no class, a class */
    [SMOOTHING] = {"smoothing", ON_LOSS, 0, 3}, /* quarters */
    [OTHERS] = {"others", ON_LOSS, 0, 1},
    [Z_LOSS] = {"z_loss", ON_LOSS, 0, 2}, /* eighths */
    [WEIGHTED] = {"weighted", ON_LOSS, 0, 1},
    [HEAD] = {"head", ON_LOSS, 0, 3},  /* none: of logits; plain: no loss; fused; early */
    [STEP] = {"step", ON_LOSS, 1, 30}, /* tokens at a time */
    /* no, sequences of 0 .. seq tokens, that also begin at later positions */
    [PACKED] = {"packed", ON_SEQUENCES, 0, 2},
    [DROPOUT] = {"dropout", 1 << BLOCK, 0, 3}, /* quarters */
};

static int matters(const tp_draw *d, int field) {
    return fields[field].kinds >> d->of[KIND] & 1;
}

/* Fields that do not matter have their least value. */
static void settle(tp_draw *d) {
    for (int f = 0; f < TP_DRAW_FIELDS; f++)
        if (!matters(d, f))
            d->of[f] = fields[f].least;
}

static int32_t blocks_of(const tp_draw *d) {
    return d->of[BLOCKS] ? d->of[BLOCKS] : d->of[RANKS];
}

static int legal_heads(const tp_draw *d) {
    int32_t heads = d->of[HEADS], kv = d->of[KV_HEADS] ? d->of[KV_HEADS] : heads;
    int32_t blocks = blocks_of(d);
    if (d->of[HEAD_COLS] == 0 && d->of[HIDDEN] % heads != 0)
        return 0;
    if (heads % kv != 0)
        return 0;
    return d->of[UNEVEN] || (heads % blocks == 0 && (kv % blocks == 0 || blocks % kv == 0));
}

static int legal_meeting(const tp_draw *d) {
    int32_t cols = d->of[HEAD_COLS] ? d->of[HEAD_COLS] : d->of[HIDDEN] / d->of[HEADS];
    int32_t turned = d->of[ROPE_COLS] ? d->of[ROPE_COLS] : cols;
    if (d->of[ROPE] == 0 ? d->of[ROPE_COLS] != 0 : turned % 2 != 0 || turned > cols)
        return 0;
    if (d->of[QK_NORM] && cols < 4) /* as for the norms below */
        return 0;
    return !d->of[QKV_BIAS] || d->of[BARE];
}

static int legal_width(const tp_draw *d) {
    int32_t split = d->of[KIND] == ROW ? d->of[HIDDEN] : d->of[WIDTH];
    int gated = d->of[ACT] >= 6;
    if (matters(d, SEPARATE) && d->of[SEPARATE] && !gated)
        return 0;
    return split % blocks_of(d) == 0 || d->of[UNEVEN] || d->of[PADDED];
}

static int legal_loss(const tp_draw *d) {
    if (d->of[OTHERS] && d->of[SMOOTHING] && d->of[VOCAB] == 1)
        return 0;
    return d->of[HEAD] != 3 || d->of[REDUCTION] != 0;
}

int tp_draw_legal(const tp_draw *d) {
    for (int f = 0; f < TP_DRAW_FIELDS; f++)
        if (d->of[f] < fields[f].least || d->of[f] > fields[f].most)
            return 0;
    int32_t blocks = d->of[BLOCKS];
    if (blocks && ((blocks & (blocks - 1)) != 0 || blocks % d->of[RANKS] != 0))
        return 0;
    if (matters(d, HEADS) && !legal_heads(d))
        return 0;
    if (matters(d, ROPE) && !legal_meeting(d))
        return 0;
    if (matters(d, REDUCTION) && !legal_loss(d))
        return 0;
    if (matters(d, WIDTH) && !legal_width(d))
        return 0;
    /* A norm of 1 to 3 numbers gives nearly the same whatever it is fed: its gradient is what is left
     * of terms that cancel, far below their rounding. */
    if ((d->of[KIND] == NORM || d->of[KIND] == BLOCK || d->of[KIND] == GPT) && d->of[HIDDEN] < 4)
        return 0;
    if (d->of[KIND] == GPT && !d->of[UNEVEN] && 4 * d->of[HIDDEN] % blocks_of(d) != 0) /* its ffn */
        return 0;
    /* Layers behind one another may lose all of bfloat16's 8 digits where terms cancel. */
    if (d->of[TYPE] == 2 && (d->of[KIND] == BLOCK || d->of[KIND] == GPT))
        return 0;
    if (d->of[PACKED] && d->of[DROPOUT]) /* the reference does one sequence after the other */
        return 0;
    int32_t end = d->of[SEQ] + (d->of[PACKED] == 2 ? LATEST : 0);
    return !d->of[POSITIONS] || d->of[POSITIONS] >= end;
}

tp_draw tp_draw_new(uint64_t seed) {
    tp_draw d;
    /* what came later has numbers of its own, so that other draws stay what they were */
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1, later = ~state;
    int32_t kind = -1;
    do {
        for (int f = 0; f < TP_DRAW_FIELDS; f++) {
            int64_t span = (int64_t)fields[f].most - fields[f].least + 1;
            int64_t draw =
                (int64_t)((tp_random(f > SEED ? &later : &state) + 1) / 2 * (double)span);
            d.of[f] = (int32_t)(fields[f].least + draw);
        }
        kind = kind < 0 ? d.of[KIND] : kind; /* kinds with many rules are not drawn less often */
        d.of[KIND] = kind;
        settle(&d);
    } while (!tp_draw_legal(&d));
    return d;
}

void tp_draw_tell(const tp_draw *d, char text[TP_DRAW_TEXT]) {
    int used = snprintf(text, TP_DRAW_TEXT, "kind=%s", kinds[d->of[KIND]]);
    for (int f = 1; f < TP_DRAW_FIELDS; f++)
        if (matters(d, f) && d->of[f] != fields[f].least)
            used += snprintf(text + used, (size_t)(TP_DRAW_TEXT - used), " %s=%d", fields[f].name,
                             d->of[f]);
}

static int read_one(tp_draw *d, const char *word) {
    const char *value = strchr(word, '=');
    if (!value)
        return 0;
    size_t length = (size_t)(value - word);
    for (int k = 0; !strncmp(word, "kind=", 5) && k < KINDS; k++) {
        if (!strcmp(value + 1, kinds[k])) {
            d->of[KIND] = k;
            return 1;
        }
    }
    for (int f = 1; f < TP_DRAW_FIELDS; f++) {
        if (strlen(fields[f].name) == length && !strncmp(fields[f].name, word, length)) {
            d->of[f] = (int32_t)strtol(value + 1, NULL, 10);
            return 1;
        }
    }
    return 0;
}

int tp_draw_read(tp_draw *d, const char *text) {
    char copy[TP_DRAW_TEXT];
    char *rest = copy;
    if (strlen(text) >= sizeof copy)
        return 0;
    snprintf(copy, sizeof copy, "%s", text);
    for (int f = 0; f < TP_DRAW_FIELDS; f++)
        d->of[f] = fields[f].least;
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        if (!read_one(d, word))
            return 0;
    return tp_draw_legal(d);
}

/* Three attempts a field: the least value, half of the way there, one less. */
int tp_draw_smaller(const tp_draw *d, int attempt, tp_draw *out) {
    int f = attempt / 3;
    if (f >= TP_DRAW_FIELDS)
        return 0;
    int32_t above = d->of[f] - fields[f].least;
    static const int32_t left[] = {0, 2, 1};
    *out = *d;
    if (f != KIND && above > 0)
        out->of[f] -= left[attempt % 3] == 0 ? above : left[attempt % 3] == 2 ? (above + 1) / 2 : 1;
    return 1;
}

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
                                                  flag(d, SEPARATE, TPP_BLOCK_SEPARATE_GATE),
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
    return (tp_case){kinds[d->of[KIND]], part ? describe_parts(d, room) : describe_models(d, room),
                     &room->desc};
}

tp_setup tp_draw_setup(const tp_draw *d) {
    static const tpp_dtype types[] = {TPP_F32, TPP_F64, TPP_BF16};
    return (tp_setup){.ranks = d->of[RANKS],
                      .blocks = d->of[BLOCKS],
                      .dtype = types[d->of[TYPE]],
                      .halves = d->of[HALVES],
                      .flags = flag(d, UNEVEN, TPP_ENV_UNEVEN)};
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
