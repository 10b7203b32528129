/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/kern.h"

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>

const tpp_gemm_ops *tpp_gemm_builtin(tpp_gemm_kind kind) {
    static const tpp_gemm_ops blas = {sizeof blas, 0, NULL, tpp__kern_gemm_blas};
    static const tpp_gemm_ops reference = {sizeof reference, 0, NULL, tpp__kern_gemm_reference};
    switch (kind) {
    case TPP_GEMM_BLAS:
        return &blas;
    case TPP_GEMM_REFERENCE:
        return &reference;
    default:
        return NULL;
    }
}

static tpp_status check_size(const char *name, int64_t value, int64_t least) {
    if (value < least)
        return tpp__fail(TPP_ERR_INVALID, "call.%s = %lld is too small; the least is %lld", name,
                         (long long)value, (long long)least);
    if (value > INT32_MAX)
        return tpp__fail(TPP_ERR_OVERFLOW,
                         "call.%s = %lld is more than BLAS can count; the most is %d", name,
                         (long long)value, INT32_MAX);
    return TPP_OK;
}

static tpp_status check_sizes(const tpp_gemm_call *call) {
    const struct {
        const char *name;
        int64_t value, least;
    } sizes[] = {
        {"m", call->m, 0},
        {"n", call->n, 0},
        {"k", call->k, 0},
        {"lda", call->lda, call->trans_a ? call->m : call->k},
        {"ldb", call->ldb, call->trans_b ? call->k : call->n},
        {"ldc", call->ldc, call->n},
    };
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tpp_status status = check_size(sizes[i].name, sizes[i].value, sizes[i].least);
        if (status < 0)
            return status;
    }
    return TPP_OK;
}

tpp_status tpp__kern_gemm_read(tpp_gemm_call *out, const tpp_gemm_call *call) {
    tpp_status status = tpp__sized_read(out, sizeof *out, TPP_GEMM_B_PARAM, call, "call");
    if (status < 0)
        return status;
    if (out->dtype != TPP_F32 && out->dtype != TPP_F64)
        return tpp__fail(TPP_ERR_INVALID,
                         "call.dtype = %d; a GEMM takes TPP_F32 = %d or TPP_F64 = %d",
                         (int)out->dtype, TPP_F32, TPP_F64);
    return check_sizes(out);
}

/* C = beta * C, where beta = 0 does not read C. */
static void scale_f32(int64_t n, float beta, float *c) {
    for (int64_t j = 0; j < n; j++)
        c[j] = beta == 0 ? 0 : beta * c[j];
}

static void scale_f64(int64_t n, double beta, double *c) {
    for (int64_t j = 0; j < n; j++)
        c[j] = beta == 0 ? 0 : beta * c[j];
}

void tpp__kern_gemm_scale(const tpp_gemm_call *call) {
    for (int64_t i = 0; i < call->m; i++) {
        if (call->dtype == TPP_F32)
            scale_f32(call->n, (float)call->beta, (float *)call->c + i * call->ldc);
        else
            scale_f64(call->n, call->beta, (double *)call->c + i * call->ldc);
    }
}

static tpp_gemm_call call_of(const tpp__product *p) {
    return (tpp_gemm_call){
        .size = sizeof(tpp_gemm_call),
        .flags = p->flags,
        .dtype = p->dtype,
        .trans_a = p->trans_a,
        .trans_b = p->trans_b,
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .alpha = p->alpha,
        .beta = p->beta,
        .a = p->a,
        .b = p->b,
        .c = p->c,
        .lda = p->lda,
        .ldb = p->ldb,
        .ldc = p->ldc,
    };
}

tpp_status tpp__kern_gemm(const tpp_gemm_ops *gemm, const tpp__product *p) {
    tpp_gemm_call call = call_of(p);
    tpp_status status = check_sizes(&call);
    if (status < 0 || p->m == 0 || p->n == 0)
        return status;
    if (p->dtype == TPP_BF16)
        return tpp__kern_gemm_bf16(gemm, p, 1);
    if (p->k == 0)
        tpp__kern_gemm_scale(&call);
    else
        status = gemm->gemm(gemm->ctx, &call);
    if (status > 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "the gemm function returned %d; accepted: 0 (done), or a negative status",
                         status);
    if (status == TPP_OK && p->bias)
        tpp__kern_bias_add(p->dtype, p->m, p->n, p->bias, p->c, p->ldc);
    return status;
}

tpp_status tpp__kern_gemm_sum(const tpp_gemm_ops *gemm, const tpp__product *products,
                              int32_t count) {
    bool at_once = products->dtype == TPP_BF16 && products->m > 0 && products->n > 0;
    for (int32_t i = 0; i < count; i++) {
        tpp__product p = products[i];
        if (i > 0)
            p.c = products->c, p.ldc = products->ldc, p.beta = 1;
        tpp_gemm_call call = call_of(&p);
        tpp_status status = at_once ? check_sizes(&call) : tpp__kern_gemm(gemm, &p);
        if (status < 0)
            return status;
    }
    return at_once ? tpp__kern_gemm_bf16(gemm, products, count) : TPP_OK;
}
