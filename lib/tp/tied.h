/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_TIED_H
#define TPP_TP_TIED_H

/* Layers that use the table of an embedding elsewhere in the same chain: `layer->tied` is that embedding
 * as long as it is outside of the layer. A chain finds it among its children, or wants it itself. */

#include "tp/layer_impl.h"

/* Where the parameters of a layer inside another lie. */
typedef struct tpp__tied_place {
    int64_t state, grads; /* bytes */
} tpp__tied_place;
bool tpp__tied_find(const tpp_layer *layer, const tpp_layer *wanted, tpp__tied_place *out);

/* The chain, which has all its children, takes over what `child` still wants. */
tpp_status tpp__tied_adopt(tpp_layer *chain, const tpp_layer *child);

/* Point a child's work at the table that it wants. */
void tpp__tied_point(const tpp_layer *chain, const tpp_layer *child, const tpp__work *work,
                     tpp__work *child_work);

/* Scratch of tpp_layer_sum_tied for this layer. */
int64_t tpp__tied_bytes(const tpp_layer *layer);

#endif
