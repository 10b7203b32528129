/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_ATTENTION_CONTEXT_H
#define TPP_TP_ATTENTION_CONTEXT_H

/* The heads of sequences that are spread over the ranks of env.context: the same as
 * tpp__attention_heads_forward and _backward, by either way. */

#include "tp/attention_impl.h"
#include "tp/cost_impl.h"

/* The rule for the way over the context group: heads that all-to-all can deal out. */
tpp_status tpp__attention_check_context(const tpp_layer *layer);

/* Pairs of a query and a key of one sequence on this rank, per head that it has: those in tiles that
 * are computed, and those that the mask lets through. */
void tpp__attention_pairs(const tpp_layer *layer, int64_t seq, double *tiles, double *seen);

/* Messages over the context group in forward, or in backward. */
void tpp__attention_context_cost(const tpp_layer *layer, bool backward, tpp__cost *cost);

void tpp__attention_ring_scratch(const tpp_layer *layer, int64_t tokens, int64_t seq,
                                 tpp__arena *arena);
tpp_status tpp__attention_ring_forward(const tpp_layer *layer, const tpp__work *work,
                                       const tpp__attention_saved *saved);
tpp_status tpp__attention_ring_backward(const tpp_layer *layer, const tpp__work *work,
                                        const tpp__attention_saved *saved, const char *grad_heads,
                                        const tpp__projected *grads, tpp__arena arena);

void tpp__attention_exchange_scratch(const tpp_layer *layer, int64_t tokens, int64_t seq,
                                     tpp__arena *arena);
/* Which of the 2c chunks of a sequence rank `rank` holds first (0) and second (1). */
int64_t tpp__context_chunk(const tpp_layer *layer, int32_t rank, int32_t which);

tpp_status tpp__attention_exchange_forward(const tpp_layer *layer, const tpp__work *work,
                                           const tpp__attention_saved *saved);
tpp_status tpp__attention_exchange_backward(const tpp_layer *layer, const tpp__work *work,
                                            const tpp__attention_saved *saved,
                                            const char *grad_heads, const tpp__projected *grads,
                                            tpp__arena arena);

#endif
