/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_CUSTOM_IMPL_H
#define TPP_TP_CUSTOM_IMPL_H

/* What custom_new.c fills and custom.c works with. */

#include "tp/layer_impl.h"

#include <tpp/custom.h>

typedef struct tpp__custom {
    tpp_layer base;
    tpp_custom_ops ops;
    void *ctx;
    int64_t *offsets, *grad_offsets; /* [params] */
} tpp__custom;

extern const tpp__layer_ops tpp__custom_ops;

#endif
