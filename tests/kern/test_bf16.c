/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* A kernel of bfloat16 is the float kernel on the same numbers with what it stores rounded once: held
 * against the float kernels (which have their own tests) and tpp_convert, bit for bit. Products, which
 * sum in another order, are held against sums in float64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kern/cross_entropy.h"
#include "kern/kern.h"
#include "support/close.h"
#include <tpp/convert.h>

enum { ROWS = 5, COLS = 333, COUNT = ROWS * COLS, MOST = 400 * 400 };

/* Numbers as bfloat16, and the same as float. */
typedef struct both {
    uint16_t b[MOST];
    float f[MOST];
} both;

static uint64_t state = 1;

static void fill(both *x, int64_t count, float scale) {
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        float value = scale * ((float)(int32_t)(state >> 32) / 2147483648.0f);
        tpp_convert(&x->b[i], TPP_BF16, &value, TPP_F32, 1);
        tpp_convert(&x->f[i], TPP_F32, &x->b[i], TPP_BF16, 1);
    }
}

/* The float result, rounded, is the bfloat16 one. */
static void rounded(const char *what, const both *x, int64_t count) {
    static uint16_t want[MOST];
    tpp_convert(want, TPP_BF16, x->f, TPP_F32, count);
    assert_same_bits(what, x->b, want, (uint64_t)count * 2);
}

static both x, y, z, w, v;
static float sums[2][3][COUNT]; /* of the bfloat16 kernel, of the float one */

static void same_sums(const char *what, int which, int64_t count) {
    assert_same_bits(what, sums[0][which], sums[1][which], (uint64_t)count * 4);
}

static void activations(void **unused) {
    (void)unused;
    for (int32_t act = TPP__ACT_GELU_TANH; act <= TPP__ACT_SILU; act++) {
        fill(&x, COUNT, 9);
        fill(&z, COUNT, 1);
        tpp__kern_act_forward(TPP_BF16, act, COUNT, x.b, y.b);
        tpp__kern_act_forward(TPP_F32, act, COUNT, x.f, y.f);
        rounded("act forward", &y, COUNT);
        tpp__kern_act_backward(TPP_BF16, act, COUNT, x.b, z.b, z.b);
        tpp__kern_act_backward(TPP_F32, act, COUNT, x.f, z.f, z.f);
        rounded("act backward, in place", &z, COUNT);
    }
}

static tpp__gated gated_of(tpp_dtype type, int32_t act) {
    int b = type == TPP_BF16;
    return (tpp__gated){.dtype = type,
                        .act = act,
                        .rows = ROWS,
                        .cols = COLS / 3,
                        .gate = b ? (void *)x.b : x.f,
                        .up = b ? (void *)(x.b + COLS / 2) : x.f + COLS / 2,
                        .ld = COLS,
                        .y = b ? (void *)y.b : y.f,
                        .ldy = COLS / 3,
                        .dy = b ? (void *)z.b : z.f,
                        .dgate = b ? (void *)x.b : x.f,
                        .dup = b ? (void *)(x.b + COLS / 2) : x.f + COLS / 2};
}

static void gates(void **unused) {
    static const int32_t acts[] = {TPP__ACT_GELU_TANH, TPP__ACT_SILU};
    (void)unused;
    for (int i = 0; i < 2; i++) {
        fill(&x, COUNT, 5);
        fill(&z, COUNT, 1);
        tpp__gated b = gated_of(TPP_BF16, acts[i]), f = gated_of(TPP_F32, acts[i]);
        tpp__kern_gated_forward(&b);
        tpp__kern_gated_forward(&f);
        rounded("gated forward", &y, (int64_t)ROWS * (COLS / 3));
        tpp__kern_gated_backward(&b);
        tpp__kern_gated_backward(&f);
        rounded("gated backward, in place", &x, COUNT);
    }
}

