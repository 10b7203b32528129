/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/cross_entropy.h"
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

/* Loss and gradient of rows of logits whose columns are cut into equal blocks, the way ranks
 * hold them. */
typedef struct entropy {
    tpp_dtype dtype;
    int64_t rows, cols, blocks;
    void *z, *w;
    int32_t *target;
    void *m, *s, *part, *dz, *loss;
} entropy;

static entropy entropy_new(tpp_dtype dtype, int64_t rows, int64_t cols, int64_t blocks) {
    entropy e = {.dtype = dtype, .rows = rows, .cols = cols, .blocks = blocks};
    e.z = kern_new(dtype, rows * cols);
    e.dz = kern_new(dtype, rows * cols);
    e.target = calloc((size_t)rows + 1, sizeof *e.target);
    void **vectors[] = {&e.w, &e.m, &e.s, &e.part, &e.loss};
    for (int i = 0; i < 5; i++)
        *vectors[i] = kern_new(dtype, rows);
    kern_fill(dtype, e.z, rows * cols, 1, 3);
    kern_fill(dtype, e.w, rows, 2, 1);
    for (int64_t r = 0; r < rows; r++)
        e.target[r] = (int32_t)(r * 7919 % cols);
    kern_fill_value(dtype, e.dz, rows * cols, NAN);
    return e;
}

static void entropy_free(entropy *e) {
    void *all[] = {e->z, e->dz, e->target, e->w, e->m, e->s, e->part, e->loss};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static char *block(const entropy *e, void *matrix, int64_t b) {
    return (char *)matrix + b * (e->cols / e->blocks) * (e->dtype == TPP_F32 ? 4 : 8);
}

static const tpp__ce_rule plain = {.hit = 1};

static tpp__ce_block part_of(const entropy *e, int64_t b) {
    int64_t n = e->cols / e->blocks;
    return (tpp__ce_block){e->dtype, e->rows, n, block(e, e->z, b), e->cols, b * n};
}

static void run(entropy *e) {
    kern_fill_value(e->dtype, e->m, e->rows, -INFINITY);
    kern_fill_value(e->dtype, e->s, e->rows, 0);
    for (int64_t b = 0; b < e->blocks; b++) {
        tpp__ce_block part = part_of(e, b);
        tpp__kern_ce_max(&part, e->m);
    }
    for (int64_t b = 0; b < e->blocks; b++) {
        tpp__ce_block part = part_of(e, b);
        kern_fill_value(e->dtype, e->part, e->rows, NAN);
        tpp__kern_ce_sum(&part, e->m, e->part, NULL);
        tpp__kern_add(e->dtype, e->rows, e->part, e->s);
    }
    for (int64_t b = 0; b < e->blocks; b++) {
        tpp__ce_block part = part_of(e, b);
        tpp__kern_ce_grad(&part, &plain, e->m, e->s, e->w, e->target, block(e, e->dz, b), e->cols);
    }
    for (int64_t r = 0; r < e->rows; r++) {
        double at = kern_get(e->dtype, e->z, r * e->cols + e->target[r]);
        double m = kern_get(e->dtype, e->m, r);
        kern_set(e->dtype, e->loss, r, log(kern_get(e->dtype, e->s, r)) - (at - m));
    }
}

static void against_truth(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {
        {1, 1, 1}, {7, 16, 1}, {5, 51, 3}, {3, 1028, 4}, {2, 30000, 2}};
    for (int t = 0; t < 2; t++) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            tpp_dtype d = types[t];
            entropy e = entropy_new(d, shapes[i][0], shapes[i][1], shapes[i][2]);
            run(&e);
            close_quad *want = kern_new_quad(e.rows * e.cols), *loss = kern_new_quad(e.rows);
            for (int64_t r = 0; r < e.rows; r++) {
                close_quad s = 0;
                for (int64_t c = 0; c < e.cols; c++)
                    s += truth_exp(kern_get(d, e.z, r * e.cols + c));
                for (int64_t c = 0; c < e.cols; c++)
                    want[r * e.cols + c] =
                        kern_get(d, e.w, r) *
                        (truth_exp(kern_get(d, e.z, r * e.cols + c)) / s - (c == e.target[r]));
                loss[r] = truth_log(s) - kern_get(d, e.z, r * e.cols + e.target[r]);
            }
            double bound = d == TPP_F32 ? 4e-7 : 2e-15;
            assert_close("dz", d, e.dz, CLOSE_QUAD, want, e.rows * e.cols, bound);
            assert_close_each("loss", d, e.loss, CLOSE_QUAD, loss, e.rows, bound, 1);
            free(want);
            free(loss);
            entropy_free(&e);
        }
    }
}

