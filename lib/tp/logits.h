/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_LOGITS_H
#define TPP_TP_LOGITS_H

/* Logits of this rank's part of a vocabulary, [tokens, cols]: its blocks side by side, padding at the
 * end of the last ones. */

#include "kern/cross_entropy.h"
#include "tp/layer_impl.h"

/* Block `block` of this rank, padding left out. */
tpp__ce_block tpp__logits_block(const tpp_layer *layer, int64_t vocab, int64_t tokens, int64_t cols,
                                const void *logits, int32_t block);

/* Set padding to -infinity, so that it never wins an arg-max; of gradients to 0. */
void tpp__logits_pad(const tpp_layer *layer, int64_t vocab, int64_t tokens, int64_t cols,
                     void *logits, double value);

#endif
