/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Packed sequences of different lengths, also zero, and positions that begin later: every sequence as
 * if it were alone, on 1 .. 8 ranks, in both types, with the same bits under fixed blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/tp_run.h"

static const tpp_rope_desc rope = {.size = sizeof rope, .theta = 30};
static const tpp_attention_desc attention = {.size = sizeof attention,
                                             .flags = TPP_ATTENTION_QK_NORM,
                                             .hidden = 7,
                                             .heads = 8,
                                             .head_cols = 4,
                                             .kv_heads = 2,
                                             .rope = &rope};
/* 9 query heads that share 3 K/V heads */
static const tpp_attention_desc nine = {
    .size = sizeof nine, .hidden = 6, .heads = 9, .head_cols = 2, .kv_heads = 3};
static const tpp_block_desc block = {.size = sizeof block,
                                     .flags = TPP_BLOCK_NO_BIAS,
                                     .hidden = 16,
                                     .ffn = 16,
                                     .heads = 8,
                                     .act = TPP_ACT_SWIGLU,
                                     .norm = TPP_NORM_RMS,
                                     .rope = &rope,
                                     .window = 2};
static const tpp_embedding_desc embedding = {sizeof embedding, 0, 13, 5, 12, 0};
static const tp_gpt_desc gpt = {13, 16, 12, 8, 1, 0, 0, 0};

static const tp_case cases[] = {
    {"attention", &tp_kind_attention, &attention},
    {"block", &tp_kind_block, &block},
    {"embedding", &tp_kind_embedding, &embedding},
    {"gpt", &tp_kind_gpt, &gpt},
};
enum { CASES = sizeof cases / sizeof *cases };

static void check(const tp_case *c, const tp_full *full, int32_t ranks, int32_t blocks) {
    for (int k = 0; k < 4; k++) {
        tp_setup setup = {.ranks = ranks, .blocks = blocks, .dtype = k % 2 ? TPP_F64 : TPP_F32};
        setup.halves = ranks == 2;
        setup.flags = k < 2 ? 0 : TPP_ENV_SEQUENCE;
        tp_result *result = tp_run(c, full, &setup);
        tp_check(result, full, k % 2 ? 1e-13 : 1e-5);
        tp_result_free(result);
    }
}

/* All patterns of the lengths 0, 1 and 3 for three sequences. */
static void all_patterns(void **state) {
    static const int32_t some[] = {0, 1, 3};
    static const int32_t pasts[] = {0, 5, 2};
    (void)state;
    for (int i = 0; i < 27 * CASES; i++) {
        const tp_case *c = &cases[i / 27];
        int32_t lengths[] = {some[i % 3], some[i / 3 % 3], some[i / 9 % 3]};
        tp_full *full = tp_full_packed(c, 3, 3, lengths, i % 2 ? pasts : NULL, 7);
        check(c, full, 1, 0);
        check(c, full, 2, 4);
        check(c, full, 4, 0);
        tp_full_free(full);
    }
}

/* Nothing in a sequence changes what another one gives. */
static void grouped_heads(void **state) {
    static const int32_t lengths[] = {1, 0, 1};
    const tp_case c = {"nine heads", &tp_kind_attention, &nine};
    (void)state;
    tp_full *full = tp_full_packed(&c, 3, 1, lengths, NULL, 1);
    check(&c, full, 1, 0);
    check(&c, full, 3, 0);
    tp_full_free(full);
}

static void same_bits(void **state) {
    static const int32_t lengths[] = {70, 0, 1, 9}, pasts[] = {3, 0, 11, 100};
    const tp_case *c = &cases[1];
    (void)state;
    tp_full *full = tp_full_packed(c, 4, 80, lengths, pasts, 3);
    tp_setup one = {.ranks = 1, .blocks = 8, .dtype = TPP_F32};
    tp_result *want = tp_run(c, full, &one);
    tp_check(want, full, 1e-5);
    for (int32_t ranks = 2; ranks <= 8; ranks *= 2) {
        tp_setup setup = one;
        setup.ranks = ranks;
        tp_result *got = tp_run(c, full, &setup);
        tp_same("packed", want, got);
        tp_result_free(got);
    }
    tp_result_free(want);
    tp_full_free(full);
}

/* Positions far out: angles stay right in both types. */
static void far_positions(void **state) {
    static const int32_t lengths[] = {3, 2}, pasts[] = {131071, 1000003};
    const tp_case *c = &cases[0];
    (void)state;
    tp_full *full = tp_full_packed(c, 2, 3, lengths, pasts, 5);
    check(c, full, 1, 0);
    tp_full_free(full);
}

static void refused(void **state) {
    int32_t lengths[] = {2, 1}, pasts[] = {0, 11};
    tpp_layer_env env = {.size = sizeof env};
    tpp_layer *layer;
    int32_t ids[4] = {0};
    float out[4 * 5];
    static _Alignas(64) char memory[4096];
    (void)state;
    assert_int_equal(tpp_embedding_create(&layer, &env, &embedding), TPP_OK);
    tpp_call call = {.size = sizeof call, .batch = 2, .seq = 2, .lengths = lengths, .past = pasts};
    call.in = (tpp_mat){.data = ids, .rows = 3, .cols = 1, .dtype = TPP_I32};
    call.out = (tpp_mat){.data = out, .rows = 3, .cols = 5, .dtype = TPP_F32};
    call.params = memory;
    assert_int_equal(tpp_layer_forward(layer, &call), TPP_OK); /* ends at 12, the last one */
    pasts[1] = 12;
    assert_int_equal(tpp_layer_forward(layer, &call), TPP_ERR_INVALID);
    assert_string_equal(tpp_message(),
                        "sequence 1 ends at position 13; the embedding has 12 positions");
    pasts[1] = -1;
    assert_int_equal(tpp_layer_forward(layer, &call), TPP_ERR_INVALID);
    assert_string_equal(tpp_message(),
                        "call.past[1] = -1 is out of range; accepted: 0 .. 2147483646");
    pasts[1] = 0, lengths[0] = 3;
    assert_int_equal(tpp_layer_forward(layer, &call), TPP_ERR_INVALID);
    assert_string_equal(tpp_message(),
                        "call.lengths[0] = 3 is out of range; accepted: 0 .. call.seq = 2");
    lengths[0] = 1; /* two rows now */
    assert_int_equal(tpp_layer_forward(layer, &call), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "call.in is [3, 1]"));
    tpp_layer_destroy(layer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_patterns), cmocka_unit_test(grouped_heads),
        cmocka_unit_test(same_bits),    cmocka_unit_test(far_positions),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
