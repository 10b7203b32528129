/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_COPIES_H
#define TPP_TP_COPIES_H

/* Parameters of which several blocks hold the same piece: tpp_layer_sum_copies in layer.h. */

#include "tp/layer_impl.h"

/* Scratch of tpp_layer_sum_copies; 0 without copies. */
int64_t tpp__copies_bytes(const tpp_layer *layer);

void tpp__copies_cost(const tpp_layer *layer, tpp__cost *cost);

#endif
