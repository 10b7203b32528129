/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/activation.h"
#include "kern/by_type.h"
#include "kern/kern.h"

#define TPP__TEMPLATE "kern/gated.inc"
#include "kern/each_type.inc"

void tpp__kern_gated_forward(const tpp__gated *gated) {
    TPP__BY_TYPE(gated->dtype, forward, gated);
}

void tpp__kern_gated_backward(const tpp__gated *gated) {
    TPP__BY_TYPE(gated->dtype, backward, gated);
}
