/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_MLP_IMPL_H
#define TPP_TP_MLP_IMPL_H

/* What mlp_create.c fills and mlp.c works with. */

#include "tp/layer_impl.h"

typedef struct mlp {
    tpp_layer base;
    int64_t ffn; /* columns that go into the second matrix, on this rank */
    int32_t act; /* TPP__ACT_..., of the gate when there is one */
    bool gated;
    int32_t matrices;  /* that the input goes into: 2 with a separate gate, which comes first */
    int64_t first_out; /* columns of each, on this rank: 2 * ffn with a fused gate */
    /* numbers of the parameters; those that are not there are beyond all */
    int32_t first[2], first_bias[2], down, down_bias;
} mlp;

extern const tpp__layer_ops tpp__mlp_ops;

#endif