/* All logits but one -inf, whole blocks too: loss 0, gradient 0. */
static void one_finite_logit(void **state) {
    (void)state;
    for (int t = 0; t < 2; t++) {
        for (int64_t blocks = 1; blocks <= 4; blocks *= 2) {
            tpp_dtype d = types[t];
            entropy e = entropy_new(d, 1, 100000, blocks);
            kern_fill_value(d, e.z, e.cols, -INFINITY);
            kern_set(d, e.z, 50000, 10);
            e.target[0] = 50000;
            run(&e);
            assert_true(kern_get(d, e.loss, 0) == 0);
            for (int64_t c = 0; c < e.cols; c++)
                assert_true(kern_get(d, e.dz, c) == 0);
            entropy_free(&e);
        }
    }
}

static void large_logits(void **state) {
    (void)state;
    for (int t = 0; t < 2; t++) {
        for (int64_t blocks = 1; blocks <= 2; blocks++) {
            tpp_dtype d = types[t];
            entropy e = entropy_new(d, 1, 2, blocks);
            kern_fill_value(d, e.z, 2, 1e8);
            kern_fill_value(d, e.w, 1, 1);
            e.target[0] = 0;
            run(&e);
            const double loss = 0.693147180559945, half[] = {-0.5, 0.5};
            assert_close("loss", d, e.loss, TPP_F64, &loss, 1, d == TPP_F32 ? 1e-7 : 1e-14);
            assert_close("dz", d, e.dz, TPP_F64, half, 2, 0);
            entropy_free(&e);
        }
    }
}

/* Whole numbers plus a whole constant are exact: no bit changes up to 1e8 in float64, 1e6 in
 * float32. */
static void added_constant(void **state) {
    (void)state;
    for (int t = 0; t < 2; t++) {
        tpp_dtype d = types[t];
        uint64_t w = d == TPP_F32 ? 4 : 8;
        entropy e = entropy_new(d, 3, 40, 1), f = entropy_new(d, 3, 40, 1);
        for (int64_t i = 0; i < 120; i++) {
            double z = floor(kern_get(d, e.z, i));
            kern_set(d, e.z, i, z);
            kern_set(d, f.z, i, z + (d == TPP_F32 ? 1e6 : 1e8));
        }
        run(&e);
        run(&f);
        assert_same_bits("dz", e.dz, f.dz, 120 * w);
        assert_same_bits("loss", e.loss, f.loss, 3 * w);
        entropy_free(&e);
        entropy_free(&f);
    }
}

/* A column's gradient does not depend on how columns are cut, given m and s; dz may be z. */
static void blocks_and_in_place(void **state) {
    (void)state;
    for (int t = 0; t < 2; t++) {
        tpp_dtype d = types[t];
        uint64_t bytes = 4 * 60 * (d == TPP_F32 ? 4 : 8);
        entropy e = entropy_new(d, 4, 60, 1);
        run(&e);
        void *dz = kern_new(d, 4 * 60);
        memcpy(dz, e.z, bytes);
        for (int64_t first = 0; first < 60; first += 12) {
            char *part = (char *)dz + first * (d == TPP_F32 ? 4 : 8);
            tpp__ce_block b = {d, 4, 12, part, 60, first};
            tpp__kern_ce_grad(&b, &plain, e.m, e.s, e.w, e.target, part, 60);
        }
        assert_same_bits("dz", dz, e.dz, bytes);
        free(dz);
        entropy_free(&e);
    }
}

static void no_columns(void **state) {
    (void)state;
    float m[2] = {3, -INFINITY}, s[2] = {NAN, NAN}, t[2] = {NAN, NAN}, w[2] = {1, 1};
    int32_t target[2] = {0, 0};
    tpp__ce_block none = {.dtype = TPP_F32, .rows = 2};
    tpp__kern_ce_max(&none, m);
    assert_true(m[0] == 3 && m[1] == -INFINITY);
    tpp__kern_ce_sum(&none, m, s, t);
    assert_true(s[0] == 0 && s[1] == 0 && t[0] == 0 && t[1] == 0);
    tpp__kern_ce_grad(&none, &plain, m, s, w, target, s, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_truth),       cmocka_unit_test(one_finite_logit),
        cmocka_unit_test(large_logits),        cmocka_unit_test(added_constant),
        cmocka_unit_test(blocks_and_in_place), cmocka_unit_test(no_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
