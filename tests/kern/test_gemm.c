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
static const tpp_gemm_kind kinds[] = {TPP_GEMM_BLAS, TPP_GEMM_REFERENCE};

/* A product with its memory: leading dimensions are `gap` more than the widths. */
typedef struct problem {
    tpp__product p;
    void *a, *b, *c;
    int64_t c_count;
} problem;

static problem problem_new(tpp_dtype dtype, int ta, int tb, int64_t m, int64_t n, int64_t k,
                           int64_t gap) {
    tpp__product p = {.dtype = dtype, .trans_a = ta, .trans_b = tb, .m = m, .n = n, .k = k};
    p.alpha = 1;
    p.lda = (ta ? m : k) + gap;
    p.ldb = (tb ? k : n) + gap;
    p.ldc = n + gap;
    int64_t a_count = (ta ? k : m) * p.lda, b_count = (tb ? n : k) * p.ldb;
    problem all = {p, kern_new(dtype, a_count), kern_new(dtype, b_count), NULL, m * p.ldc};
    all.c = kern_new(dtype, all.c_count);
    kern_fill(dtype, all.a, a_count, 1, 1);
    kern_fill(dtype, all.b, b_count, 2, 1);
    kern_fill(dtype, all.c, all.c_count, 3, 1);
    all.p.a = all.a;
    all.p.b = all.b;
    all.p.c = all.c;
    return all;
}

static void problem_free(problem *all) {
    free(all->a);
    free(all->b);
    free(all->c);
}

/* What all of C should hold afterwards, the gaps between rows unchanged. */
static close_quad *truth(const problem *all) {
    const tpp__product *p = &all->p;
    close_quad *want = kern_new_quad(all->c_count);
    for (int64_t i = 0; i < all->c_count; i++)
        want[i] = kern_get(p->dtype, all->c, i);
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t j = 0; j < p->n; j++) {
            close_quad sum = 0;
            for (int64_t l = 0; l < p->k; l++)
                sum += (close_quad)kern_get(p->dtype, p->a,
                                            p->trans_a ? l * p->lda + i : i * p->lda + l) *
                       kern_get(p->dtype, p->b, p->trans_b ? j * p->ldb + l : l * p->ldb + j);
            close_quad *c = want + i * p->ldc + j;
            *c = p->alpha * sum + (p->beta == 0 ? 0 : p->beta * *c);
        }
    }
    return want;
}

static void one_product(tpp_dtype dtype, int ta, int tb, int64_t m, int64_t n, int64_t k,
                        int64_t gap, double alpha, double beta) {
    for (int i = 0; i < 2; i++) {
        problem all = problem_new(dtype, ta, tb, m, n, k, gap);
        all.p.alpha = alpha;
        all.p.beta = beta;
        close_quad *want = truth(&all);
        assert_int_equal(tpp__kern_gemm(tpp_gemm_builtin(kinds[i]), &all.p), TPP_OK);
        double bound = (dtype == TPP_F32 ? 6e-8 : 1.2e-16) * (8 + 2 * sqrt((double)k));
        assert_close(i ? "reference" : "BLAS", dtype, all.c, CLOSE_QUAD, want, all.c_count, bound);
        free(want);
        problem_free(&all);
    }
}

static void against_truth(void **state) {
    (void)state;
    static const int64_t sizes[] = {0, 1, 3, 16, 17, 33};
    for (int which = 0; which < 8; which++) {
        for (int m = 0; m < 6; m++) {
            for (int n = 0; n < 6; n++) {
                for (int k = 0; k < 6; k++) {
                    double beta[] = {0, 1, -0.5};
                    int64_t gap = (m + n + k) % 2 * 3;
                    one_product(types[which >> 2], which >> 1 & 1, which & 1, sizes[m], sizes[n],
                                sizes[k], gap, k % 2 ? 1 : 0.25, beta[(m + n + k) % 3]);
                }
            }
        }
    }
}

static void larger_sizes(void **state) {
    (void)state;
    for (int which = 0; which < 8; which++)
        one_product(types[which >> 2], which >> 1 & 1, which & 1, 65, 129, 96, 1, 1, 1);
}

/* beta = 0 gives the same bits on NaN as on zeros: k = 0 and large products too. */
static void output_is_not_read(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1},       {5, 7, 3},    {5, 7, 0},   {64, 64, 64},
                                       {130, 300, 200}, {1, 300, 64}, {300, 1, 64}};
    for (int which = 0; which < 16; which++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            const tpp_gemm_ops *gemm = tpp_gemm_builtin(kinds[which >> 3]);
            tpp_dtype dtype = types[which >> 2 & 1];
            problem x = problem_new(dtype, which >> 1 & 1, which & 1, sizes[s][0], sizes[s][1],
                                    sizes[s][2], 0);
            problem y = problem_new(dtype, which >> 1 & 1, which & 1, sizes[s][0], sizes[s][1],
                                    sizes[s][2], 0);
            kern_fill_value(dtype, x.c, x.c_count, 0);
            kern_fill_value(dtype, y.c, y.c_count, NAN);
            assert_int_equal(tpp__kern_gemm(gemm, &x.p), TPP_OK);
            assert_int_equal(tpp__kern_gemm(gemm, &y.p), TPP_OK);
            assert_same_bits("zeros and NaN", x.c, y.c,
                             (uint64_t)x.c_count * (dtype == TPP_F32 ? 4 : 8));
            problem_free(&x);
            problem_free(&y);
        }
    }
}

