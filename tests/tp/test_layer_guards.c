/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* What a host may get wrong, or leave out because it is older, without harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/thread.h"
#include "tp/operators.h"

#include <tpp/tpp.h>

static tpp_status gemm_says(void *ctx, const tpp_gemm_call *call) {
    (void)call;
    return *(tpp_status *)ctx;
}

/* Only TPP_OK is success: a positive status would pass for work that was not done. */
static void positive_status_of_a_gemm_is_refused(void **state) {
    (void)state;
    static _Alignas(64) char memory[3][4096];
    float x[4] = {0}, y[4];
    tpp_status answer = 1;
    tpp_gemm_ops ops = {.size = sizeof ops, .ctx = &answer, .gemm = gemm_says};
    tpp_layer_env env = {.size = sizeof env, .gemm = &ops};
    tpp_mlp_desc desc = {.size = sizeof desc, .hidden = 4};
    tpp_layer *mlp;
    tpp_call call = {.size = sizeof call, .batch = 1, .seq = 1, .params = memory[0]};
    call.in = (tpp_mat){.data = x, .rows = 1, .cols = 4, .dtype = TPP_F32};
    call.out = (tpp_mat){.data = y, .rows = 1, .cols = 4, .dtype = TPP_F32};
    call.saved = memory[1], call.scratch = memory[2];
    call.saved_bytes = call.scratch_bytes = sizeof memory[1];
    assert_int_equal(tpp_mlp_create(&mlp, &env, &desc), TPP_OK);
    assert_int_equal(tpp_layer_forward(mlp, &call), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "gemm function returned 1"));
    answer = TPP_ERR_USER - 4;
    assert_int_equal(tpp_layer_forward(mlp, &call), TPP_ERR_USER - 4);
    tpp_layer_destroy(mlp);
}

/* A program built when tpp_layer_env was shorter: composite layers too read no further. */
static void older_env_is_enough_for_a_block(void **state) {
    (void)state;
    uint32_t *env = malloc(8);
    tpp_block_desc desc = {.size = sizeof desc, .hidden = 8, .heads = 2};
    tpp_layer *block;
    assert_non_null(env);
    env[0] = 8;
    env[1] = 0;
    assert_int_equal(tpp_block_create(&block, (const tpp_layer_env *)(const void *)env, &desc),
                     TPP_OK);
    free(env);
    tpp_layer_destroy(block);
}

static void layer_stands_once_in_a_chain(void **state) {
    (void)state;
    tpp_layer_env env = {.size = sizeof env};
    tpp_norm_desc desc = {.size = sizeof desc, .cols = 4};
    tpp_layer *twice[2], *chain;
    assert_int_equal(tpp_norm_create(&twice[0], &env, &desc), TPP_OK);
    twice[1] = twice[0];
    assert_int_equal(tpp_chain_create(&chain, &env, twice, 2), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "layers[1] is layers[0]"));
    assert_null(chain);
    tpp_layer_destroy(twice[0]);
}

static void failed_create_leaves_null(void **state) {
    (void)state;
    tpp_layer_env env = {.size = sizeof env};
    tpp_mlp_desc desc = {.size = sizeof desc, .hidden = 0};
    int somewhere;
    tpp_layer *layer = (tpp_layer *)(void *)&somewhere;
    assert_int_equal(tpp_mlp_create(&layer, &env, &desc), TPP_ERR_INVALID);
    assert_null(layer);
    env.dtype = 99;
    desc.hidden = 4;
    layer = (tpp_layer *)(void *)&somewhere;
    assert_int_equal(tpp_mlp_create(&layer, &env, &desc), TPP_ERR_INVALID);
    assert_null(layer);
    assert_non_null(strstr(tpp_message(), "env.dtype = 99"));
}

