/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/tp_draw_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    [SEQUENCE] = {"sequence", ON_ALL, 0, 1},
    [PARALLEL] = {"parallel", 1 << BLOCK, 0, 2}, /* with one norm or two */
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
    int fused = d->of[KIND] == LOSS && d->of[HEAD] > 1;
    if (d->of[TYPE] == 2 && (fused || d->of[KIND] == BLOCK || d->of[KIND] == GPT))
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
