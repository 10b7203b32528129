/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Gradients of stages: two halves of the micro-batches, two directions, or none at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"
#include <tpp/tpp.h>

/* Micro-batches 0 to 2 of 5 are the first half: direction 0 of a two-way schedule. */
static void late_gradients_are_joined(void **state) {
    (void)state;
    static _Alignas(64) double params[64], early[64], late[64], whole[64];
    double in[8] = {1, 2, 3, 5}, slope[8] = {0.5, 0.25, 1, 2}, out[8];
    tpp_layer_env env = {.size = sizeof env, .dtype = TPP_F64};
    tpp_norm_desc norm = {.size = sizeof norm, .cols = 4};
    tpp_layer *layer;
    assert_int_equal(tpp_norm_create(&layer, &env, &norm), TPP_OK);
    assert_int_equal(tpp_layer_init(layer, params, 1), TPP_OK);
    const tpp_layer *layers[] = {layer};
    const void *all_params[] = {params};
    void *grads[] = {early}, *later[] = {late}, *sums[] = {whole};
    tpp_stage_desc d = {.size = sizeof d, .layers = layers, .params = all_params};
    d.chunks = d.slots = 1;
    d.micros = 5, d.batch = 1, d.seq = 1;
    const tpp_stage_ops *ops = tpp_stage_ops_get();
    tpp_stage *stage[2];
    d.grads = grads, d.late_grads = later;
    assert_int_equal(tpp_stage_create(&stage[0], &d), TPP_OK);
    d.grads = sums, d.late_grads = NULL;
    assert_int_equal(tpp_stage_create(&stage[1], &d), TPP_OK);
    tpp_stage_call job = {.size = sizeof job, .in = in, .count = 4, .dtype = TPP_F64};
    for (job.micro = 0; job.micro < 5; job.micro++) {
        for (int i = 0; i < 2; i++) {
            job.out = out, job.grad_out = NULL, job.grad_in = NULL;
            assert_int_equal(ops->forward(stage[i], &job), TPP_OK);
            job.out = NULL, job.grad_out = slope, job.grad_in = out;
            assert_int_equal(ops->backward(stage[i], &job), TPP_OK);
        }
        if (job.micro == 2)
            assert_memory_equal(early, whole, sizeof early);
        in[0] += 0.7;
    }
    for (int i = 0; i < 64; i++)
        assert_true(early[i] == 0 || (late[i] != 0 && early[i] != whole[i]));
    double sum[64];
    for (int i = 0; i < 64; i++)
        sum[i] = early[i] + late[i];
    assert_int_equal(tpp_stage_join_grads(stage[1]), TPP_OK); /* nothing to do */
    assert_int_equal(tpp_stage_join_grads(stage[0]), TPP_OK);
    assert_same_bits("joined", early, sum, sizeof sum);
    assert_close_f64("joined", early, whole, 64, 1e-15);
    for (int i = 0; i < 64; i++)
        assert_true(late[i] == 0);
    assert_int_equal(tpp_stage_join_grads(NULL), TPP_ERR_INVALID);
    tpp_stage_destroy(stage[0]);
    tpp_stage_destroy(stage[1]);
    tpp_layer_destroy(layer);
}

/* Without gradients: the outputs are the same, the memory is less, a backward is refused. */
static void stages_without_gradients(void **state) {
    (void)state;
    static _Alignas(64) float params[64], grads[64];
    float in[8] = {1, 2, 3, 5, 7, 11, 13, 17}, out[2][8], back[8];
    tpp_layer_env env = {.size = sizeof env};
    tpp_norm_desc norm = {.size = sizeof norm, .cols = 4};
    tpp_layer *layer;
    assert_int_equal(tpp_norm_create(&layer, &env, &norm), TPP_OK);
    assert_int_equal(tpp_layer_init(layer, params, 1), TPP_OK);
    const tpp_layer *layers[] = {layer};
    const void *all_params[] = {params};
    void *all_grads[] = {grads};
    tpp_stage_desc d = {
        .size = sizeof d, .layers = layers, .params = all_params, .grads = all_grads};
    d.chunks = d.micros = 1;
    d.slots = 3, d.batch = 1, d.seq = 2, d.halves = 1;
    int64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        tpp_stage *stage;
        tpp_stage_call job = {.size = sizeof job, .in = in, .count = 8, .dtype = TPP_F32};
        job.out = out[i], job.slot = 2;
        d.flags = i ? TPP_STAGE_NO_GRAD : 0;
        assert_int_equal(tpp_stage_create(&stage, &d), TPP_OK);
        d.grads = NULL; /* of the second */
        const tpp_stage_ops *ops = tpp_stage_ops_get();
        bytes[i] = tpp_stage_bytes(stage);
        assert_int_equal(ops->forward(stage, &job), TPP_OK);
        job.out = NULL, job.grad_out = in, job.grad_in = back;
        assert_int_equal(ops->backward(stage, &job), i ? TPP_ERR_INVALID : TPP_OK);
        assert_int_equal(ops->backward_input(stage, &job), i ? TPP_ERR_INVALID : TPP_OK);
        if (i)
            assert_non_null(strstr(tpp_message(), "TPP_STAGE_NO_GRAD"));
        tpp_stage_destroy(stage);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    assert_true(bytes[1] < bytes[0]);
    d.flags = 2;
    tpp_stage *stage;
    assert_int_equal(tpp_stage_create(&stage, &d), TPP_ERR_TOO_NEW);
    tpp_layer_destroy(layer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_gradients_are_joined),
        cmocka_unit_test(stages_without_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
