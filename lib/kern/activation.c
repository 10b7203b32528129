/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/activation.h"
#include "kern/kern.h"

#define REAL float
#define FN(name) name##_f32
#include "kern/activation.inc"
#undef REAL
#undef FN

#define REAL double
#define FN(name) name##_f64
#include "kern/activation.inc"

void tpp__kern_act_forward(tpp_dtype dtype, int32_t act, int64_t n, const void *x, void *y) {
    if (dtype == TPP_F32)
        forward_f32(act, n, x, y);
    else
        forward_f64(act, n, x, y);
}

void tpp__kern_act_backward(tpp_dtype dtype, int32_t act, int64_t n, const void *x, const void *dy,
                            void *dx) {
    if (dtype == TPP_F32)
        backward_f32(act, n, x, dy, dx);
    else
        backward_f64(act, n, x, dy, dx);
}
