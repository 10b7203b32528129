/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Options of the cross-entropy where their right answer is known: published and worked-out values,
 * rows without a loss, tokens that do not count, and means over micro-batches of unequal counts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/tp_run.h"

static const int32_t splits[][2] = {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {1, 8}, {2, 8}, {4, 8}, {8, 8}};
enum { SPLITS = sizeof splits / sizeof *splits };

static tp_result *run(const tp_case *c, const tp_full *full, size_t split, tpp_dtype dtype) {
    tp_setup setup = {.ranks = splits[split][0], .blocks = splits[split][1], .dtype = dtype};
    return tp_run(c, full, &setup);
}

static double number(const tp_result *r, const void *array, int64_t i) {
    return r->dtype == TPP_F64 ? ((const double *)array)[i] : (double)((const float *)array)[i];
}

/* One token of the logits i / 2, i = 0 .. 7, target 5; also its gradient against the reference. */
static void check_smoothing(uint32_t flags, double smoothing, double want) {
    const tpp_loss_desc d = {.size = sizeof d, .flags = flags, .vocab = 8, .smoothing = smoothing};
    const tp_case c = {"loss", &tp_kind_loss, &d};
    tp_full *full = tp_full_inputs(&c, 1, 1, 1);
    for (int i = 0; i < 8; i++)
        full->in[i] = (ref_real)i / 2;
    full->targets[0] = 5;
    full->grad_out[0] = 1;
    tp_full_answer(&c, full);
    for (size_t s = 0; s < SPLITS; s++) {
        tp_result *r = run(&c, full, s, TPP_F64);
        assert_near(number(r, r->out, 0), want, 1e-14);
        tp_check(r, full, 1e-14);
        tp_result_free(r);
    }
    tp_full_free(full);
}

static void test_smoothing(void **state) {
    (void)state;
    check_smoothing(0, 0, 1.9142666827413);
    check_smoothing(0, 0.1, 1.9892666827413);
    check_smoothing(TPP_LOSS_SMOOTH_OTHERS, 0.1, 1.99998096845559);
}

/* A row whose loss is no number is refused on every rank alike, unless it does not count. */
typedef struct lost {
    const tp_case *c;
    tp_full *full;
    tp_setup setup;
} lost;

static tpp_status run_lost(tpp_comm *comm, int32_t rank, void *arg) {
    const lost *l = arg;
    tp_rank r;
    TP_TRY(tp_rank_open(&r, l->c, l->full, &l->setup, comm, rank));
    tpp_status status = tpp_layer_forward(r.layer, &r.call);
    char message[512];
    snprintf(message, sizeof message, "%s", tpp_message());
    tp_rank_close(&r);
    tp_rank_free(&r);
    tpp_message_set(message);
    return status;
}

static void expect_lost(const tp_case *c, tp_full *full, const char *says) {
    for (size_t s = 0; s < SPLITS; s++) {
        lost l = {c, full, {.ranks = splits[s][0], .blocks = splits[s][1], .dtype = TPP_F32}};
        tpp_status status[8];
        char messages[8][512];
        tp_ranks_try(splits[s][0], run_lost, &l, status, messages[0]);
        for (int32_t i = 0; i < splits[s][0]; i++)
            if (status[i] != TPP_ERR_RANGE || !strstr(messages[i], says))
                fail_msg("rank %d of %d: %s, \"%s\"", i, splits[s][0], tpp_status_name(status[i]),
                         messages[i]);
    }
}

static void fill_row(tp_full *full, int64_t row, double value) {
    for (int64_t i = 0; i < full->in_cols; i++)
        full->in[row * full->in_cols + i] = (ref_real)value;
}

static void test_lost_rows(void **state) {
    static const tpp_loss_desc d = {
        .size = sizeof d, .flags = TPP_LOSS_IGNORE, .vocab = 5, .ignore = -100};
    static const tp_case c = {"loss", &tp_kind_loss, &d};
    (void)state;
    tp_full *full = tp_full_inputs(&c, 1, 3, 1);
    fill_row(full, 1, (double)-INFINITY);
    expect_lost(&c, full, "token 1");
    fill_row(full, 1, 0);
    full->in[1 * 5 + 4] = (ref_real)INFINITY;
    expect_lost(&c, full, "token 1");
    tp_full_free(full);
}

