/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm_impl.h"
#include "support/comm_threads.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <tpp/convert.h>

/* The arithmetic of reductions, without any ranks. */

enum { MOST = 13, COUNT = 1500 };

static double inputs[MOST][COUNT], outputs[MOST][COUNT];

static double tree_of(int32_t first, int32_t n, int64_t i) {
    if (n == 1)
        return inputs[first][i];
    int32_t left = 1;
    while (2 * left < n)
        left *= 2;
    return tree_of(first, left, i) + tree_of(first + left, n - left, i);
}

static double want(tpp_reduce reduce, int32_t n, int64_t i) {
    if (reduce == TPP_SUM_TREE)
        return tree_of(0, n, i);
    double acc = inputs[0][i];
    for (int32_t r = 1; r < n; r++) {
        if (reduce == TPP_SUM)
            acc = acc + inputs[r][i];
        else
            acc = acc > inputs[r][i] ? acc : inputs[r][i];
    }
    return acc;
}

static void check_fold(tpp_reduce reduce, int32_t n, bool in_place) {
    const void *in[MOST];
    void *out[MOST];
    for (int32_t r = 0; r < n; r++) {
        comm_fill(inputs[r], COUNT, TPP_F64, r, 5);
        in[r] = in_place ? outputs[r] : inputs[r];
        out[r] = outputs[r];
        memcpy(outputs[r], inputs[r], sizeof inputs[r]);
    }
    tpp__comm_fold fold = {in, out, sizeof(void *), n, n, TPP_F64, reduce, 0};
    tpp__comm_fold_slice(&fold, 3, COUNT - 2);
    for (int32_t r = 0; r < n; r++) {
        for (int64_t i = 0; i < COUNT; i++) {
            bool inside = i >= 3 && i < COUNT - 2;
            assert_true(outputs[r][i] == (inside ? want(reduce, n, i) : inputs[r][i]));
        }
    }
}

static void folds_slices_of_up_to_13_inputs(void **state) {
    (void)state;
    for (int32_t n = 1; n <= MOST; n++) {
        for (tpp_reduce reduce = TPP_SUM; reduce <= TPP_MAX; reduce++) {
            check_fold(reduce, n, false);
            check_fold(reduce, n, true);
        }
    }
}

/* The sum of what bfloat16 holds of inputs first .. first + n - 1, each sum of two rounded. */
static float tree_of_bf16(uint16_t in[MOST][COUNT], int32_t first, int32_t n, int64_t i) {
    float sum;
    tpp_convert(&sum, TPP_F32, &in[first][i], TPP_BF16, 1);
    if (n == 1)
        return sum;
    int32_t left = 1;
    while (2 * left < n)
        left *= 2;
    sum = tree_of_bf16(in, first, left, i) + tree_of_bf16(in, first + left, n - left, i);
    uint16_t rounded;
    tpp_convert(&rounded, TPP_BF16, &sum, TPP_F32, 1);
    tpp_convert(&sum, TPP_F32, &rounded, TPP_BF16, 1);
    return sum;
}

/* In order: float32 sums, rounded at the end. */
static float order_of_bf16(uint16_t in[MOST][COUNT], int32_t n, int64_t i) {
    float sum, next;
    tpp_convert(&sum, TPP_F32, &in[0][i], TPP_BF16, 1);
    for (int32_t r = 1; r < n; r++) {
        tpp_convert(&next, TPP_F32, &in[r][i], TPP_BF16, 1);
        sum = sum + next;
    }
    uint16_t rounded;
    tpp_convert(&rounded, TPP_BF16, &sum, TPP_F32, 1);
    tpp_convert(&sum, TPP_F32, &rounded, TPP_BF16, 1);
    return sum;
}

static void bfloat16_rounds_as_the_header_says(void **state) {
    static uint16_t in[MOST][COUNT], out[MOST][COUNT];
    (void)state;
    for (int32_t n = 1; n <= MOST; n++) {
        for (tpp_reduce reduce = TPP_SUM; reduce <= TPP_SUM_TREE; reduce++) {
            const void *ins[MOST];
            void *outs[MOST];
            for (int32_t r = 0; r < n; r++) {
                comm_fill(in[r], COUNT, TPP_BF16, r, 6);
                memcpy(out[r], in[r], sizeof out[r]);
                ins[r] = outs[r] = out[r];
            }
            tpp__comm_fold fold = {ins, outs, sizeof(void *), n, n, TPP_BF16, reduce, 0};
            tpp__comm_fold_slice(&fold, 0, COUNT);
            for (int64_t i = 0; i < n * COUNT; i++) {
                int64_t at = i % COUNT;
                float got;
                tpp_convert(&got, TPP_F32, &out[i / COUNT][at], TPP_BF16, 1);
                assert_true(got == (reduce == TPP_SUM ? order_of_bf16(in, n, at)
                                                      : tree_of_bf16(in, 0, n, at)));
            }
        }
    }
}

static void maximum_keeps_nan_from_either_side(void **state) {
    (void)state;
    float x[4] = {NAN, 1, -INFINITY, 2}, y[4] = {1, NAN, -3, 2};
    tpp__comm_combine(x, y, 4, TPP_F32, TPP_MAX);
    assert_true(isnan(x[0]) && isnan(x[1]) && x[2] == -3 && x[3] == 2);
    uint16_t h[3] = {0x7fc0, 0x3f80, 0xff80}, k[3] = {0x3f80, 0xffc0, 0xc040};
    tpp__comm_combine(h, k, 3, TPP_BF16, TPP_MAX);
    assert_true(h[0] == 0x7fc0 && h[1] == 0xffc0 && h[2] == 0xc040);
    double u[2] = {NAN, 1}, v[2] = {1, NAN};
    tpp__comm_combine(u, v, 2, TPP_F64, TPP_MAX);
    assert_true(isnan(u[0]) && isnan(u[1]));
}

static void integers_wrap_and_compare_signed(void **state) {
    (void)state;
    int32_t a[2] = {INT32_MAX, -5}, one[2] = {1, 3};
    tpp__comm_combine(a, one, 2, TPP_I32, TPP_SUM);
    assert_true(a[0] == INT32_MIN && a[1] == -2);
    tpp__comm_combine(a, one, 2, TPP_I32, TPP_MAX);
    assert_true(a[0] == 1 && a[1] == 3);
    int64_t b[2] = {INT64_MAX, -5}, two[2] = {1, 3};
    tpp__comm_combine(b, two, 2, TPP_I64, TPP_SUM);
    assert_true(b[0] == INT64_MIN && b[1] == -2);
    tpp__comm_combine(b, two, 2, TPP_I64, TPP_MAX);
    assert_true(b[0] == 1 && b[1] == 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folds_slices_of_up_to_13_inputs),
        cmocka_unit_test(bfloat16_rounds_as_the_header_says),
        cmocka_unit_test(maximum_keeps_nan_from_either_side),
        cmocka_unit_test(integers_wrap_and_compare_signed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
