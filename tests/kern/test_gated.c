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

static const int32_t forms[] = {TPP__ACT_SILU, TPP__ACT_GELU_TANH};
static const tpp_dtype types[] = {TPP_F32, TPP_F64};

/* Matrices of a call: gate and up, and their gradients, side by side with a gap. */
typedef struct buffers {
    int64_t cols, ld, ldy;
    char *both, *dy, *y, *dboth;
    tpp__gated call;
} buffers;

static buffers buffers_new(tpp_dtype dtype, int32_t act, int64_t rows, int64_t cols) {
    buffers b = {.cols = cols, .ld = 2 * cols + 3, .ldy = cols + 1};
    size_t w = dtype == TPP_F32 ? 4 : 8;
    b.both = kern_new(dtype, rows * b.ld);
    b.dboth = kern_new(dtype, rows * b.ld);
    b.dy = kern_new(dtype, rows * b.ldy);
    b.y = kern_new(dtype, rows * b.ldy);
    kern_fill(dtype, b.both, rows * b.ld, 1, 4);
    kern_fill(dtype, b.dy, rows * b.ldy, 2, 1);
    kern_fill_value(dtype, b.dboth, rows * b.ld, NAN);
    kern_fill_value(dtype, b.y, rows * b.ldy, NAN);
    b.call = (tpp__gated){.dtype = dtype,
                          .act = act,
                          .rows = rows,
                          .cols = cols,
                          .gate = b.both,
                          .up = b.both + (size_t)cols * w,
                          .ld = b.ld,
                          .y = b.y,
                          .ldy = b.ldy,
                          .dy = b.dy,
                          .dgate = b.dboth,
                          .dup = b.dboth + (size_t)cols * w};
    return b;
}

static void buffers_free(buffers *b) {
    free(b->both);
    free(b->dboth);
    free(b->dy);
    free(b->y);
}

/* Gates on [-12, 12], each result relative to itself. The gate's gradient is held to that in
 * float64 alone: its slope crosses 0, where float can only be near in absolute terms. */
static void one_case(tpp_dtype dtype, int32_t act, double bound, double slope_tiny) {
    enum { ROWS = 24, COLS = 64 };
    buffers b = buffers_new(dtype, act, ROWS, COLS);
    close_quad *want = kern_new_quad(3 * COLS), *dgate = want + COLS, *dup = want + 2 * COLS;
    for (int64_t r = 0; r < ROWS; r++) {
        for (int64_t c = 0; c < COLS; c++)
            kern_set(dtype, b.both, r * b.ld + c, (double)(r * COLS + c) / 64 - 12);
    }
    tpp__kern_gated_forward(&b.call);
    tpp__kern_gated_backward(&b.call);
    size_t w = dtype == TPP_F32 ? 4 : 8;
    for (int64_t r = 0; r < ROWS; r++) {
        for (int64_t c = 0; c < COLS; c++) {
            close_quad gate = kern_get(dtype, b.both, r * b.ld + c);
            close_quad up = kern_get(dtype, b.both, r * b.ld + COLS + c);
            close_quad dy = kern_get(dtype, b.dy, r * b.ldy + c);
            want[c] = truth_act(act, gate) * up;
            dgate[c] = dy * up * truth_act_slope(act, gate);
            dup[c] = dy * truth_act(act, gate);
        }
        char *got = b.dboth + (size_t)(r * b.ld) * w;
        assert_close_each("y", dtype, b.y + (size_t)(r * b.ldy) * w, CLOSE_QUAD, want, COLS, bound,
                          1e-29);
        assert_close_each("dgate", dtype, got, CLOSE_QUAD, dgate, COLS, bound, slope_tiny);
        assert_close_each("dup", dtype, got + COLS * w, CLOSE_QUAD, dup, COLS, bound, 1e-29);
        assert_true(isnan(kern_get(dtype, b.y, r * b.ldy + COLS)));
        for (int64_t c = 2 * COLS; c < b.ld; c++)
            assert_true(isnan(kern_get(dtype, b.dboth, r * b.ld + c)));
    }
    free(want);
    buffers_free(&b);
}

static void against_truth(void **state) {
    (void)state;
    for (int f = 0; f < 2; f++) {
        one_case(TPP_F64, forms[f], 1e-13, 1e-300);
        one_case(TPP_F32, forms[f], 8e-7, 4);
    }
}

/* The bits of the plain activation, times up: a gate is no other function. */
static void as_the_plain_one(void **state) {
    (void)state;
    enum { N = 301 };
    for (int f = 0; f < 2; f++) {
        buffers b = buffers_new(TPP_F32, forms[f], 1, N);
        float value[N], dup[N], dgate[N];
        const float *up = b.call.up, *dy = b.call.dy;
        tpp__kern_gated_forward(&b.call);
        tpp__kern_gated_backward(&b.call);
        tpp__kern_act_forward(TPP_F32, forms[f], N, b.call.gate, value);
        for (int i = 0; i < N; i++)
            dgate[i] = dy[i] * up[i];
        tpp__kern_act_backward(TPP_F32, forms[f], N, b.call.gate, dgate, dgate);
        for (int i = 0; i < N; i++) {
            dup[i] = dy[i] * value[i];
            value[i] *= up[i];
        }
        assert_same_bits("y", b.call.y, value, sizeof value);
        assert_same_bits("dup", b.call.dup, dup, sizeof dup);
        assert_same_bits("dgate", b.call.dgate, dgate, sizeof dgate);
        buffers_free(&b);
    }
}

/* Columns of a call, cut anywhere, give the bits that they give in one piece, and in place. */
static void position_is_nothing(void **state) {
    (void)state;
    enum { ROWS = 3, COLS = 77 };
    for (int t = 0; t < 2; t++) {
        for (int f = 0; f < 2; f++) {
            buffers whole = buffers_new(types[t], forms[f], ROWS, COLS);
            buffers cut = buffers_new(types[t], forms[f], ROWS, COLS);
            size_t w = types[t] == TPP_F32 ? 4 : 8;
            tpp__kern_gated_forward(&whole.call);
            tpp__kern_gated_backward(&whole.call);
            cut.call.dgate = cut.both;
            cut.call.dup = cut.both + COLS * w;
            for (size_t c = 0; c < COLS; c += 11) {
                tpp__gated part = cut.call;
                part.cols = 11;
                part.gate = (const char *)part.gate + c * w;
                part.up = (const char *)part.up + c * w;
                part.y = (char *)part.y + c * w;
                part.dy = (const char *)part.dy + c * w;
                part.dgate = (char *)part.dgate + c * w;
                part.dup = (char *)part.dup + c * w;
                tpp__kern_gated_forward(&part);
                tpp__kern_gated_backward(&part);
            }
            for (size_t r = 0; r < ROWS; r++) {
                size_t at = r * (size_t)whole.ld * w, out = r * (size_t)whole.ldy * w;
                assert_same_bits("y", whole.y + out, cut.y + out, COLS * w);
                assert_same_bits("gradients", whole.dboth + at, cut.both + at, 2 * COLS * w);
            }
            buffers_free(&whole);
            buffers_free(&cut);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_truth),
        cmocka_unit_test(as_the_plain_one),
        cmocka_unit_test(position_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
