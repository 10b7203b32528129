/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/kern.h"
#include "support/close.h"
#include "support/kern_truth.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const tpp_dtype types[] = {TPP_F32, TPP_F64};

/* A head with its memory; q, k and v lie side by side in one matrix, as a layer has them. */
typedef struct head {
    tpp__attention a;
    void *qkv, *d_qkv;
    int64_t scratch_bytes;
} head;

static head head_new(tpp_dtype dtype, int64_t seq, int64_t width, double spread) {
    head h = {.a = {.gemm = tpp_gemm_builtin(TPP_GEMM_BLAS),
                    .dtype = dtype,
                    .seq = seq,
                    .keys = seq,
                    .width = width}};
    tpp__attention *a = &h.a;
    const int64_t ld = 3 * width, bytes = dtype == TPP_F32 ? 4 : 8;
    a->scale = 1 / sqrt((double)width);
    h.qkv = kern_new(dtype, seq * ld);
    h.d_qkv = kern_new(dtype, seq * ld);
    kern_fill(dtype, h.qkv, seq * ld, 1, spread);
    a->q = h.qkv;
    a->k = (char *)h.qkv + width * bytes;
    a->v = (char *)h.qkv + 2 * width * bytes;
    a->dq = h.d_qkv;
    a->dk = (char *)h.d_qkv + width * bytes;
    a->dv = (char *)h.d_qkv + 2 * width * bytes;
    a->ldq = a->ldk = a->ldv = a->lddq = a->lddk = a->lddv = ld;
    a->ldo = width + 1;
    a->ld_do = width;
    a->o = kern_new(dtype, seq * a->ldo);
    void *d_o = kern_new(dtype, seq * a->ld_do);
    kern_fill(dtype, d_o, seq * a->ld_do, 2, 1);
    a->d_o = d_o;
    a->lse = kern_new(dtype, seq);
    h.scratch_bytes = tpp__kern_attention_scratch(dtype, seq, width);
    a->scratch = malloc((size_t)h.scratch_bytes); /* no byte more: the sanitizer looks */
    assert_non_null(a->scratch);
    return h;
}

static void head_free(head *h) {
    free(h->qkv);
    free(h->d_qkv);
    free(h->a.o);
    free((void *)(uintptr_t)h->a.d_o);
    free(h->a.lse);
    free(h->a.scratch);
}

/* All that is written, to `value`. */
static void poison(head *h, double value) {
    tpp__attention *a = &h->a;
    int64_t bytes = a->dtype == TPP_F32 ? 4 : 8;
    kern_fill_value(a->dtype, h->d_qkv, a->seq * a->lddq, value);
    kern_fill_value(a->dtype, a->o, a->seq * a->ldo, value);
    kern_fill_value(a->dtype, a->lse, a->seq, value);
    kern_fill_value(a->dtype, a->scratch, h->scratch_bytes / bytes, value);
}

static void run(head *h) {
    assert_int_equal(tpp__kern_attention_forward(&h->a), TPP_OK);
    int64_t bytes = h->a.dtype == TPP_F32 ? 4 : 8;
    /* scratch is dead between the two */
    kern_fill_value(h->a.dtype, h->a.scratch, h->scratch_bytes / bytes, NAN);
    assert_int_equal(tpp__kern_attention_backward(&h->a), TPP_OK);
}

/* --- Against the formulas in 33 digits -------------------------------------------------------- */

typedef struct truth {
    close_quad *o, *lse, *d_qkv; /* o with the gaps of a->ldo, d_qkv as the head lays it out */
} truth;

static close_quad q_at(const tpp__attention *a, const void *m, int64_t ld, int64_t r, int64_t c) {
    return kern_get(a->dtype, m, r * ld + c);
}

static close_quad dot(const tpp__attention *a, const void *x, int64_t ldx, int64_t i, const void *y,
                      int64_t ldy, int64_t j) {
    close_quad sum = 0;
    for (int64_t c = 0; c < a->width; c++)
        sum += q_at(a, x, ldx, i, c) * q_at(a, y, ldy, j, c);
    return sum;
}

