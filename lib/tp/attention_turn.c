/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/attention_impl.h"
#include "tp/sequences.h"

#include <string.h>

/* What happens to Q and K between their products and the scores, head by head and token by token:
 * a norm over the head's columns, then the turn by the token's position. */

static const tpp__attention_layer *attention_of(const tpp_layer *layer) {
    return (const tpp__attention_layer *)layer;
}

void tpp__attention_turn_scratch(const tpp_layer *layer, tpp__arena *arena) {
    tpp__arena_take(arena, tpp__turns_bytes(&attention_of(layer)->rope), 1);
}

/* Weight of the norm of head `number`: every block has its copy. */
static const char *gamma_of(const tpp_layer *layer, const tpp__work *work, int32_t section,
                            int64_t number) {
    const tpp__attention_layer *self = attention_of(layer);
    const char *gamma = tpp__param_of(layer, work, self->norm[section]);
    int64_t per_block = tpp__attention_section_heads(layer, section) / layer->count;
    return gamma + number / per_block * self->head_cols * layer->width;
}

static char *rstd_of(const tpp_layer *layer, const tpp__attention_saved *saved, int64_t row,
                     int32_t section, int64_t number) {
    int64_t heads = tpp__attention_section_heads(layer, section);
    return saved->rstd[section] + (row * heads + number) * layer->wide_width;
}

static void turn(const tpp_layer *layer, const tpp__turns *turns, void *x) {
    const tpp__rope *rope = turns->rope;
    if (rope->half > 0)
        tpp__kern_rotate(layer->dtype, rope->half, rope->interleaved, turns->row,
                         turns->row + rope->half, x);
}

static void row_forward(const tpp_layer *layer, const tpp__work *work,
                        const tpp__attention_saved *saved, const tpp__turns *turns, int64_t row,
                        int32_t section) {
    const tpp__attention_layer *self = attention_of(layer);
    for (int64_t n = 0; n < tpp__attention_section_heads(layer, section); n++) {
        tpp__place x = tpp__attention_place(layer, &saved->qkv, row, section, n);
        if (self->normed)
            tpp__kern_norm_forward(layer->dtype, 1, self->head_cols, self->epsilon,
                                   tpp__attention_place(layer, &saved->raw, row, section, n).at,
                                   gamma_of(layer, work, section, n), NULL, x.at, NULL,
                                   rstd_of(layer, saved, row, section, n));
        turn(layer, turns, x.at);
    }
}

static void row_backward(const tpp_layer *layer, const tpp__work *work,
                         const tpp__attention_saved *saved, const tpp__turns *turns, int64_t row,
                         int32_t section, const tpp__projected *grads, char *sums) {
    const tpp__attention_layer *self = attention_of(layer);
    int64_t heads = tpp__attention_section_heads(layer, section);
    for (int64_t n = 0; n < heads; n++) {
        char *grad = tpp__attention_place(layer, grads, row, section, n).at;
        turn(layer, turns, grad);
        if (!self->normed)
            continue;
        const char *x = tpp__attention_place(layer, &saved->raw, row, section, n).at;
        const char *rstd = rstd_of(layer, saved, row, section, n);
        int64_t block = n / (heads / layer->count);
        char *sum = sums + (section * layer->count + block) * self->head_cols * layer->wide_width;
        tpp__kern_norm_backward_weight(layer->dtype, 1, self->head_cols, x, NULL, rstd, grad, sum,
                                       NULL);
        tpp__kern_norm_backward_input(layer->dtype, 1, self->head_cols, x,
                                      gamma_of(layer, work, section, n), NULL, rstd, grad, grad);
    }
}

static bool idle(const tpp_layer *layer) {
    return attention_of(layer)->rope.half == 0 && !attention_of(layer)->normed;
}

void tpp__attention_turn_forward(const tpp_layer *layer, const tpp__work *work,
                                 const tpp__attention_saved *saved) {
    const tpp__rope *rope = &attention_of(layer)->rope;
    tpp__arena arena = work->scratch;
    if (idle(layer))
        return;
    tpp__turns turns =
        tpp__turns_over(rope, false, tpp__arena_take(&arena, tpp__turns_bytes(rope), 1));
    for (tpp__sequence s = tpp__sequence_first(work); s.index < work->batch;
         s = tpp__sequence_next(work, s)) {
        for (int64_t i = 0; i < s.count; i++) {
            tpp__turns_to(&turns, tpp__sequence_position(layer, &s, i));
            row_forward(layer, work, saved, &turns, s.first + i, TPP__Q);
            row_forward(layer, work, saved, &turns, s.first + i, TPP__K);
        }
    }
}

void tpp__attention_turn_backward(const tpp_layer *layer, const tpp__work *work,
                                  const tpp__attention_saved *saved, const tpp__projected *grads,
                                  char *sums, tpp__arena scratch) {
    const tpp__attention_layer *self = attention_of(layer);
    if (idle(layer))
        return;
    if (self->normed)
        memset(sums, 0, (size_t)(2 * layer->count * self->head_cols * layer->wide_width));
    tpp__turns turns = tpp__turns_over(&self->rope, true,
                                       tpp__arena_take(&scratch, tpp__turns_bytes(&self->rope), 1));
    for (tpp__sequence s = tpp__sequence_first(work); s.index < work->batch;
         s = tpp__sequence_next(work, s)) {
        for (int64_t i = 0; i < s.count; i++) {
            tpp__turns_to(&turns, tpp__sequence_position(layer, &s, i));
            row_backward(layer, work, saved, &turns, s.first + i, TPP__Q, grads, sums);
            row_backward(layer, work, saved, &turns, s.first + i, TPP__K, grads, sums);
        }
    }
}
