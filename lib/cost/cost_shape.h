/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COST_COST_SHAPE_H
#define TPP_COST_COST_SHAPE_H

#include "cost/cost_model.h"

#define TPP__COST_SHAPE_FLAGS (2 * TPP_COST_EXCHANGE - 1)

/* Tokens of a rank in a micro-batch. */
typedef struct tpp__cost_tokens {
    int64_t rank; /* T / c */
    int64_t own;  /* of norms and residuals: ceil(T / (c t)) with sequence parallelism, else all */
} tpp__cost_tokens;

/* Read and check a shape, with its defaults filled in. */
tpp_status tpp__cost_shape_read(tpp_cost_shape *out, tpp__cost_tokens *tokens,
                                const tpp_cost_shape *given);

#endif
