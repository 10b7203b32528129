/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_TP_DRAW_H
#define TPP_SUPPORT_TP_DRAW_H

/* Random configurations of layers: a handful of small integers, drawn from a seed, legal by rules
 * that are written here a second time, told as one line of text and read back from it, and made
 * smaller one by one. tests/tp/test_tp_random.c runs them. */

#include "support/tp_run.h"

enum { TP_DRAW_FIELDS = 41, TP_DRAW_TEXT = 480 };

/* What each number means stands in the table of tp_draw.c. */
typedef struct tp_draw {
    int32_t of[TP_DRAW_FIELDS];
} tp_draw;

/* Room for the descriptor of a case. */
typedef struct tp_draw_desc {
    tpp_rope_desc rope;
    tpp_loss_desc fused; /* of a head */
    int32_t lengths[4], pasts[4];
    union {
        tpp_linear_desc linear;
        tpp_mlp_desc mlp;
        tpp_attention_desc attention;
        tpp_norm_desc norm;
        tpp_embedding_desc embedding;
        tpp_loss_desc loss;
        tpp_head_desc head;
        tpp_block_desc block;
        tp_gpt_desc gpt;
    } desc;
} tp_draw_desc;

/* Configuration number `seed`; always legal. */
tp_draw tp_draw_new(uint64_t seed);

/* 1: a library that keeps its promises accepts it. */
int tp_draw_legal(const tp_draw *draw);

/* "kind=mlp ranks=4 .."; fields that do not matter for the kind, or are 0, are left out. */
void tp_draw_tell(const tp_draw *draw, char text[TP_DRAW_TEXT]);
/* 0: not such a text. */
int tp_draw_read(tp_draw *draw, const char *text);

/* Attempt number `attempt` to make it smaller; 0: there is no such attempt. *out may be illegal. */
int tp_draw_smaller(const tp_draw *draw, int attempt, tp_draw *out);

/* What it stands for. */
tp_case tp_draw_case(const tp_draw *draw, tp_draw_desc *room);
tp_setup tp_draw_setup(const tp_draw *draw);
tp_full *tp_draw_full(const tp_draw *draw, const tp_case *c, tp_draw_desc *room);

#endif
