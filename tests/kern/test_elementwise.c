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
static const int64_t shapes[][2] = {{0, 5}, {5, 0}, {1, 1}, {3, 7}, {4, 16}, {9, 33}, {2, 300}};
enum { SHAPES = sizeof shapes / sizeof *shapes, GAP = 3, LARGEST = 1000 };

static close_quad at(tpp_dtype dtype, const void *x, int64_t i) {
    return kern_get(dtype, x, i);
}

/* Results of one addition, rounded as the type rounds. */
static double rounded(tpp_dtype dtype, double a, double b) {
    return dtype == TPP_F32 ? (double)((float)a + (float)b) : a + b;
}

static void addition(void **state) {
    (void)state;
    for (int t = 0; t < 2; t++) {
        tpp_dtype d = types[t];
        void *x = kern_new(d, LARGEST), *z = kern_new(d, LARGEST), *y = kern_new(d, LARGEST);
        void *want = kern_new(d, LARGEST);
        kern_fill(d, x, LARGEST, 1, 1);
        kern_fill(d, z, LARGEST, 2, 1);
        for (int64_t i = 0; i < LARGEST; i++)
            kern_set(d, want, i, rounded(d, kern_get(d, x, i), kern_get(d, z, i)));
        uint64_t bytes = (uint64_t)LARGEST * (d == TPP_F32 ? 4 : 8);
        kern_fill_value(d, y, LARGEST, NAN);
        tpp__kern_add_to(d, LARGEST, x, z, y);
        assert_same_bits("x + z", y, want, bytes);
        memcpy(y, z, bytes);
        tpp__kern_add(d, LARGEST, x, y);
        assert_same_bits("y += x", y, want, bytes);
        tpp__kern_add_to(d, LARGEST, x, z, z);
        assert_same_bits("z = x + z", z, want, bytes);
        tpp__kern_add(d, 0, x, y);
        assert_same_bits("nothing", y, want, bytes);
        free(x);
        free(z);
        free(y);
        free(want);
    }
}

static void copy(void **state) {
    (void)state;
    for (int t = 0; t < 2; t++) {
        for (int s = 0; s < SHAPES; s++) {
            int64_t rows = shapes[s][0], cols = shapes[s][1], ldx = cols + GAP, ldy = cols + 1;
            tpp_dtype d = types[t];
            void *x = kern_new(d, rows * ldx), *y = kern_new(d, rows * ldy);
            kern_fill(d, x, rows * ldx, 1, 1);
            kern_fill_value(d, y, rows * ldy, 5);
            tpp__kern_copy(d, rows, cols, x, ldx, y, ldy);
            for (int64_t i = 0; i < rows * ldy; i++) {
                int64_t r = i / ldy, c = i % ldy;
                assert_true(kern_get(d, y, i) == (c < cols ? kern_get(d, x, r * ldx + c) : 5));
            }
            free(x);
            free(y);
        }
    }
    tpp__kern_copy(TPP_F64, 3, 0, NULL, 0, NULL, 0);
}

static void bias(void **state) {
    (void)state;
    for (int t = 0; t < 2; t++) {
        for (int s = 0; s < SHAPES; s++) {
            int64_t rows = shapes[s][0], cols = shapes[s][1], ld = cols + GAP;
            tpp_dtype d = types[t];
            void *b = kern_new(d, cols), *y = kern_new(d, rows * ld);
            void *want = kern_new(d, rows * ld), *want_b = kern_new(d, cols);
            kern_fill(d, b, cols, 1, 1);
            kern_fill(d, want_b, cols, 1, 1);
            kern_fill(d, y, rows * ld, 2, 1);
            kern_fill(d, want, rows * ld, 2, 1);
            double sum[400] = {0};
            for (int64_t i = 0; i < rows * ld; i++) { /* rows in rising order */
                int64_t c = i % ld;
                if (c >= cols)
                    continue;
                double v = kern_get(d, want, i);
                kern_set(d, want, i, rounded(d, v, kern_get(d, b, c)));
                sum[c] = rounded(d, sum[c], kern_get(d, want, i));
            }
            for (int64_t c = 0; c < cols; c++)
                kern_set(d, want_b, c, rounded(d, kern_get(d, want_b, c), sum[c]));
            uint64_t w = d == TPP_F32 ? 4 : 8;
            tpp__kern_bias_add(d, rows, cols, b, y, ld);
            assert_same_bits("y + bias", y, want, (uint64_t)(rows * ld) * w);
            tpp__kern_bias_grad(d, rows, cols, y, ld, b);
            assert_same_bits("dbias", b, want_b, (uint64_t)cols * w);
            free(b);
            free(y);
            free(want);
            free(want_b);
        }
    }
}

static void squares(void **state) {
    (void)state;
    for (int t = 0; t < 2; t++) {
        for (int s = 0; s < SHAPES; s++) {
            int64_t rows = shapes[s][0], cols = shapes[s][1], ld = cols + GAP;
            tpp_dtype d = types[t];
            void *x = kern_new(d, rows * ld), *tight = kern_new(d, rows * cols);
            kern_fill(d, x, rows * ld, 1, 1e15);
            tpp__kern_copy(d, rows, cols, x, ld, tight, cols);
            close_quad want = 0;
            for (int64_t i = 0; i < rows * cols; i++)
                want += at(d, tight, i) * at(d, tight, i);
            double got = tpp__kern_squares(d, rows, cols, x, ld);
            assert_close("squares", TPP_F64, &got, CLOSE_QUAD, &want, 1, 1e-14);
            double same = tpp__kern_squares(d, rows, cols, tight, cols);
            assert_same_bits("stride", &got, &same, sizeof got);
            free(x);
            free(tight);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addition),
        cmocka_unit_test(copy),
        cmocka_unit_test(bias),
        cmocka_unit_test(squares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
