/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/adamw.h"

#include "base/bf16.h"

#include <math.h>

/* What a pass over the elements writes. */
enum { TO_PARAMS = 1, TO_MOMENTS = 2 };

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

enum { PIECE = 256 };

/* Both sums of a rounded number and what rounding left are exact. */
static inline void adamw_bf16(const tpp__adamw *a, int64_t n, tpp__bf16 *param, const float *grad,
                              float *m, float *v, float *rest, uint32_t parts) {
    float master[PIECE];
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t count = n - i < PIECE ? n - i : PIECE;
        for (int64_t j = 0; j < count; j++)
            master[j] = tpp__bf16_get(param[i + j]) + rest[i + j];
        adamw_f32(a, count, master, grad + i, m + i, v + i, parts);
        tpp__bf16_narrow(count, master, param + i);
        for (int64_t j = 0; j < count; j++)
            rest[i + j] = master[j] - tpp__bf16_get(param[i + j]);
    }
}

void tpp__kern_adamw(tpp_dtype dtype, const tpp__adamw *a, int64_t n, void *param, const void *grad,
                     void *m, void *v, void *rest) {
    if (dtype == TPP_F32)
        adamw_f32(a, n, param, grad, m, v, TO_PARAMS | TO_MOMENTS);
    else if (dtype == TPP_F64)
        adamw_f64(a, n, param, grad, m, v, TO_PARAMS | TO_MOMENTS);
    else
        adamw_bf16(a, n, param, grad, m, v, rest, TO_PARAMS | TO_MOMENTS);
}

void tpp__kern_adamw_params(tpp_dtype dtype, const tpp__adamw *a, int64_t n, void *param,
                            const void *grad, void *m, void *v, void *rest) {
    if (dtype == TPP_F32)
        adamw_f32(a, n, param, grad, m, v, TO_PARAMS);
    else if (dtype == TPP_F64)
        adamw_f64(a, n, param, grad, m, v, TO_PARAMS);
    else
        adamw_bf16(a, n, param, grad, m, v, rest, TO_PARAMS);
}

void tpp__kern_adamw_moments(tpp_dtype wide, const tpp__adamw *a, int64_t n, const void *grad,
                             void *m, void *v) {
    if (wide == TPP_F32)
        adamw_f32(a, n, NULL, grad, m, v, TO_MOMENTS);
    else
        adamw_f64(a, n, NULL, grad, m, v, TO_MOMENTS);
}
