/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/activation.h"
#include "kern/kern.h"

#define REAL float
#define FN(name) name##_f32
#include "kern/gated.inc"
#undef REAL
#undef FN

#define REAL double
#define FN(name) name##_f64
#include "kern/gated.inc"

void tpp__kern_gated_forward(const tpp__gated *gated) {
    if (gated->dtype == TPP_F32)
        forward_f32(gated);
    else
        forward_f64(gated);
}

void tpp__kern_gated_backward(const tpp__gated *gated) {
    if (gated->dtype == TPP_F32)
        backward_f32(gated);
    else
        backward_f64(gated);
}