static void truth_row(const tpp__attention *a, truth *t, int64_t i, close_quad *p) {
    const int64_t w = a->width, ld = a->lddq;
    close_quad most = -1e30, total = 0, d = 0;
    for (int64_t j = 0; j <= i; j++) {
        p[j] = a->scale * dot(a, a->q, a->ldq, i, a->k, a->ldk, j);
        most = p[j] > most ? p[j] : most;
    }
    for (int64_t j = 0; j <= i; j++) {
        p[j] = truth_exp(p[j] - most);
        total += p[j];
    }
    t->lse[i] = most + truth_log(total);
    for (int64_t j = 0; j <= i; j++) {
        p[j] /= total;
        for (int64_t c = 0; c < w; c++)
            t->o[i * a->ldo + c] += p[j] * q_at(a, a->v, a->ldv, j, c);
    }
    for (int64_t c = 0; c < w; c++)
        d += q_at(a, a->d_o, a->ld_do, i, c) * t->o[i * a->ldo + c];
    for (int64_t j = 0; j <= i; j++) {
        close_quad ds = p[j] * (dot(a, a->d_o, a->ld_do, i, a->v, a->ldv, j) - d) * a->scale;
        for (int64_t c = 0; c < w; c++) {
            t->d_qkv[i * ld + c] += ds * q_at(a, a->k, a->ldk, j, c);
            t->d_qkv[j * ld + w + c] += ds * q_at(a, a->q, a->ldq, i, c);
            t->d_qkv[j * ld + 2 * w + c] += p[j] * q_at(a, a->d_o, a->ld_do, i, c);
        }
    }
}

static void one_case(tpp_dtype dtype, int64_t seq, int64_t width, double spread, double bound) {
    head h = head_new(dtype, seq, width, spread);
    tpp__attention *a = &h.a;
    poison(&h, NAN);
    for (int64_t i = 0; i < seq; i++) /* the gap */
        kern_set(dtype, a->o, i * a->ldo + width, 0);
    truth t = {kern_new_quad(seq * a->ldo), kern_new_quad(seq), kern_new_quad(seq * a->lddq)};
    close_quad *p = kern_new_quad(seq);
    for (int64_t i = 0; i < seq; i++)
        truth_row(a, &t, i, p);
    run(&h);
    assert_close("o", dtype, a->o, CLOSE_QUAD, t.o, seq * a->ldo, bound);
    assert_close("lse", dtype, a->lse, CLOSE_QUAD, t.lse, seq, bound);
    assert_close("dq dk dv", dtype, h.d_qkv, CLOSE_QUAD, t.d_qkv, seq * a->lddq, bound);
    free(t.o);
    free(t.lse);
    free(t.d_qkv);
    free(p);
    head_free(&h);
}

static void against_truth(void **state) {
    (void)state;
    for (int64_t seq = 1; seq <= 130; seq++) {
        one_case(TPP_F64, seq, 1, 1, 2e-14);
        one_case(TPP_F32, seq, 8, 1, 4e-6);
    }
    static const int64_t lengths[] = {1, 2, 63, 64, 65, 127, 128, 129, 130, 193};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        one_case(TPP_F64, lengths[i], 8, 1, 2e-14);
        one_case(TPP_F32, lengths[i], 1, 1, 4e-6);
    }
    one_case(TPP_F64, 65, 64, 1, 2e-14);
    one_case(TPP_F32, 130, 64, 1, 4e-6);
    head none = head_new(TPP_F32, 0, 8, 1);
    run(&none);
    head_free(&none);
}

/* Scores of some hundreds: exp of them alone would overflow. */
static void large_scores(void **state) {
    (void)state;
    one_case(TPP_F64, 70, 8, 20, 1e-12);
    one_case(TPP_F32, 70, 8, 20, 3e-4);
}

static void gradient_against_differences(void **state) {
    (void)state;
    enum { SEQ = 9, WIDTH = 4, N = SEQ * WIDTH * 3 };
    head h = head_new(TPP_F64, SEQ, WIDTH, 1);
    run(&h);
    double want[N], *x = h.qkv;
    const double *o = h.a.o, *d_o = h.a.d_o, step = 1e-4;
    for (int i = 0; i < N; i++) {
        double at = x[i], f[4] = {0};
        for (int s = 0; s < 4; s++) {
            x[i] = at + step * (double[]){-2, -1, 1, 2}[s];
            assert_int_equal(tpp__kern_attention_forward(&h.a), TPP_OK);
            for (int r = 0; r < SEQ; r++) {
                for (int c = 0; c < WIDTH; c++)
                    f[s] += o[r * h.a.ldo + c] * d_o[r * h.a.ld_do + c];
            }
        }
        x[i] = at;
        want[i] = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step);
    }
    assert_close_f64("dq dk dv", h.d_qkv, want, N, 1e-9);
    head_free(&h);
}