/* One NaN, or nothing else: the loss is NaN, on its token alone. */
static void test_nan_rows(void **state) {
    static const tpp_loss_desc d = {.size = sizeof d, .vocab = 5};
    static const tp_case c = {"loss", &tp_kind_loss, &d};
    (void)state;
    for (int i = 0; i < 2; i++) {
        tp_full *full = tp_full_inputs(&c, 1, 3, 1);
        if (i)
            fill_row(full, 1, (double)NAN);
        full->in[1 * 5 + 2] = (ref_real)NAN;
        for (size_t s = 0; s < SPLITS; s++) {
            tp_result *r = run(&c, full, s, TPP_F32);
            for (int64_t t = 0; t < 3; t++)
                assert_int_equal(isnan(number(r, r->out, t)) != 0, t == 1);
            tp_result_free(r);
        }
        tp_full_free(full);
    }
}

/* Logits of tokens that do not count are no matter: loss and gradient are 0, those of others as
 * without them. */
static void test_ignored_rows(void **state) {
    static const tpp_loss_desc d = {.size = sizeof d,
                                    .flags = TPP_LOSS_IGNORE,
                                    .vocab = 5,
                                    .ignore = -100,
                                    .smoothing = 0.25,
                                    .z_loss = 0.5};
    static const tp_case c = {"loss", &tp_kind_loss_weighted, &d};
    const double rows[] = {(double)-INFINITY, (double)NAN, (double)INFINITY};
    (void)state;
    tp_full *full = tp_full_inputs(&c, 1, 3, 1);
    full->targets[0] = -100;
    full->targets[1] = 2;
    full->targets[2] = 4;
    full->weights[0] = 1;
    full->weights[1] = 0.5;
    full->weights[2] = 0;
    for (size_t i = 0; i < 3; i++) {
        fill_row(full, 0, rows[i]);
        fill_row(full, 2, rows[2 - i]);
        tp_full_answer(&c, full);
        for (size_t s = 0; s < SPLITS; s++) {
            tp_result *r = run(&c, full, s, TPP_F64);
            for (int64_t t = 0; t < 3; t += 2) {
                assert_true(number(r, r->out, t) == 0);
                for (int64_t k = 0; k < 5; k++)
                    assert_true(number(r, r->grad_in, t * 5 + k) == 0);
            }
            tp_check(r, full, 1e-14);
            tp_result_free(r);
        }
    }
    tp_full_free(full);
}

/* 100,000 logits of -infinity but the target's, 10: l = 10, so the loss is z_loss * 100; smoothed, it
 * is infinite, and the gradient finite. */
static void test_infinite_shards(void **state) {
    (void)state;
    for (int smooth = 0; smooth < 2; smooth++) {
        const tpp_loss_desc d = {
            .size = sizeof d, .vocab = 100000, .smoothing = smooth ? 0.5 : 0, .z_loss = 0.25};
        const tp_case c = {"loss", &tp_kind_loss, &d};
        tp_full *full = tp_full_inputs(&c, 1, 1, 1);
        fill_row(full, 0, (double)-INFINITY);
        full->in[50000] = 10;
        full->targets[0] = 50000;
        full->grad_out[0] = 1;
        for (size_t s = 0; s < SPLITS; s++) {
            tp_result *r = run(&c, full, s, s % 2 ? TPP_F32 : TPP_F64);
            double slope = 1 + 2 * 0.25 * 10, each = smooth ? 0.5 / 100000 : 0;
            assert_true(number(r, r->out, 0) == (smooth ? (double)INFINITY : 25));
            for (int64_t i = 0; i < 100000; i++)
                assert_near(number(r, r->grad_in, i),
                            i == 50000 ? slope - (smooth ? 0.5 : 1) - each : -each, 1e-6);
            tp_result_free(r);
        }
        tp_full_free(full);
    }
}

/* Nothing counts: the mean is 0, and so is its gradient. */
static void test_mean_of_nothing(void **state) {
    static const tpp_loss_desc d = {.size = sizeof d,
                                    .flags = TPP_LOSS_IGNORE,
                                    .vocab = 5,
                                    .ignore = 2,
                                    .reduction = TPP_LOSS_MEAN};
    static const tp_case c = {"loss", &tp_kind_loss, &d};
    (void)state;
    tp_full *full = tp_full_inputs(&c, 2, 2, 1);
    for (int i = 0; i < 4; i++)
        full->targets[i] = 2;
    for (size_t s = 0; s < SPLITS; s++) {
        tp_result *r = run(&c, full, s, TPP_F64);
        assert_true(number(r, r->out, 0) == 0);
        for (int64_t i = 0; i < 4 * 5; i++)
            assert_true(number(r, r->grad_in, i) == 0);
        tp_result_free(r);
    }
    tp_full_free(full);
}

