/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_SEQUENCES_H
#define TPP_TP_SEQUENCES_H

/* Which rows of a call's matrices belong to which sequence, and where their tokens stand: the one
 * place that knows of call.lengths and call.past.
 *
 *     for (tpp__sequence s = tpp__sequence_first(work); s.index < work->batch;
 *          s = tpp__sequence_next(work, s)) */

#include "tp/layer_impl.h"

typedef struct tpp__sequence {
    int64_t index;
    int64_t first, count; /* rows */
    int64_t past;         /* position of its first row's token */
} tpp__sequence;

/* Position of the token in row i of a sequence. */
int64_t tpp__sequence_position(const tpp_layer *layer, const tpp__sequence *s, int64_t i);

tpp__sequence tpp__sequence_first(const tpp__work *work);
tpp__sequence tpp__sequence_next(const tpp__work *work, tpp__sequence before);

#endif
