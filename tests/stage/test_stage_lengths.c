/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Stages with sequences of different lengths (O12): whatever micro-batches they come in, in whatever
 * order, a step gives what one call with all of them gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/stage_model.h"

static int32_t ids[STAGE_SEQUENCES * STAGE_SEQ], targets[STAGE_SEQUENCES * STAGE_SEQ];
static stage_result want, got;

/* Token i of a sequence is known by the sequence's number; behind the tokens is what no vocabulary
 * has. */
static void pack(const stage_layout *l, const int32_t numbers[STAGE_SEQUENCES]) {
    int32_t batch = STAGE_SEQUENCES / l->micros;
    memset(ids, -1, sizeof ids);
    memset(targets, -1, sizeof targets);
    for (int32_t s = 0, at = 0; s < STAGE_SEQUENCES; s++) {
        if (s % batch == 0)
            at = s * STAGE_SEQ;
        for (int32_t i = 0; i < l->lengths[s]; i++, at++) {
            ids[at] = (numbers[s] * 5 + i * 7 + 3) % STAGE_VOCAB;
            targets[at] = (numbers[s] * 3 + i * 5 + 1) % STAGE_VOCAB;
        }
    }
}

static double sum_of(const double *x, int32_t count) {
    double sum = 0;
    for (int32_t i = 0; i < count; i++)
        sum += x[i];
    return sum;
}

/* Three sequences in every order before five others, one of them empty, with their positions. */
static void any_order_of_lengths(void **state) {
    static const int32_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                        {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const int32_t each[] = {1, 4, 6, 2, 0, 5, 3, 6}, pasts[] = {5, 2, 0, 1, 0, 1, 0, 0};
    (void)state;
    for (int k = 0; k < 6 * 3; k++) {
        int32_t numbers[STAGE_SEQUENCES], lengths[STAGE_SEQUENCES], past[STAGE_SEQUENCES];
        for (int32_t s = 0; s < STAGE_SEQUENCES; s++) {
            numbers[s] = s < 3 ? orders[k / 3][s] : s;
            lengths[s] = each[numbers[s]];
            past[s] = pasts[numbers[s]];
        }
        stage_layout l = {.tp = 1, .pp = 1, .micros = 1, .kind = TPP_SCHEDULE_1F1B};
        l.dtype = TPP_F64, l.lengths = lengths, l.past = past;
        pack(&l, numbers);
        stage_train(&l, ids, targets, &want);
        l.pp = 2, l.tp = 1 + k % 2, l.threads = 1, l.micros = 2 << k % 3;
        pack(&l, numbers);
        stage_train(&l, ids, targets, &got);
        double sum = sum_of(got.losses, l.micros);
        assert_close_f64("losses", &sum, want.losses, 1, 1e-14);
        assert_close_f64("gradients", got.grads, want.grads, want.count, 1e-13);
    }
}

static void same_bits_in_every_layout(void **state) {
    static const int32_t lengths[] = {0, 0, 6, 1, 3, 0, 2, 5}, past[] = {0, 3, 0, 4, 0, 0, 4, 1};
    static const int32_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};
    stage_layout one = {.tp = 1, .pp = 1, .micros = 4, .kind = TPP_SCHEDULE_GPIPE, .blocks = 4};
    (void)state;
    one.lengths = lengths, one.past = past;
    pack(&one, numbers);
    stage_train(&one, ids, targets, &want);
    assert_true(want.losses[0] == 0 && want.losses[1] > 0); /* the first one has no tokens */
    stage_layout l = one;
    l.threads = 1;
    for (l.tp = 1; l.tp <= 4; l.tp *= 2) {
        for (l.pp = 1; l.pp <= 4; l.pp *= 2) {
            stage_train(&l, ids, targets, &got);
            assert_same_bits("gradients", got.grads, want.grads,
                             (uint64_t)want.count * sizeof *want.grads);
            assert_same_bits("losses", got.losses, want.losses, sizeof want.losses);
        }
    }
}

static void whole_sequences_are_as_without_lengths(void **state) {
    static const int32_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};
    int32_t lengths[STAGE_SEQUENCES], past[STAGE_SEQUENCES] = {0};
    stage_layout l = {.tp = 1, .pp = 2, .micros = 4, .kind = TPP_SCHEDULE_1F1B};
    (void)state;
    for (int32_t s = 0; s < STAGE_SEQUENCES; s++)
        lengths[s] = STAGE_SEQ;
    l.lengths = lengths, l.past = past;
    pack(&l, numbers);
    stage_train(&l, ids, targets, &want);
    l.lengths = l.past = NULL;
    stage_train(&l, ids, targets, &got);
    assert_same_bits("gradients", got.grads, want.grads, (uint64_t)want.count * sizeof *want.grads);
    assert_same_bits("losses", got.losses, want.losses, sizeof want.losses);
}

