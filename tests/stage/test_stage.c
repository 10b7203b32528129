/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Layers as pipeline stages: a step gives the same bits under every layout, schedule and executor. */
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

static int make_data(void **state) {
    (void)state;
    for (int32_t i = 0; i < STAGE_SEQUENCES * STAGE_SEQ; i++) {
        ids[i] = (i * 7 + 3) % STAGE_VOCAB;
        targets[i] = (i * 5 + 1) % STAGE_VOCAB;
    }
    alarm(240);
    return 0;
}

static void same(const char *what, const stage_layout *layout) {
    stage_train(layout, ids, targets, &got);
    assert_int_equal(got.count, want.count);
    assert_same_bits(what, got.grads, want.grads, (uint64_t)want.count * sizeof *want.grads);
    assert_same_bits(what, got.losses, want.losses, sizeof want.losses);
}

static void check_layouts(int32_t tied) {
    static const int32_t splits[][3] = {{1, 1, 1}, {2, 1, 1}, {4, 1, 1}, {1, 2, 1}, {2, 2, 1},
                                        {1, 4, 1}, {1, 2, 2}, {2, 2, 3}, {1, 1, 2}, {2, 3, 2}};
    static const tpp_dtype dtypes[] = {TPP_F64, TPP_F32, TPP_BF16};
    for (int d = 0; d < 3; d++) {
        stage_layout one = {.tp = 1,
                            .pp = 1,
                            .micros = 4,
                            .kind = TPP_SCHEDULE_GPIPE,
                            .blocks = 4,
                            .dtype = dtypes[d],
                            .tied = tied};
        stage_train(&one, ids, targets, &want);
        for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
            stage_layout l = one;
            l.tp = splits[i][0], l.pp = splits[i][1], l.chunks = splits[i][2];
            for (l.kind = TPP_SCHEDULE_GPIPE; l.kind <= TPP_SCHEDULE_INTERLEAVED; l.kind++) {
                if (l.chunks > 1 && l.kind != TPP_SCHEDULE_INTERLEAVED)
                    continue;
                for (l.threads = 0; l.threads < 2; l.threads++)
                    same("layout", &l);
            }
        }
    }
}

static void every_layout_gives_the_same_bits(void **state) {
    (void)state;
    check_layouts(0);
}

/* Embedding and head as copies, wherever they are: both end with the same sum. */
static void tied_copies_too(void **state) {
    (void)state;
    check_layouts(1);
    const int64_t table = STAGE_VOCAB * 16;
    assert_same_bits("copies", want.grads, want.grads + want.count - table,
                     (uint64_t)table * sizeof *want.grads);
}

/* A zero-bubble order, worked out by hand for two ranks: W fills the waits. */
static void halves_give_the_bits_of_the_whole(void **state) {
    (void)state;
    stage_layout one = {
        .tp = 1, .pp = 1, .micros = 2, .kind = TPP_SCHEDULE_1F1B, .blocks = 2, .dtype = TPP_F32};
    stage_train(&one, ids, targets, &want);
    stage_layout l = one;
    l.pp = 2;
    l.text = "0F0 0F1 0I0 0W0 0I1 0W1\n1F0 1I0 1F1 1I1 1W0 1W1\n";
    for (l.tp = 1; l.tp <= 2; l.tp++) {
        for (l.threads = 0; l.threads < 2; l.threads++)
            same("halves", &l);
    }
}

/* Layers of callbacks, under 1F1B and in halves. */
static void custom_layers_take_part(void **state) {
    (void)state;
    stage_layout one = {.tp = 1,
                        .pp = 1,
                        .micros = 2,
                        .kind = TPP_SCHEDULE_1F1B,
                        .blocks = 2,
                        .dtype = TPP_F32,
                        .custom = 1};
    stage_train(&one, ids, targets, &want);
    stage_layout l = one;
    l.pp = 2;
    for (int halves = 0; halves < 2; halves++) {
        l.text = halves ? "0F0 0F1 0I0 0W0 0I1 0W1\n1F0 1I0 1F1 1I1 1W0 1W1\n" : NULL;
        for (l.tp = 1; l.tp <= 2; l.tp++)
            for (l.threads = 0; l.threads < 2; l.threads++)
                same("custom", &l);
    }
}

