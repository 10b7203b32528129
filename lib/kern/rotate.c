/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/by_type.h"
#include "kern/kern.h"
#include "kern/vector.h"

#define TPP__TEMPLATE "kern/rotate.inc"
#include "kern/each_type.inc"

void tpp__kern_rotate(tpp_dtype dtype, int64_t half, int32_t interleaved, const double *cosine,
                      const double *sine, void *x) {
    TPP__BY_TYPE(dtype, rotate, half, interleaved, cosine, sine, x);
}