static void bad_lengths_are_refused(void **state) {
    int32_t lengths[4] = {2, 0, 1, 3}, past[4] = {0, 0, 0, 0};
    static _Alignas(64) float params[16], grads[16];
    tpp_layer_env env = {.size = sizeof env};
    tpp_norm_desc norm = {.size = sizeof norm, .cols = 4};
    tpp_layer *layer;
    tpp_stage *stage;
    (void)state;
    assert_int_equal(tpp_norm_create(&layer, &env, &norm), TPP_OK);
    const tpp_layer *layers[] = {layer};
    const void *all_params[] = {params};
    void *all_grads[] = {grads};
    tpp_stage_desc d = {
        .size = sizeof d, .layers = layers, .params = all_params, .grads = all_grads};
    d.chunks = d.slots = 1;
    d.micros = 2, d.batch = 2, d.seq = 3;
    assert_int_equal(tpp_stage_create(&stage, &d), TPP_OK);
    assert_int_equal(tpp_stage_set_lengths(NULL, lengths, past), TPP_ERR_INVALID);
    assert_int_equal(tpp_stage_set_lengths(stage, lengths, past), TPP_OK);
    lengths[3] = 4;
    assert_int_equal(tpp_stage_set_lengths(stage, lengths, past), TPP_ERR_INVALID);
    assert_string_equal(tpp_message(), "lengths[3] = 4, of sequence 1 of micro-batch 1, is out of "
                                       "range; accepted: 0 .. 3");
    lengths[3] = 3, past[1] = -1;
    assert_int_equal(tpp_stage_set_lengths(stage, lengths, past), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "past[1] = -1, of sequence 1 of micro-batch 0"));
    past[1] = INT32_MAX - 2;
    assert_int_equal(tpp_stage_set_lengths(stage, NULL, past), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "accepted: 0 .. 2147483644"));
    assert_int_equal(tpp_stage_set_lengths(stage, NULL, NULL), TPP_OK);
    tpp_stage_destroy(stage);
    tpp_layer_destroy(layer);
}

/* The mean over the step's tokens, however many there are: of two equal classes a token's gradient is
 * half of what it counts. */
static void a_token_counts_one_of_the_steps_tokens(void **state) {
    static const int32_t lengths[] = {1, 2}, none[] = {0, 0}, of[] = {0, 0, 0, 0, 0, 0};
    static const double logits[6] = {0};
    double grad_in[6];
    tpp_layer_env env = {.size = sizeof env, .dtype = TPP_F64};
    tpp_loss_desc loss = {.size = sizeof loss, .vocab = 2};
    tpp_layer *layer;
    tpp_stage *stage;
    (void)state;
    assert_int_equal(tpp_loss_create(&layer, &env, &loss), TPP_OK);
    const tpp_layer *layers[] = {layer};
    const void *all_params[] = {NULL};
    void *all_grads[] = {NULL};
    tpp_stage_desc d = {
        .size = sizeof d, .layers = layers, .params = all_params, .grads = all_grads};
    d.chunks = d.slots = 1;
    d.micros = 2, d.batch = 1, d.seq = 3;
    assert_int_equal(tpp_stage_create(&stage, &d), TPP_OK);
    assert_int_equal(tpp_stage_set_data(stage, NULL, of), TPP_OK);
    tpp_stage_call job = {
        .size = sizeof job, .in = logits, .grad_in = grad_in, .count = 6, .dtype = TPP_F64};
    for (int i = 0; i < 3; i++) {
        const double counts[] = {1.0 / 6, 1.0 / 3, 0};
        const int32_t *numbers[] = {NULL, lengths, none};
        assert_int_equal(tpp_stage_set_lengths(stage, numbers[i], NULL), TPP_OK);
        assert_int_equal(tpp_stage_ops_get()->forward(stage, &job), TPP_OK);
        assert_int_equal(tpp_stage_ops_get()->backward(stage, &job), TPP_OK);
        assert_close_f64("token", grad_in + 1, &(double){counts[i] / 2}, 1, 1e-15);
    }
    tpp_stage_destroy(stage);
    tpp_layer_destroy(layer);
}

/* A message behind a micro-batch's tokens is zeros, forward and backward. */
static void rest_of_messages_is_zero(void **state) {
    static const int32_t lengths[] = {1, 0};
    static _Alignas(64) float params[16] = {1, 1, 1, 1}, grads[16];
    float in[16] = {1, 2, 3, 4}, out[16], grad_in[16];
    tpp_layer_env env = {.size = sizeof env};
    tpp_norm_desc norm = {.size = sizeof norm, .flags = TPP_NORM_NO_BIAS, .cols = 4};
    tpp_layer *layer;
    tpp_stage *stage;
    (void)state;
    assert_int_equal(tpp_norm_create(&layer, &env, &norm), TPP_OK);
    const tpp_layer *layers[] = {layer};
    const void *all_params[] = {params};
    void *all_grads[] = {grads};
    tpp_stage_desc d = {
        .size = sizeof d, .layers = layers, .params = all_params, .grads = all_grads};
    d.chunks = d.slots = d.micros = 1;
    d.batch = d.seq = 2;
    assert_int_equal(tpp_stage_create(&stage, &d), TPP_OK);
    assert_int_equal(tpp_stage_set_lengths(stage, lengths, NULL), TPP_OK);
    tpp_stage_call job = {.size = sizeof job, .in = in, .out = out, .count = 16, .dtype = TPP_F32};
    memset(out, 0xff, sizeof out);
    memset(grad_in, 0xff, sizeof grad_in);
    assert_int_equal(tpp_stage_ops_get()->forward(stage, &job), TPP_OK);
    job.out = NULL, job.grad_out = in, job.grad_in = grad_in;
    assert_int_equal(tpp_stage_ops_get()->backward(stage, &job), TPP_OK);
    for (int i = 0; i < 16; i++) {
        assert_true(i < 4 ? out[i] != 0 : out[i] == 0);
        assert_true(i < 4 ? grad_in[i] == grad_in[i] : grad_in[i] == 0);
    }
    tpp_stage_destroy(stage);
    tpp_layer_destroy(layer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_of_lengths),
        cmocka_unit_test(same_bits_in_every_layout),
        cmocka_unit_test(whole_sequences_are_as_without_lengths),
        cmocka_unit_test(bad_lengths_are_refused),
        cmocka_unit_test(a_token_counts_one_of_the_steps_tokens),
        cmocka_unit_test(rest_of_messages_is_zero),
    };
    alarm(240);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
