/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_TP_DRAW_FIELDS_H
#define TPP_SUPPORT_TP_DRAW_FIELDS_H

/* What the numbers of a draw are: tp_draw.c draws them, tp_draw_case.c makes a layer of them. */

#include "support/tp_draw.h"

enum { COLUMN, ROW, MLP, ATTENTION, NORM, EMBEDDING, LOSS, BLOCK, GPT, KINDS };

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
    DROPOUT,
    SEQUENCE,
    PARALLEL
}; /* clang-format keeps a list */

enum { LATEST = 3 }; /* position where a sequence begins */

#endif