/* A batch of 8 tokens, of which 5 count, unlike weights; cut into micro-batches. With the step's
 * weight sum the gradients are those of the mean over the whole, and the losses add up to it. */
static void test_mean_over_cuts(void **state) {
    static const tpp_loss_desc d = {.size = sizeof d,
                                    .flags = TPP_LOSS_IGNORE,
                                    .vocab = 7,
                                    .ignore = -1,
                                    .reduction = TPP_LOSS_MEAN};
    static const tp_case c = {"loss", &tp_kind_loss_weighted, &d};
    static const int cuts[][9] = {{8}, {4, 4}, {3, 3, 2}, {2, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1}};
    (void)state;
    tp_full *whole = tp_full_inputs(&c, 1, 8, 3);
    for (int i = 0; i < 8; i++)
        whole->weights[i] = 1 + i % 3;
    whole->grad_out[0] = 1;
    tp_full_answer(&c, whole);
    double sum = 0;
    assert_int_equal(tpp_loss_weight_sum(&d, whole->targets, whole->weights, 8, &sum), TPP_OK);
    assert_true(sum == 2 + 3 + 2 + 3 + 2); /* of tokens 1, 2, 4, 5 and 7 */
    for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
        double loss = 0;
        for (int first = 0, i = 0; first < 8; first += cuts[k][i++]) {
            tp_full *part = tp_full_inputs(&c, 1, cuts[k][i], 1);
            memcpy(part->in, whole->in + first * 7, (size_t)(part->tokens * 7) * sizeof(ref_real));
            memcpy(part->targets, whole->targets + first,
                   (size_t)part->tokens * sizeof *part->targets);
            memcpy(part->weights, whole->weights + first,
                   (size_t)part->tokens * sizeof *part->weights);
            part->grad_out[0] = 1;
            part->weight_sum = sum;
            tp_result *r = run(&c, part, 1, TPP_F64);
            loss += number(r, r->out, 0);
            assert_close_each("gradient", TPP_F64, r->grad_in, CLOSE_QUAD,
                              whole->grad_in + first * 7, part->tokens * 7, 1e-14, 1);
            tp_result_free(r);
            tp_full_free(part);
        }
        assert_near(loss, (double)whole->out[0], 1e-14);
    }
    tp_full_free(whole);
}

static void test_weight_sum_door(void **state) {
    static const tpp_loss_desc d = {
        .size = sizeof d, .flags = TPP_LOSS_IGNORE, .vocab = 3, .ignore = 9};
    static const int32_t good[] = {0, 9, 2}, bad[] = {0, 9, 3};
    static const double nan[] = {1, 1, (double)NAN};
    double sum = -1;
    (void)state;
    assert_int_equal(tpp_loss_weight_sum(&d, good, NULL, 3, &sum), TPP_OK);
    assert_true(sum == 2);
    assert_int_equal(tpp_loss_weight_sum(&d, NULL, NULL, 0, &sum), TPP_OK);
    assert_true(sum == 0);
    assert_int_equal(tpp_loss_weight_sum(&d, bad, NULL, 3, &sum), TPP_ERR_RANGE);
    assert_non_null(strstr(tpp_message(), "3"));
    assert_int_equal(tpp_loss_weight_sum(&d, good, nan, 3, &sum), TPP_ERR_RANGE);
    assert_non_null(strstr(tpp_message(), "nan"));
    assert_int_equal(tpp_loss_weight_sum(&d, NULL, NULL, 3, &sum), TPP_ERR_INVALID);
    assert_int_equal(tpp_loss_weight_sum(&d, good, NULL, -3, &sum), TPP_ERR_INVALID);
    assert_int_equal(tpp_loss_weight_sum(&d, good, NULL, 3, NULL), TPP_ERR_INVALID);
    assert_int_equal(tpp_loss_weight_sum(NULL, good, NULL, 3, &sum), TPP_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smoothing),       cmocka_unit_test(test_lost_rows),
        cmocka_unit_test(test_nan_rows),        cmocka_unit_test(test_ignored_rows),
        cmocka_unit_test(test_infinite_shards), cmocka_unit_test(test_mean_of_nothing),
        cmocka_unit_test(test_mean_over_cuts),  cmocka_unit_test(test_weight_sum_door),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
