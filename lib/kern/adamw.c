/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/adamw.h"

#include <math.h>

#define REAL float
#define NAME adamw_f32
#define SQRT sqrtf
#include "kern/adamw.inc"
#undef REAL
#undef NAME
#undef SQRT
#define REAL double
#define NAME adamw_f64
#define SQRT sqrt
#include "kern/adamw.inc"

void tpp__kern_adamw(tpp_dtype dtype, const tpp__adamw *a, int64_t n, void *param, const void *grad,
                     void *m, void *v) {
    if (dtype == TPP_F32)
        adamw_f32(a, n, param, grad, m, v);
    else
        adamw_f64(a, n, param, grad, m, v);
}