/* A choice per layer; the bits are those of no recomputation, dropout included. */
static void recomputation_changes_no_bits(void **state) {
    (void)state;
    stage_layout one = {.tp = 1,
                        .pp = 1,
                        .micros = 2,
                        .kind = TPP_SCHEDULE_1F1B,
                        .blocks = 2,
                        .dtype = TPP_F32,
                        .custom = 1,
                        .dropout_seed = 5};
    stage_train(&one, ids, targets, &want);
    stage_layout l = one;
    l.pp = 2;
    l.recompute = 1;
    for (int halves = 0; halves < 2; halves++) {
        l.text = halves ? "0F0 0F1 0I0 0W0 0I1 0W1\n1F0 1I0 1F1 1I1 1W0 1W1\n" : NULL;
        for (l.tp = 1; l.tp <= 2; l.tp++)
            same("recomputation", &l);
    }
}

/* O06: each micro-batch has its own loss, and the gradient is the sum over all of them. */
static void each_micro_batch_has_its_own_loss(void **state) {
    (void)state;
    stage_layout one = {
        .tp = 1, .pp = 1, .micros = 1, .kind = TPP_SCHEDULE_GPIPE, .dtype = TPP_F64};
    stage_train(&one, ids, targets, &want);
    stage_layout two = {
        .tp = 1, .pp = 2, .micros = 2, .kind = TPP_SCHEDULE_GPIPE, .dtype = TPP_F64, .threads = 1};
    stage_train(&two, ids, targets, &got);
    assert_true(got.losses[0] != got.losses[1]);
    double sum = got.losses[0] + got.losses[1];
    assert_close_f64("losses", &sum, want.losses, 1, 1e-14);
    assert_close_f64("gradients", got.grads, want.grads, want.count, 1e-13);
}

/* O08: the gradient of a mean does not depend on the number of micro-batches. */
static void number_of_micro_batches_does_not_matter(void **state) {
    (void)state;
    stage_layout l = {
        .tp = 2, .pp = 2, .micros = 1, .kind = TPP_SCHEDULE_1F1B, .dtype = TPP_F64, .threads = 1};
    stage_train(&l, ids, targets, &want);
    for (l.micros = 2; l.micros <= 8; l.micros *= 2) {
        stage_train(&l, ids, targets, &got);
        assert_close_f64("gradients", got.grads, want.grads, want.count, 1e-13);
    }
}

/* O09: k steps without zeroing add up to k times one step. */
static void steps_accumulate(void **state) {
    (void)state;
    stage_layout l = {
        .tp = 1, .pp = 2, .micros = 4, .kind = TPP_SCHEDULE_1F1B, .dtype = TPP_F64, .threads = 1};
    stage_train(&l, ids, targets, &want);
    for (l.steps = 1; l.steps <= 5; l.steps++) {
        stage_train(&l, ids, targets, &got);
        for (int64_t i = 0; i < got.count; i++)
            got.grads[i] /= l.steps;
        assert_close_f64("gradients", got.grads, want.grads, want.count, 1e-13);
    }
}