/* Outputs and scratch full of NaN or zeros, both tables: the same bits. */
static void memory_is_not_read(void **state) {
    (void)state;
    for (int which = 0; which < 4; which++) {
        tpp_dtype dtype = types[which & 1];
        head x = head_new(dtype, 150, 16, 1), y = head_new(dtype, 150, 16, 1);
        x.a.gemm = y.a.gemm = tpp_gemm_builtin(which >> 1);
        poison(&x, 0);
        poison(&y, NAN);
        for (int64_t i = 0; i < 150; i++)
            kern_set(dtype, y.a.o, i * y.a.ldo + 16, 0);
        run(&x);
        run(&y);
        uint64_t w = dtype == TPP_F32 ? 4 : 8;
        assert_same_bits("o", x.a.o, y.a.o, (uint64_t)(150 * x.a.ldo) * w);
        assert_same_bits("lse", x.a.lse, y.a.lse, 150 * w);
        assert_same_bits("dq dk dv", x.d_qkv, y.d_qkv, (uint64_t)(150 * x.a.lddq) * w);
        head_free(&x);
        head_free(&y);
    }
}

/* Tokens that come later change nothing, be they as large as they like. */
static void causal(void **state) {
    (void)state;
    enum { SEQ = 100, WIDTH = 8 };
    for (int64_t cut = 1; cut < SEQ; cut += 13) {
        head x = head_new(TPP_F64, SEQ, WIDTH, 1), y = head_new(TPP_F64, SEQ, WIDTH, 1);
        kern_fill(TPP_F64, (double *)y.qkv + cut * 3 * WIDTH, (SEQ - cut) * 3 * WIDTH, 9, 1e5);
        assert_int_equal(tpp__kern_attention_forward(&x.a), TPP_OK);
        assert_int_equal(tpp__kern_attention_forward(&y.a), TPP_OK);
        assert_same_bits("o", x.a.o, y.a.o, (uint64_t)(cut * x.a.ldo) * sizeof(double));
        assert_same_bits("lse", x.a.lse, y.a.lse, (uint64_t)cut * sizeof(double));
        head_free(&x);
        head_free(&y);
    }
}

static void scratch_is_linear(void **state) {
    (void)state;
    int64_t one = tpp__kern_attention_scratch(TPP_F32, 1000, 64);
    int64_t two = tpp__kern_attention_scratch(TPP_F32, 2000, 64);
    int64_t four = tpp__kern_attention_scratch(TPP_F32, 4000, 64);
    assert_true(four - two == 2 * (two - one));
    assert_true(tpp__kern_attention_scratch(TPP_F64, INT64_MAX / 8, 64) == INT64_MAX);
}

static tpp_status refuse(void *ctx, const tpp_gemm_call *call) {
    int *left = ctx;
    if ((*left)-- == 0)
        return TPP_ERR_USER - 7;
    const tpp_gemm_ops *blas = tpp_gemm_builtin(TPP_GEMM_BLAS);
    return blas->gemm(blas->ctx, call);
}

/* A table's refusal comes back whichever product it hits: 2 a tile forward, 5 backward. */
static void refused_products(void **state) {
    (void)state;
    head h = head_new(TPP_F64, 100, 8, 1);
    int left;
    tpp_gemm_ops ops = {sizeof ops, 0, &left, refuse};
    h.a.gemm = &ops;
    for (int at = 0; at < 4; at++) {
        left = at;
        assert_int_equal(tpp__kern_attention_forward(&h.a), TPP_ERR_USER - 7);
    }
    left = 4;
    assert_int_equal(tpp__kern_attention_forward(&h.a), TPP_OK);
    for (int at = 0; at < 10; at++) {
        left = at;
        assert_int_equal(tpp__kern_attention_backward(&h.a), TPP_ERR_USER - 7);
    }
    head_free(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_truth),
        cmocka_unit_test(large_scores),
        cmocka_unit_test(gradient_against_differences),
        cmocka_unit_test(memory_is_not_read),
        cmocka_unit_test(causal),
        cmocka_unit_test(scratch_is_linear),
        cmocka_unit_test(refused_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
