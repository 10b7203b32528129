/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/activation.h"
#include "kern/by_type.h"
#include "kern/kern.h"

#define TPP__TEMPLATE "kern/activation.inc"
#include "kern/each_type.inc"

void tpp__kern_act_forward(tpp_dtype dtype, int32_t act, int64_t n, const void *x, void *y) {
    TPP__BY_TYPE(dtype, forward, act, n, x, y);
}

void tpp__kern_act_backward(tpp_dtype dtype, int32_t act, int64_t n, const void *x, const void *dy,
                            void *dx) {
    TPP__BY_TYPE(dtype, backward, act, n, x, dy, dx);
}
