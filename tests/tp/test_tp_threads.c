/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Threads: the host's BLAS thread count is as it was after every public call; one layer serves
 * several threads at once; many ranks computing at the same instant give the bits of one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/tp_run.h"

/* OpenBLAS's own functions; its header is for the library alone. */
void openblas_set_num_threads(int threads);
int openblas_get_num_threads(void);

static int32_t blas_threads(void) {
    tpp_blas_info info = {0};
    info.size = sizeof info;
    if (tpp_blas_query(&info) < 0)
        return -1;
    return info.threads == openblas_get_num_threads() ? info.threads : -2;
}

/* After each public call of one rank. */
static void check_calls(const tp_case *c, int32_t blocks, uint32_t flags, int32_t threads) {
    tp_full *full = tp_full_inputs(c, 1, 3, 1);
    tp_setup setup = {0};
    tp_rank r;
    setup.ranks = 1;
    setup.blocks = blocks;
    setup.flags = flags;
    setup.dtype = TPP_F32;
    setup.halves = 1;
    assert_int_equal(tp_rank_open(&r, c, full, &setup, NULL, 0), TPP_OK);
    assert_int_equal(blas_threads(), threads);
    assert_int_equal(tpp_layer_forward(r.layer, &r.call), TPP_OK);
    assert_int_equal(blas_threads(), threads);
    assert_int_equal(tpp_layer_backward(r.layer, &r.call), TPP_OK);
    assert_int_equal(blas_threads(), threads);
    assert_int_equal(tpp_layer_backward_input(r.layer, &r.call), TPP_OK);
    assert_int_equal(blas_threads(), threads);
    assert_int_equal(tpp_layer_backward_weight(r.layer, &r.call), TPP_OK);
    assert_int_equal(blas_threads(), threads);
    r.call.in.rows = 1; /* a refused call */
    assert_int_equal(tpp_layer_forward(r.layer, &r.call), TPP_ERR_INVALID);
    assert_int_equal(blas_threads(), threads);
    if (full->ids) { /* a call that fails on its way */
        r.call.in.rows = 3;
        ((int32_t *)r.in.data)[0] = -1;
        assert_int_equal(tpp_layer_forward(r.layer, &r.call), TPP_ERR_RANGE);
        assert_int_equal(blas_threads(), threads);
    }
    assert_int_equal(tpp_layer_init(r.layer, r.params.data, 1), TPP_OK);
    assert_int_equal(blas_threads(), threads);
    tp_rank_close(&r);
    assert_int_equal(blas_threads(), threads);
    tp_rank_free(&r);
    tp_full_free(full);
}

static void test_setting_kept(void **state) {
    int before = openblas_get_num_threads();
    (void)state;
    for (int threads = 2; threads >= 1; threads--) {
        openblas_set_num_threads(threads);
        int32_t got = blas_threads(); /* the serial flavour knows 1 only */
        for (const tp_case *c = tp_cases; c->name; c++) {
            check_calls(c, 0, 0, got);
            check_calls(c, 4, 0, got);
            check_calls(c, 4, TPP_ENV_BLAS_INHERIT, got);
            tp_full *full = tp_full_inputs(c, 1, 3, 1);
            for (int32_t ranks = 2; ranks <= 8; ranks *= 4) {
                tp_setup setup = {0};
                setup.ranks = ranks;
                setup.dtype = TPP_F32;
                tp_result_free(tp_run(c, full, &setup));
                assert_int_equal(blas_threads(), got);
            }
            tp_full_free(full);
        }
    }
    openblas_set_num_threads(before);
}

/* A gemm that fails at its n-th call comes back unchanged; nothing hangs, the setting
 * is restored. */
typedef struct failing {
    int calls, fail_at;
} failing;

static tpp_status failing_gemm(void *ctx, const tpp_gemm_call *call) {
    failing *f = ctx;
    const tpp_gemm_ops *reference = tpp_gemm_builtin(TPP_GEMM_REFERENCE);
    if (++f->calls == f->fail_at)
        return TPP_ERR_USER - 7;
    return reference->gemm(reference->ctx, call);
}

