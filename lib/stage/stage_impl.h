/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_STAGE_STAGE_IMPL_H
#define TPP_STAGE_STAGE_IMPL_H

#include "base/alloc.h"

#include <stdbool.h>
#include <tpp/stage.h>

struct tpp_stage {
    tpp_allocator allocator;
    int64_t bytes; /* of this struct and everything behind it */
    tpp_comm *comm;
    int32_t chunks, micros, slots;
    bool halves, no_grad;
    int64_t batch, seq;
    const int32_t *ids, *targets; /* of the next step */
    const double *weights;        /* of its tokens; NULL: 1 */
    double weight_sum;
    uint64_t dropout_seed; /* 0: none */
    double loss_weight;    /* 0: by the rule in stage.h */
    /* [micros, batch], of the next steps; NULL: seq each, 0 */
    const int32_t *lengths, *past;
    const tpp_layer **layers;
    const void **params;
    void **grads;
    void **late; /* of the second half of micro-batches; NULL: in grads */
    tpp_layer_info *infos;
    bool has_loss;
    char *saved;         /* slots * saved_bytes */
    int64_t saved_bytes; /* of a slot */
    char *scratch;
    int64_t scratch_bytes;
    int64_t work_bytes; /* saved and scratch of all slots */
    char *losses;       /* tokens of one micro-batch, in the layer's type */
    char *slopes;       /* gradients of them: as many times loss_weight */
    double *sums;       /* [micros] */
};

/* Tokens of a micro-batch. */
int64_t tpp__stage_tokens(const tpp_stage *stage, int32_t micro);

/* stage->slopes from loss_weight, or from the number of tokens. */
void tpp__stage_fill_slopes(tpp_stage *stage);

#endif
