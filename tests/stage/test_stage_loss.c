/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* A stage that ends in a mean: over a step's tokens that count, however micro-batches share them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/tp_run.h"
#include <tpp/stage.h>

enum { MICROS = 2, TOKENS = 3, VOCAB = 5 };

static const int32_t targets[MICROS * TOKENS] = {1, -100, 2, -100, -100, 4};
static const double weights[MICROS * TOKENS] = {1, 5, 0.5, 1, 1, 2};
static double logits[MICROS][TOKENS][VOCAB], slopes[MICROS][TOKENS][VOCAB];

static const tpp_loss_desc loss = {.size = sizeof loss,
                                   .flags = TPP_LOSS_IGNORE,
                                   .vocab = VOCAB,
                                   .ignore = -100,
                                   .reduction = TPP_LOSS_MEAN};

static double exp_sum(int micro, int token) {
    double sum = 0;
    for (int c = 0; c < VOCAB; c++)
        sum += exp(logits[micro][token][c]);
    return sum;
}

/* The weight of a token in the mean; 0 when ignored. */
static double share(int micro, int token, int weighted, double sum) {
    int i = micro * TOKENS + token;
    return targets[i] < 0 ? 0 : (weighted ? weights[i] : 1) / sum;
}

static void check(const tpp_stage *stage, int weighted, double sum) {
    double want = 0;
    for (int m = 0; m < MICROS; m++)
        for (int t = 0; t < TOKENS; t++) {
            double w = share(m, t, weighted, sum);
            int32_t target = targets[m * TOKENS + t];
            want += w > 0 ? w * (log(exp_sum(m, t)) - logits[m][t][target]) : 0;
            for (int c = 0; c < VOCAB; c++)
                assert_near(slopes[m][t][c],
                            w * (exp(logits[m][t][c]) / exp_sum(m, t) - (c == target)), 1e-14);
        }
    assert_near(tpp_stage_losses(stage)[0] + tpp_stage_losses(stage)[1], want, 1e-14);
}

static void step(tpp_stage *stage) {
    for (int m = 0; m < MICROS; m++) {
        tpp_stage_call job = {.size = sizeof job,
                              .micro = m,
                              .in = logits[m],
                              .grad_in = slopes[m],
                              .count = TOKENS * VOCAB,
                              .dtype = TPP_F64};
        assert_int_equal(tpp_stage_ops_get()->forward(stage, &job), TPP_OK);
        assert_int_equal(tpp_stage_ops_get()->backward(stage, &job), TPP_OK);
    }
}

static void mean_over_the_step(void **state) {
    tpp_layer_env env = {.size = sizeof env, .dtype = TPP_F64};
    tpp_layer *layer = NULL;
    tpp_stage *stage = NULL;
    uint64_t random = 1;
    double sum;
    (void)state;
    for (int i = 0; i < MICROS * TOKENS * VOCAB; i++)
        (&logits[0][0][0])[i] = tp_random(&random);
    assert_int_equal(tpp_loss_create(&layer, &env, &loss), TPP_OK);
    const tpp_layer *layers[] = {layer};
    const void *params[] = {NULL};
    void *grads[] = {NULL};
    tpp_stage_desc d = {.size = sizeof d, .layers = layers, .params = params, .grads = grads};
    d.chunks = d.slots = 1;
    d.micros = MICROS;
    d.batch = 1, d.seq = TOKENS;
    d.loss_weight = 1;
    assert_int_equal(tpp_stage_create(&stage, &d), TPP_OK);
    assert_int_equal(tpp_stage_set_data(stage, NULL, targets), TPP_OK);
    assert_int_equal(tpp_loss_weight_sum(&loss, targets, NULL, MICROS * TOKENS, &sum), TPP_OK);
    assert_int_equal(tpp_stage_set_weights(stage, NULL, sum), TPP_OK);
    step(stage);
    check(stage, 0, 3);
    assert_int_equal(tpp_stage_set_weights(stage, weights, 3.5), TPP_OK);
    step(stage);
    check(stage, 1, 3.5);
    assert_int_equal(tpp_stage_set_weights(stage, NULL, (double)NAN), TPP_ERR_INVALID);
    assert_int_equal(tpp_stage_set_weights(NULL, NULL, 0), TPP_ERR_INVALID);
    tpp_stage_destroy(stage);
    tpp_layer_destroy(layer);
}

/* Without weights each micro-batch has its own mean, and the step's loss is the mean of these. */
static void mean_of_means(void **state) {
    tpp_layer_env env = {.size = sizeof env, .dtype = TPP_F64};
    tpp_layer *layer = NULL;
    tpp_stage *stage = NULL;
    (void)state;
    assert_int_equal(tpp_loss_create(&layer, &env, &loss), TPP_OK);
    const tpp_layer *layers[] = {layer};
    const void *params[] = {NULL};
    void *grads[] = {NULL};
    tpp_stage_desc d = {.size = sizeof d, .layers = layers, .params = params, .grads = grads};
    d.chunks = d.slots = 1;
    d.micros = MICROS;
    d.batch = 1, d.seq = TOKENS;
    assert_int_equal(tpp_stage_create(&stage, &d), TPP_OK);
    assert_int_equal(tpp_stage_set_data(stage, NULL, targets), TPP_OK);
    step(stage);
    for (int c = 0; c < VOCAB; c++) /* token 0 is one of two, token 5 one of one; 1 / 2 each */
        for (int m = 0; m < MICROS; m++) {
            int t = m == 0 ? 0 : 2, target = m == 0 ? 1 : 4;
            assert_near(slopes[m][t][c],
                        (m == 0 ? 0.25 : 0.5) *
                            (exp(logits[m][t][c]) / exp_sum(m, t) - (c == target)),
                        1e-14);
        }
    tpp_stage_destroy(stage);
    tpp_layer_destroy(layer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mean_over_the_step),
        cmocka_unit_test(mean_of_means),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