static void elementwise(void **unused) {
    (void)unused;
    fill(&x, COUNT, 1);
    fill(&y, COUNT, 100);
    fill(&z, COUNT, 1);
    tpp__kern_add(TPP_BF16, COUNT, x.b, y.b);
    tpp__kern_add(TPP_F32, COUNT, x.f, y.f);
    rounded("add", &y, COUNT);
    tpp__kern_add_to(TPP_BF16, COUNT, x.b, z.b, w.b);
    tpp__kern_add_to(TPP_F32, COUNT, x.f, z.f, w.f);
    rounded("add_to", &w, COUNT);
    fill(&y, COUNT, 1);
    tpp__kern_bias_add(TPP_BF16, ROWS, COLS - 2, x.b, y.b, COLS);
    tpp__kern_bias_add(TPP_F32, ROWS, COLS - 2, x.f, y.f, COLS);
    rounded("bias_add", &y, COUNT);
    memset(sums, 0, sizeof sums);
    tpp__kern_bias_grad(TPP_BF16, ROWS, COLS - 2, x.b, COLS, sums[0][0]);
    tpp__kern_bias_grad(TPP_F32, ROWS, COLS - 2, x.f, COLS, sums[1][0]);
    tpp__kern_collect(TPP_BF16, COUNT, z.b, sums[0][0]);
    tpp__kern_add(TPP_F32, COUNT, z.f, sums[1][0]);
    same_sums("bias_grad and collect", 0, COUNT);
    assert_true(tpp__kern_squares(TPP_BF16, ROWS, COLS - 2, x.b, COLS) ==
                tpp__kern_squares(TPP_F32, ROWS, COLS - 2, x.f, COLS));
}

static void norms(void **unused) {
    (void)unused;
    for (int rms = 0; rms < 2; rms++) {
        float *mean[2] = {rms ? NULL : sums[0][0], rms ? NULL : sums[1][0]};
        memset(sums, 0, sizeof sums);
        fill(&x, COUNT, 3);
        fill(&z, COUNT, 1);
        fill(&w, COLS, 1);
        fill(&v, COLS, 1);
        tpp__kern_norm_forward(TPP_BF16, ROWS, COLS, 1e-5, x.b, w.b, rms ? NULL : v.b, y.b, mean[0],
                               sums[0][1]);
        tpp__kern_norm_forward(TPP_F32, ROWS, COLS, 1e-5, x.f, w.f, rms ? NULL : v.f, y.f, mean[1],
                               sums[1][1]);
        rounded("norm", &y, COUNT);
        same_sums("mean", 0, ROWS);
        same_sums("rstd", 1, ROWS);
        tpp__kern_norm_backward_input(TPP_BF16, ROWS, COLS, x.b, w.b, mean[0], sums[0][1], z.b,
                                      y.b);
        tpp__kern_norm_backward_input(TPP_F32, ROWS, COLS, x.f, w.f, mean[1], sums[1][1], z.f, y.f);
        rounded("norm backward", &y, COUNT);
        tpp__kern_norm_backward_weight(TPP_BF16, ROWS, COLS, x.b, mean[0], sums[0][1], z.b,
                                       sums[0][2], sums[0][2] + COLS);
        tpp__kern_norm_backward_weight(TPP_F32, ROWS, COLS, x.f, mean[1], sums[1][1], z.f,
                                       sums[1][2], sums[1][2] + COLS);
        same_sums("gradients of a norm", 2, 2 * COLS);
    }
}

static void cross_entropy(void **unused) {
    static const tpp__ce_rule rule = {.hit = 0.9, .each = 0.1 / COLS, .square = 1e-3};
    static const int32_t ids[ROWS] = {7, 339, 12, 0, 100};
    float weights[ROWS] = {1, 0.5f, 0, 2, -1};
    (void)unused;
    memset(sums, 0, sizeof sums);
    fill(&x, COUNT, 8);
    for (int k = 0; k < 2; k++) {
        tpp__ce_block block = {.dtype = k ? TPP_F32 : TPP_BF16,
                               .rows = ROWS,
                               .cols = COLS - 1,
                               .z = k ? (void *)x.f : x.b,
                               .ldz = COLS,
                               .first = 7};
        float *most = sums[k][0], *sum = sums[k][1];
        tpp__kern_ce_start(TPP_F32, ROWS, most);
        tpp__kern_ce_max(&block, most);
        tpp__kern_ce_sum(&block, most, sum, sum + ROWS);
        tpp__kern_ce_pick(&block, most, ids, sums[k][2]);
        tpp__kern_ce_grad(&block, &rule, most, sum, weights, ids, k ? (void *)x.f : x.b, COLS);
    }
    rounded("gradient of logits, in place", &x, COUNT);
    same_sums("largest", 0, ROWS);
    same_sums("sums", 1, 2 * ROWS);
    same_sums("targets", 2, ROWS);
}

/* Every transposition, sizes around a tile's, with a bias and several products in one; by a table of
 * float products, and by what is used with OpenBLAS, where the CPU has such instructions. */