static tpp_status run_failing(tpp_comm *comm, int32_t rank, void *arg) {
    const tp_case *c = arg;
    tp_full *full = tp_full_inputs(c, 1, 3, 1);
    tpp_status first = TPP_OK;
    for (int n = 1; n < 100 && first == TPP_OK; n++) {
        failing f = {0, n};
        tpp_gemm_ops ops = {sizeof ops, 0, &f, failing_gemm};
        tp_setup setup = {0};
        tp_rank r;
        setup.ranks = 1;
        setup.blocks = 2;
        setup.dtype = TPP_F32;
        setup.gemm = &ops;
        TP_TRY(tp_rank_open(&r, c, full, &setup, comm, rank));
        tpp_status status = tpp_layer_forward(r.layer, &r.call);
        if (status == TPP_OK)
            status = tpp_layer_backward(r.layer, &r.call);
        TP_NEED(status == (f.calls >= n ? TPP_ERR_USER - 7 : TPP_OK));
        TP_NEED(tp_memory_intact(&r.scratch) && tp_memory_intact(&r.saved));
        if (f.calls < n)
            first = TPP_PENDING; /* all of them have failed once */
        tp_rank_close(&r);
        tp_rank_free(&r);
    }
    tp_full_free(full);
    return TPP_OK;
}

static void test_failing_gemm(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++)
        tp_ranks_run(1, run_failing, (void *)(size_t)c);
}

/* Eight threads on one layer without comm, each with its own memory, started at the
 * same instant. */
typedef struct shared {
    tp_rank *owner;
    const void *want_out;
    const void *want_grads;
    int rounds;
} shared;

static tpp_status use_shared(tpp_comm *comm, int32_t rank, void *arg) {
    const shared *s = arg;
    tp_rank *o = s->owner;
    tp_memory out = tp_memory_new(o->out.bytes, TP_NAN);
    tp_memory grad_in = tp_memory_new(o->grad_in.bytes, TP_NAN);
    tp_memory grads = tp_memory_new(o->grads.bytes, TP_ZERO);
    tp_memory saved = tp_memory_new(o->saved.bytes, TP_NAN);
    tp_memory scratch = tp_memory_new(o->scratch.bytes, TP_NAN);
    tpp_call call = o->call;
    (void)rank;
    call.out.data = out.data;
    call.grad_in.data = grad_in.data;
    call.grads = grads.data;
    call.saved = saved.data;
    call.scratch = scratch.data;
    for (int i = 0; i < s->rounds; i++) {
        tp_memory_fill(&grads, TP_ZERO);
        TP_TRY(tpp_comm_barrier(comm));
        TP_TRY(tpp_layer_forward(o->layer, &call));
        TP_TRY(tpp_layer_backward(o->layer, &call));
        TP_NEED(memcmp(out.data, s->want_out, (size_t)out.bytes) == 0);
        TP_NEED(memcmp(grads.data, s->want_grads, (size_t)grads.bytes) == 0);
    }
    tp_memory_free(&out);
    tp_memory_free(&grad_in);
    tp_memory_free(&grads);
    tp_memory_free(&saved);
    tp_memory_free(&scratch);
    return TPP_OK;
}

static void test_shared(void **state) {
    static const tpp_mlp_desc d = {sizeof d, 0, 64, 64, 0, 0, 0, 0};
    const tp_case c = {"mlp", &tp_kind_mlp, &d};
    tp_full *full = tp_full_inputs(&c, 1, 64, 1);
    tp_setup setup = {0};
    tp_rank r;
    (void)state;
    setup.ranks = 1;
    setup.blocks = 1;
    setup.dtype = TPP_F64;
    assert_int_equal(tp_rank_open(&r, &c, full, &setup, NULL, 0), TPP_OK);
    tp_memory_fill(&r.grads, TP_ZERO);
    assert_int_equal(tpp_layer_forward(r.layer, &r.call), TPP_OK);
    assert_int_equal(tpp_layer_backward(r.layer, &r.call), TPP_OK);
    shared s = {&r, r.out.data, r.grads.data, 200};
    tp_ranks_run(8, use_shared, &s);
    tp_rank_close(&r);
    tp_rank_free(&r);
    tp_full_free(full);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_setting_kept),
        cmocka_unit_test(test_failing_gemm),
        cmocka_unit_test(test_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
