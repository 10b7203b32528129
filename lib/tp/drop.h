/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_DROP_H
#define TPP_TP_DROP_H

/* Dropout of a tensor [rows of this rank, cols] of whole rows: nothing is saved, backward makes the
 * mask again. */

#include "tp/layer_impl.h"

typedef struct tpp__drop {
    double rate; /* 0: none */
    uint64_t key;
} tpp__drop;

/* 0 <= rate < 1. */
tpp_status tpp__check_rate(const char *field, double rate);

/* The dropout `name` of the layer; its name makes the mask. */
tpp__drop tpp__drop_make(const tpp_layer *layer, const char *name, double rate);

/* Does this call drop anything? */
bool tpp__drops(const tpp__drop *drop, const tpp__work *work);

/* y = what is left of x; y may be x. Only when tpp__drops. */
void tpp__drop_apply(const tpp_layer *layer, const tpp__drop *drop, const tpp__work *work,
                     int64_t cols, const void *x, void *y);

#endif