static void check_product(tpp_gemm_kind kind, int64_t m, int64_t n, int64_t k, int32_t trans,
                          int wide) {
    const tpp_gemm_ops *gemm = tpp_gemm_builtin(kind);
    static double want[MOST];
    static float c_wide[MOST];
    int32_t ta = trans & 1, tb = trans >> 1;
    fill(&x, m * k, 1);
    fill(&y, k * n, 1);
    fill(&z, n, 1);
    tpp__product p = {.dtype = TPP_BF16,
                      .c_dtype = wide ? TPP_F32 : 0,
                      .trans_a = ta,
                      .trans_b = tb,
                      .m = m,
                      .n = n,
                      .k = k,
                      .alpha = 0.5,
                      .a = x.b,
                      .b = y.b,
                      .c = wide ? (void *)c_wide : w.b,
                      .lda = ta ? m : k,
                      .ldb = tb ? k : n,
                      .ldc = n,
                      .bias = wide ? NULL : z.b};
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += (double)x.f[ta ? l * m + i : i * k + l] *
                       (double)y.f[tb ? j * k + l : l * n + j];
            want[i * n + j] = wide ? sum : sum + (double)z.f[j]; /* twice alpha is 1 */
        }
    }
    memset(w.b, 0xff, sizeof w.b);
    memset(c_wide, 0xff, sizeof c_wide);
    tpp__product two[2] = {p, p};
    two[0].bias = NULL;
    if (wide) {
        assert_int_equal(tpp__kern_gemm_sum(gemm, two, 2), TPP_OK);
    } else {
        p.alpha = 1;
        assert_int_equal(tpp__kern_gemm(gemm, &p), TPP_OK);
    }
    if (wide)
        assert_close("wide product", TPP_F32, c_wide, TPP_F64, want, m * n, 3e-6);
    else /* rounded once: half a unit of the last place */
        assert_close_each("product", TPP_BF16, w.b, TPP_F64, want, m * n, 1.001 / 256, 1e-3);
}

static void products(void **unused) {
    static const int64_t sizes[][3] = {{1, 1, 1},       {3, 5, 7},      {128, 128, 128},
                                       {129, 130, 131}, {257, 1, 300},  {1, 259, 128},
                                       {2, 3, 385},     {128, 300, 256}};
    (void)unused;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int32_t trans = 0; trans < 4; trans++)
            for (int wide = 0; wide < 2; wide++)
                for (tpp_gemm_kind kind = TPP_GEMM_BLAS; kind <= TPP_GEMM_REFERENCE; kind++)
                    check_product(kind, sizes[i][0], sizes[i][1], sizes[i][2], trans, wide);
}

/* beta adds to what C holds; no inner size leaves beta * C; nothing at all is done for no C. */
static void check_beta(const tpp_gemm_ops *gemm) {
    uint16_t one[1] = {0x3f80}, c[2] = {0x4000, 0x7fc0};
    float wide[1] = {3};
    tpp__product p = {.dtype = TPP_BF16, .m = 1, .n = 1, .k = 1, .alpha = 1, .beta = 1};
    p.a = p.b = one, p.c = c, p.lda = p.ldb = p.ldc = 1;
    assert_int_equal(tpp__kern_gemm(gemm, &p), TPP_OK);
    assert_int_equal(c[0], 0x4040); /* 2 + 1 */
    p.k = 0;
    assert_int_equal(tpp__kern_gemm(gemm, &p), TPP_OK);
    assert_int_equal(c[0], 0x4040);
    p.beta = 0;
    assert_int_equal(tpp__kern_gemm(gemm, &p), TPP_OK);
    assert_int_equal(c[0], 0);
    p.c_dtype = TPP_F32, p.c = wide, p.beta = 1;
    assert_int_equal(tpp__kern_gemm(gemm, &p), TPP_OK);
    assert_true(wide[0] == 3);
    p.m = 0, p.c = NULL;
    assert_int_equal(tpp__kern_gemm(gemm, &p), TPP_OK);
    assert_int_equal(c[1], 0x7fc0);
}

static void beta_and_empty(void **unused) {
    (void)unused;
    check_beta(tpp_gemm_builtin(TPP_GEMM_BLAS));
    check_beta(tpp_gemm_builtin(TPP_GEMM_REFERENCE));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations),    cmocka_unit_test(gates),
        cmocka_unit_test(elementwise),    cmocka_unit_test(norms),
        cmocka_unit_test(cross_entropy),  cmocka_unit_test(products),
        cmocka_unit_test(beta_and_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
