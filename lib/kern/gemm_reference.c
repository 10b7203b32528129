/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/kern.h"

#define REAL float
#define FN(name) name##_f32
#include "kern/gemm_reference.inc"
#undef REAL
#undef FN

#define REAL double
#define FN(name) name##_f64
#include "kern/gemm_reference.inc"

tpp_status tpp__kern_gemm_reference(void *ctx, const tpp_gemm_call *call) {
    tpp_gemm_call g;
    tpp_status status = tpp__kern_gemm_read(&g, call);
    (void)ctx;
    if (status < 0)
        return status;
    if (g.dtype == TPP_F32)
        product_f32(&g);
    else
        product_f64(&g);
    return TPP_OK;
}
