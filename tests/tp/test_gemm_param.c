/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* A GEMM table that packs parameters once: it keeps a copy of every B that is said to be one, and works
 * on the copies alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/tp_case.h"
#include "support/tp_memory.h"

enum { PACKED = 64, ROWS = 10 };

typedef struct packer {
    const char *params;
    int64_t bytes;
    int outside, packed, used;
    const void *from[PACKED];
    double *copy[PACKED];
} packer;

/* The copy of a parameter's part; made when it is met first. */
static const double *copy_of(packer *p, const tpp_gemm_call *call) {
    int64_t rows = call->trans_b ? call->n : call->k, cols = call->trans_b ? call->k : call->n;
    for (int i = 0; i < p->packed; i++)
        if (p->from[i] == call->b)
            return p->copy[i];
    if (p->packed == PACKED)
        abort();
    double *copy = calloc((size_t)(rows * call->ldb), sizeof *copy);
    if (!copy)
        abort();
    for (int64_t r = 0; r < rows; r++)
        memcpy(copy + r * call->ldb, (const double *)call->b + r * call->ldb,
               (size_t)cols * sizeof *copy);
    p->from[p->packed] = call->b;
    p->copy[p->packed++] = copy;
    return copy;
}

static tpp_status packing_gemm(void *ctx, const tpp_gemm_call *given) {
    packer *p = ctx;
    const tpp_gemm_ops *reference = tpp_gemm_builtin(TPP_GEMM_REFERENCE);
    tpp_gemm_call call = *given;
    const char *b = call.b;
    if (call.flags & TPP_GEMM_B_PARAM) {
        p->outside += b < p->params || b >= p->params + p->bytes;
        p->used++;
        call.b = copy_of(p, &call);
    }
    return reference->gemm(reference->ctx, &call);
}

/* Forward and backward twice; out, grad_in and grads of the second time into `result`. */
static void run(const tp_case *c, const tpp_gemm_ops *gemm, packer *p, int32_t blocks,
                tp_memory *result) {
    tpp_layer_env env = {.size = sizeof env, .dtype = TPP_F64, .blocks = blocks, .gemm = gemm};
    tpp_layer_info info = {.size = sizeof info};
    tpp_layer *layer;
    assert_int_equal(c->kind->create(&layer, &env, c->desc), TPP_OK);
    assert_int_equal(tpp_layer_query(layer, 2, ROWS / 2, &info), TPP_OK);
    tp_memory params = tp_memory_new(info.state_bytes, TP_NAN);
    tp_memory saved = tp_memory_new(info.saved_bytes, TP_NAN);
    tp_memory scratch = tp_memory_new(info.scratch_bytes, TP_NAN);
    int64_t matrix = ROWS * info.in_cols * (int64_t)sizeof(double);
    *result = tp_memory_new(3 * matrix + info.grad_bytes + 64, TP_ZERO);
    double *x = result->data;
    for (int64_t i = 0; i < ROWS * info.in_cols; i++)
        x[i] = (double)(i * 37 % 101) / 101;
    tpp_call call = {.size = sizeof call, .batch = 2, .seq = ROWS / 2};
    call.in = (tpp_mat){.data = x, .rows = ROWS, .cols = info.in_cols, .dtype = TPP_F64};
    call.out = call.grad_out = call.grad_in = call.in;
    call.out.data = call.grad_out.data = (char *)result->data + matrix;
    call.grad_in.data = (char *)result->data + 2 * matrix;
    call.grads = (char *)result->data + (3 * matrix + 63) / 64 * 64;
    call.params = params.data, call.saved = saved.data, call.scratch = scratch.data;
    call.saved_bytes = info.saved_bytes, call.scratch_bytes = info.scratch_bytes;
    assert_int_equal(tpp_layer_init(layer, params.data, 3), TPP_OK);
    p->params = params.data, p->bytes = info.state_bytes;
    int packed = 0;
    for (int i = 0; i < 2; i++) {
        packed = p->packed;
        assert_int_equal(tpp_layer_forward(layer, &call), TPP_OK);
        assert_int_equal(tpp_layer_backward(layer, &call), TPP_OK);
    }
    assert_int_equal(p->packed, packed); /* the second time nothing is packed */
    tpp_layer_destroy(layer);
    tp_memory_free(&params);
    tp_memory_free(&saved);
    tp_memory_free(&scratch);
}

/* `weights` parameters are met in forward and in backward. */
static void check(const char *name, int weights) {
    const tp_case *c = tp_case_find(name);
    for (int32_t blocks = 1; blocks <= 4; blocks *= 4) {
        packer p = {0}, none = {0};
        tpp_gemm_ops gemm = {.size = sizeof gemm, .ctx = &p, .gemm = packing_gemm};
        tp_memory want, got;
        run(c, tpp_gemm_builtin(TPP_GEMM_REFERENCE), &none, blocks, &want);
        run(c, &gemm, &p, blocks, &got);
        assert_same_bits(name, want.data, got.data, (uint64_t)want.bytes);
        assert_int_equal(p.outside, 0);
        assert_int_equal(p.packed, weights * blocks);
        assert_int_equal(p.used, 2 * 2 * weights * blocks);
        tp_memory_free(&want);
        tp_memory_free(&got);
        for (int i = 0; i < p.packed; i++)
            free(p.copy[i]);
    }
}

static void parameters_are_told(void **state) {
    (void)state;
    check("mlp", 2);
    check("mlp, swiglu, separate", 3);
    check("attention", 2);
    check("attention, grouped", 4);
    check("block, llama", 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parameters_are_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