/* The same is dropped in every layout, and something else in each micro-batch and step. */
static void dropout_does_not_know_the_layout(void **state) {
    (void)state;
    stage_layout one = {.tp = 1,
                        .pp = 1,
                        .micros = 4,
                        .kind = TPP_SCHEDULE_GPIPE,
                        .blocks = 4,
                        .dtype = TPP_F32,
                        .dropout_seed = 11};
    stage_train(&one, ids, targets, &want);
    stage_layout l = one;
    l.threads = 1;
    for (l.tp = 1; l.tp <= 4; l.tp *= 2)
        for (l.pp = 1; l.pp <= 4; l.pp *= 2)
            same("dropout", &l);
    l = one;
    l.dropout_seed = 12;
    stage_train(&l, ids, targets, &got);
    assert_true(got.losses[0] != want.losses[0] && got.losses[1] != want.losses[1]);
    l.dropout_seed = 11 + 0x9e3779b97f4a7c15u; /* micro-batch 0 draws as micro-batch 1 did */
    int32_t twice[STAGE_SEQUENCES * STAGE_SEQ], marks[STAGE_SEQUENCES * STAGE_SEQ];
    for (int32_t i = 0; i < STAGE_SEQUENCES * STAGE_SEQ; i++) { /* four equal micro-batches */
        twice[i] = ids[i % (2 * STAGE_SEQ)];
        marks[i] = targets[i % (2 * STAGE_SEQ)];
    }
    stage_train(&one, twice, marks, &want);
    stage_train(&l, twice, marks, &got);
    assert_true(want.losses[0] != want.losses[1]);
    assert_same_bits("shifted seed", got.losses, want.losses + 1, 3 * sizeof(double));
    assert_int_equal(tpp_stage_set_dropout(NULL, 1), TPP_ERR_INVALID);
}

/* Messages of a rank's rows, also where 6 tokens lie in 4 blocks as 2, 2, 2, 0. */
static void sequence_parallel_stages(void **state) {
    (void)state;
    for (int32_t micros = 4; micros <= 8; micros += 4) {
        stage_layout one = {.tp = 1,
                            .pp = 1,
                            .micros = micros,
                            .kind = TPP_SCHEDULE_GPIPE,
                            .blocks = 4,
                            .dtype = TPP_F32,
                            .dropout_seed = 3};
        stage_train(&one, ids, targets, &got);
        one.sequence = 1;
        stage_train(&one, ids, targets, &want);
        assert_same_bits("losses as without", got.losses, want.losses, sizeof want.losses);
        stage_layout l = one;
        for (l.tp = 1; l.tp <= 4; l.tp *= 2)
            for (l.pp = 1; l.pp <= 4; l.pp *= 2)
                for (l.threads = 0; l.threads < 2; l.threads++)
                    same("sequence parallel", &l);
    }
}

static void peaks_follow_the_schedule(void **state) {
    (void)state;
    stage_layout l = {
        .tp = 1, .pp = 4, .micros = 8, .kind = TPP_SCHEDULE_1F1B, .dtype = TPP_F32, .threads = 1};
    stage_train(&l, ids, targets, &got);
    for (int32_t r = 0; r < 4; r++)
        assert_int_equal(got.peaks[r], 4 - r);
    l.kind = TPP_SCHEDULE_GPIPE;
    stage_train(&l, ids, targets, &got);
    for (int32_t r = 0; r < 4; r++)
        assert_int_equal(got.peaks[r], 8);
}

/* Each refusal names the field. */
static void bad_arguments_get_a_sentence(void **state) {
    (void)state;
    tpp_stage_desc d = {.size = sizeof d};
    tpp_stage *stage = NULL;
    assert_int_equal(tpp_stage_create(&stage, &d), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "desc.chunks = 0"));
    d.chunks = d.micros = d.slots = 1;
    d.batch = d.seq = 1;
    assert_int_equal(tpp_stage_create(&stage, &d), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "desc.layers is NULL"));
    assert_int_equal(tpp_stage_set_data(NULL, NULL, NULL), TPP_ERR_INVALID);
    assert_null(tpp_stage_losses(NULL));
    tpp_stage_destroy(NULL);
}

