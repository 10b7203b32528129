/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_LOSS_RULE_H
#define TPP_TP_LOSS_RULE_H

/* What every cross-entropy layer needs beside its passes over logits: the checked descriptor, tokens
 * and their weights, and the two ends, call.out and the gradients of the token losses. */

#include "kern/cross_entropy.h"
#include "tp/layer_impl.h"

#include <tpp/loss.h>

typedef struct tpp__loss_rule {
    int64_t vocab;
    bool ignores;
    int32_t ignore;
    tpp_reduction reduction;
    tpp__ce_rule ce;
} tpp__loss_rule;

/* Read and check the caller's struct, called `name` in messages. */
tpp_status tpp__loss_read(tpp__loss_rule *out, const tpp_loss_desc *given, const char *name);

/* What a layer that ends in a loss tells of itself. */
void tpp__loss_ends(tpp_layer *layer, const tpp__loss_rule *rule);

/* Check targets and weights; weight[tokens]: 0 where ignored. */
tpp_status tpp__loss_weights(const tpp__loss_rule *rule, const tpp__work *work, double *weight);

/* Fails when the largest logit of a token that counts is infinite; `first` is the number of the first
 * token. */
tpp_status tpp__loss_check_largest(const tpp_layer *layer, int64_t first, int64_t tokens,
                                   const void *largest, const double *weight);

/* call.out from the token losses. */
void tpp__loss_out(const tpp_layer *layer, const tpp__loss_rule *rule, const tpp__work *work,
                   const double *loss);

/* w[tokens], of layer->wide: gradient of what the caller minimizes by the loss of a token of
 * weight 1 (grad_out NULL: 1); 0 where the weight is 0. Checks as tpp__loss_weights; weight[tokens] is scratch. */
tpp_status tpp__loss_slopes(const tpp_layer *layer, const tpp__loss_rule *rule,
                            const tpp__work *work, double *weight, void *w);

/* Over ranks, in place; of layer->wide. */
tpp_status tpp__loss_reduce(const tpp_layer *layer, void *data, int64_t count, tpp_reduce how);

/* Element i of an array of layer->wide. */
double tpp__loss_load(const tpp_layer *layer, const void *array, int64_t i);

/* Numbers per token that are summed over blocks and ranks: of exponentials, with smoothing of
 * shifted logits, and the target's. */
static inline int32_t tpp__loss_sums(const tpp__loss_rule *rule) {
    return rule->ce.each != 0 ? 3 : 2;
}

/* The two all-reduces of a forward. */
void tpp__loss_cost(const tpp_layer *layer, const tpp__loss_rule *rule, int64_t tokens,
                    tpp__cost *cost);

#endif