static void empty_batches_are_quick_and_bounded(void **state) {
    (void)state;
    static _Alignas(64) char memory[1 << 16];
    tpp_layer_env env = {.size = sizeof env};
    tpp_attention_desc desc = {.size = sizeof desc, .hidden = 8, .heads = 8};
    tpp_layer_info info = {.size = sizeof info};
    tpp_layer *layer;
    assert_int_equal(tpp_attention_create(&layer, &env, &desc), TPP_OK);
    tpp_call call = {.size = sizeof call, .batch = INT32_MAX, .seq = 0, .params = memory};
    call.in = call.out = (tpp_mat){.cols = 8, .dtype = TPP_F32};
    call.saved = call.scratch = memory;
    call.saved_bytes = call.scratch_bytes = sizeof memory;
    assert_int_equal(tpp_layer_forward(layer, &call), TPP_OK);
    assert_int_equal(tpp_layer_query(layer, (int64_t)1 << 40, 0, &info), TPP_ERR_OVERFLOW);
    tpp_layer_destroy(layer);
}

/* A loss that is one number is 0 then, in the type that losses have. */
static void the_sum_of_no_losses_is_zero(void **state) {
    static const tpp_dtype types[] = {TPP_F32, TPP_F64, TPP_BF16};
    (void)state;
    for (int i = 0; i < 3; i++) {
        tpp_layer_env env = {.size = sizeof env, .dtype = types[i]};
        tpp_loss_desc desc = {.size = sizeof desc, .vocab = 3, .reduction = TPP_LOSS_SUM};
        tpp_layer *layer;
        char out[8], zero[8] = {0};
        memset(out, 0xff, sizeof out);
        assert_int_equal(tpp_loss_create(&layer, &env, &desc), TPP_OK);
        tpp_call call = {.size = sizeof call, .seq = 4};
        call.in = (tpp_mat){.cols = 3, .dtype = types[i]};
        call.out = (tpp_mat){.data = out, .rows = 1, .cols = 1};
        call.out.dtype = types[i] == TPP_F64 ? TPP_F64 : TPP_F32;
        assert_int_equal(tpp_layer_forward(layer, &call), TPP_OK);
        assert_memory_equal(out, zero, types[i] == TPP_F64 ? 8 : 4);
        tpp_layer_destroy(layer);
    }
}

/* Fixed blocks are powers of two, so only these are offered. */
static void valid_blocks_are_listed(void **state) {
    (void)state;
    tpp_layer_env env = {.size = sizeof env, .blocks = 8};
    tpp_mlp_desc desc = {.size = sizeof desc, .hidden = 4, .ffn = 12};
    tpp_layer *layer;
    assert_int_equal(tpp_mlp_create(&layer, &env, &desc), TPP_ERR_INVALID);
    assert_string_equal(tpp_message(),
                        "desc.ffn = 12 is not a multiple of blocks = 8; valid: 1, 2, 4");
    double start = tpp__now();
    desc.ffn = INT32_MAX; /* a prime */
    assert_int_equal(tpp_mlp_create(&layer, &env, &desc), TPP_ERR_INVALID);
    assert_true(tpp__now() - start < 1);
}

/* What went wrong first is what is told, also when the sum that was under way fails in its turn. */
static void first_failure_keeps_its_sentence(void **state) {
    (void)state;
    tpp_comm *ranks[2];
    tpp__sum sum = {0};
    float x[300] = {0};
    assert_int_equal(tpp_comm_local_create(ranks, 2, NULL), TPP_OK);
    assert_int_equal(tpp_comm_all_reduce_start(ranks[0], x, x, 300, TPP_F32, TPP_SUM, &sum.request),
                     TPP_OK);
    tpp_comm_abort(ranks[1]);
    tpp__fail(TPP_ERR_USER - 9, "the first fault");
    assert_int_equal(tpp__f_backward_finish(&sum, TPP_ERR_USER - 9), TPP_ERR_USER - 9);
    assert_string_equal(tpp_message(), "the first fault");
    tpp_comm_destroy(ranks[0]);
    tpp_comm_destroy(ranks[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positive_status_of_a_gemm_is_refused),
        cmocka_unit_test(older_env_is_enough_for_a_block),
        cmocka_unit_test(layer_stands_once_in_a_chain),
        cmocka_unit_test(failed_create_leaves_null),
        cmocka_unit_test(empty_batches_are_quick_and_bounded),
        cmocka_unit_test(the_sum_of_no_losses_is_zero),
        cmocka_unit_test(valid_blocks_are_listed),
        cmocka_unit_test(first_failure_keeps_its_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