static tpp_status refuse(void *ctx, const tpp_gemm_call *call) {
    (void)call;
    ++*(int *)ctx;
    return TPP_ERR_USER - 5;
}

/* A host's table is called once, unless there is nothing to multiply; its status comes back. */
static void own_table(void **state) {
    (void)state;
    int calls = 0;
    tpp_gemm_ops ops = {sizeof ops, 0, &calls, refuse};
    problem all = problem_new(TPP_F64, 0, 0, 2, 2, 2, 0);
    assert_int_equal(tpp__kern_gemm(&ops, &all.p), TPP_ERR_USER - 5);
    assert_int_equal(calls, 1);
    all.p.m = 0;
    assert_int_equal(tpp__kern_gemm(&ops, &all.p), TPP_OK);
    all.p.m = 2;
    all.p.k = 0;
    assert_int_equal(tpp__kern_gemm(&ops, &all.p), TPP_OK);
    assert_int_equal(calls, 1);
    problem_free(&all);
}

/* The sum runs in rising order of the inner index: 1e16 + 1 + ... loses every 1, 1 + ... + 1e16
 * none. */
static void order_of_the_reference(void **state) {
    (void)state;
    enum { K = 5 };
    double first[K] = {1e16, 1, 1, 1, 1}, last[K] = {1, 1, 1, 1, 1e16}, ones[K] = {1, 1, 1, 1, 1};
    double c[1];
    tpp__product p = {.dtype = TPP_F64, .m = 1, .n = 1, .k = K, .alpha = 1};
    p.lda = K;
    p.ldb = p.ldc = 1;
    p.b = ones;
    p.c = c;
    p.a = first;
    tpp__kern_gemm(tpp_gemm_builtin(TPP_GEMM_REFERENCE), &p);
    assert_true(c[0] == 1e16);
    p.a = last;
    tpp__kern_gemm(tpp_gemm_builtin(TPP_GEMM_REFERENCE), &p);
    assert_true(c[0] == 1e16 + 4);
}

static void refusals(void **state) {
    (void)state;
    assert_null(tpp_gemm_builtin(2));
    assert_null(tpp_gemm_builtin(-1));
    double one[1] = {1};
    const tpp_gemm_call good = {.size = sizeof good,
                                .dtype = TPP_F64,
                                .m = 1,
                                .n = 1,
                                .k = 1,
                                .alpha = 1,
                                .a = one,
                                .b = one,
                                .c = one,
                                .lda = 1,
                                .ldb = 1,
                                .ldc = 1};
    for (int i = 0; i < 2; i++) {
        const tpp_gemm_ops *gemm = tpp_gemm_builtin(kinds[i]);
        tpp_gemm_call bad = good;
        assert_int_equal(gemm->gemm(gemm->ctx, &bad), TPP_OK);
        bad.m = (int64_t)INT32_MAX + 1;
        assert_int_equal(gemm->gemm(gemm->ctx, &bad), TPP_ERR_OVERFLOW);
        assert_non_null(strstr(tpp_message(), "call.m = 2147483648"));
        bad = good;
        bad.n = -1;
        assert_int_equal(gemm->gemm(gemm->ctx, &bad), TPP_ERR_INVALID);
        bad = good;
        bad.lda = 0;
        assert_int_equal(gemm->gemm(gemm->ctx, &bad), TPP_ERR_INVALID);
        assert_non_null(strstr(tpp_message(), "call.lda = 0"));
        bad = good;
        bad.dtype = TPP_I32;
        assert_int_equal(gemm->gemm(gemm->ctx, &bad), TPP_ERR_INVALID);
        bad = good;
        bad.flags = 2;
        assert_int_equal(gemm->gemm(gemm->ctx, &bad), TPP_ERR_TOO_NEW);
        bad = good;
        bad.k = bad.lda = 0;
        bad.beta = 3;
        one[0] = 2;
        assert_int_equal(gemm->gemm(gemm->ctx, &bad), TPP_OK);
        assert_true(one[0] == 6);
    }
}

/* Leading dimensions count too, and no element is touched before the answer. */
static void beyond_32_bits(void **state) {
    (void)state;
    int calls = 0;
    tpp_gemm_ops ops = {sizeof ops, 0, &calls, refuse};
    const int64_t big = (int64_t)INT32_MAX + 1;
    const tpp__product p[] = {
        {.dtype = TPP_F32, .m = big, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1},
        {.dtype = TPP_F32, .m = 1, .n = big, .k = 1, .lda = 1, .ldb = big, .ldc = big},
        {.dtype = TPP_F32, .m = 1, .n = 1, .k = big, .lda = big, .ldb = 1, .ldc = 1},
        {.dtype = TPP_F32, .m = 1, .n = 1, .k = 1, .lda = big, .ldb = 1, .ldc = 1},
        {.dtype = TPP_F32, .m = 1, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = INT64_MAX},
    };
    for (size_t i = 0; i < sizeof p / sizeof *p; i++)
        assert_int_equal(tpp__kern_gemm(&ops, &p[i]), TPP_ERR_OVERFLOW);
    assert_int_equal(calls, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_truth),          cmocka_unit_test(larger_sizes),
        cmocka_unit_test(output_is_not_read),     cmocka_unit_test(own_table),
        cmocka_unit_test(order_of_the_reference), cmocka_unit_test(refusals),
        cmocka_unit_test(beyond_32_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