/* A stage called by an executor that was told of other messages, or before it has data. */
static void misuse_is_refused(void **state) {
    (void)state;
    static _Alignas(64) float params[64], grads[64];
    float in[8] = {0}, out[8];
    tpp_layer_env env = {.size = sizeof env};
    tpp_norm_desc norm = {.size = sizeof norm, .cols = 4};
    tpp_layer *layer;
    assert_int_equal(tpp_norm_create(&layer, &env, &norm), TPP_OK);
    const tpp_layer *layers[] = {layer};
    const void *all_params[] = {params};
    void *all_grads[] = {grads};
    tpp_stage_desc d = {
        .size = sizeof d, .layers = layers, .params = all_params, .grads = all_grads};
    d.chunks = d.micros = d.slots = 1;
    d.batch = 1, d.seq = 2;
    tpp_stage *stage;
    assert_int_equal(tpp_stage_create(&stage, &d), TPP_OK);
    tpp_stage_call job = {.size = sizeof job, .in = in, .out = out, .count = 8, .dtype = TPP_F32};
    const tpp_stage_ops *ops = tpp_stage_ops_get();
    assert_int_equal(ops->forward(stage, &job), TPP_OK);
    job.count = 7;
    assert_int_equal(ops->forward(stage, &job), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "run.message_count = 7"));
    job.count = 8, job.dtype = TPP_F64;
    assert_int_equal(ops->forward(stage, &job), TPP_ERR_INVALID);
    job.dtype = TPP_F32, job.slot = 1;
    assert_int_equal(ops->backward(stage, &job), TPP_ERR_INVALID);
    job.slot = -1;
    assert_int_equal(ops->backward(stage, &job), TPP_ERR_INVALID);
    job.slot = 0;
    assert_int_equal(ops->backward_input(stage, &job), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "desc.halves"));
    tpp_stage_destroy(stage);
    tpp_layer_destroy(layer);
}

static void data_must_be_set_first(void **state) {
    (void)state;
    static _Alignas(64) float params[64], grads[64];
    float out[8];
    tpp_layer_env env = {.size = sizeof env};
    tpp_embedding_desc embedding = {.size = sizeof embedding, .vocab = 3, .hidden = 4};
    tpp_layer *layer;
    assert_int_equal(tpp_embedding_create(&layer, &env, &embedding), TPP_OK);
    const tpp_layer *layers[] = {layer};
    const void *all_params[] = {params};
    void *all_grads[] = {NULL};
    tpp_stage_desc d = {
        .size = sizeof d, .layers = layers, .params = all_params, .grads = all_grads};
    d.chunks = d.micros = d.slots = 1;
    d.batch = 1, d.seq = 2;
    tpp_stage *stage;
    assert_int_equal(tpp_stage_create(&stage, &d), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "desc.grads[0] is NULL"));
    all_grads[0] = grads;
    assert_int_equal(tpp_stage_create(&stage, &d), TPP_OK);
    tpp_stage_call job = {.size = sizeof job, .out = out, .count = 8, .dtype = TPP_F32};
    assert_int_equal(tpp_stage_ops_get()->forward(stage, &job), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "tpp_stage_set_data"));
    int32_t two[2] = {2, 3};
    assert_int_equal(tpp_stage_set_data(stage, two, NULL), TPP_OK);
    assert_int_equal(tpp_stage_ops_get()->forward(stage, &job), TPP_ERR_RANGE);
    tpp_stage_destroy(stage);
    tpp_layer_destroy(layer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_gives_the_same_bits),
        cmocka_unit_test(tied_copies_too),
        cmocka_unit_test(halves_give_the_bits_of_the_whole),
        cmocka_unit_test(custom_layers_take_part),
        cmocka_unit_test(recomputation_changes_no_bits),
        cmocka_unit_test(each_micro_batch_has_its_own_loss),
        cmocka_unit_test(number_of_micro_batches_does_not_matter),
        cmocka_unit_test(steps_accumulate),
        cmocka_unit_test(dropout_does_not_know_the_layout),
        cmocka_unit_test(sequence_parallel_stages),
        cmocka_unit_test(peaks_follow_the_schedule),
        cmocka_unit_test(bad_arguments_get_a_sentence),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(data_must_be_set_first),
    };
    return cmocka_run_group_tests(tests, make_data, NULL);
}
