/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Recomputation: the bits of every layer without it, whole, in halves, in flight, packed and with
 * dropout; and its memory to the byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/tp_again.h"
#include "support/tp_run.h"

/* Every case against itself computed again, and computed again inside of what is computed again. */
static void same_bits(void **state) {
    static const struct {
        int32_t ranks, blocks;
        tpp_dtype dtype;
        uint32_t flags;
    } setups[] = {{1, 0, TPP_F32, 0},
                  {2, 0, TPP_F64, 0},
                  {4, 8, TPP_F32, 0},
                  {2, 4, TPP_BF16, 0},
                  {4, 0, TPP_F32, TPP_ENV_SEQUENCE},
                  {2, 8, TPP_F64, TPP_ENV_SEQUENCE}};
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        const tp_case again = {c->name, &tp_kind_again, c};
        const tp_case twice = {c->name, &tp_kind_again, &again};
        tp_full *full = tp_full_inputs(c, 2, 7, 31);
        for (size_t i = 0; i < 2 * sizeof setups / sizeof *setups; i++) {
            tp_setup setup = {.ranks = setups[i / 2].ranks,
                              .blocks = setups[i / 2].blocks,
                              .dtype = setups[i / 2].dtype,
                              .flags = setups[i / 2].flags,
                              .halves = i % 2};
            tp_result *want = tp_run(c, full, &setup);
            tp_result *got = tp_run(&again, full, &setup);
            tp_same(c->name, want, got);
            tp_result_free(got);
            got = tp_run(&twice, full, &setup);
            tp_same(c->name, want, got);
            tp_result_free(got);
            tp_result_free(want);
        }
        tp_full_free(full);
    }
}

static tpp_layer_info info_of(const tp_case *c, tpp_comm *comm, tpp_dtype dtype) {
    tpp_layer_env env = {.size = sizeof env, .comm = comm, .dtype = dtype};
    tpp_layer_info info = {.size = sizeof info};
    tpp_layer *layer;
    assert_int_equal(c->kind->create(&layer, &env, c->desc), TPP_OK);
    assert_int_equal(tpp_layer_query(layer, 3, 64, &info), TPP_OK);
    tpp_layer_destroy(layer);
    return info;
}

/* Nothing saved; in halves what the layer needs, one behind the other. Parameters, ends and gradients
 * are those of the layer. */
static void nothing_is_saved(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        const tp_case again = {c->name, &tp_kind_again, c};
        tpp_layer_info plain = info_of(c, NULL, TPP_F32), info = info_of(&again, NULL, TPP_F32);
        assert_int_equal(info.saved_bytes, 0);
        assert_int_equal(info.split_bytes, plain.saved_bytes + plain.split_bytes);
        int64_t more = info.scratch_bytes - plain.saved_bytes - plain.scratch_bytes;
        int64_t out = 3 * 64 * plain.out_cols * (int64_t)sizeof(float);
        if (more != 0 && more != (out + 63) / 64 * 64)
            fail_msg("%s: scratch has %lld bytes too many", c->name, (long long)more);
        info.saved_bytes = plain.saved_bytes;
        info.split_bytes = plain.split_bytes;
        info.scratch_bytes = plain.scratch_bytes;
        assert_memory_equal(&info, &plain, sizeof info);
    }
}

/* Bytes that a GPT-2 block saves per token and rank: of numbers per token, 3 of hidden in between, 4 of
 * norms' statistics, of attention 4 of hidden / t and heads / t, of the MLP 8 of hidden / t. */
static void a_block_saves_what_the_header_says(void **state) {
    enum { HIDDEN = 64, HEADS = 8, TOKENS = 3 * 64 };
    (void)state;
    for (int32_t t = 1; t <= 8; t *= 2) {
        tpp_comm *comm = t > 1 ? tp_comm_stub(0, t) : NULL;
        for (int32_t recompute = 0; recompute <= TPP_RECOMPUTE_FULL; recompute++) {
            const tpp_block_desc desc = {
                .size = sizeof desc, .hidden = HIDDEN, .heads = HEADS, .recompute = recompute};
            const tp_case c = {"block", &tp_kind_block, &desc};
            int64_t attention = 4 * HIDDEN / t + HEADS / t;
            int64_t numbers = 3 * HIDDEN + 4 + attention + 8 * HIDDEN / t;
            numbers -= recompute ? attention : 0;
            numbers = recompute == TPP_RECOMPUTE_FULL ? 0 : numbers;
            tpp_layer_info info = info_of(&c, comm, TPP_F32);
            assert_int_equal(info.saved_bytes, TOKENS * numbers * (int64_t)sizeof(float));
        }
        tpp_comm_destroy(comm);
    }
}

/* In a chain only what flows is saved, and scratch holds the largest layer once. */
static void a_chain_shares_scratch(void **state) {
    enum { LAYERS = 4, HIDDEN = 64, FLOW = 3 * 64 * HIDDEN * (int)sizeof(float) };
    const tpp_block_desc desc = {.size = sizeof desc, .hidden = HIDDEN, .heads = 8, .recompute = 2};
    const tp_case c = {"block", &tp_kind_block, &desc};
    tpp_layer_env env = {.size = sizeof env};
    tpp_layer_info one = info_of(&c, NULL, TPP_F32), info = {.size = sizeof info};
    tpp_layer *layers[LAYERS], *chain;
    (void)state;
    for (int i = 0; i < LAYERS; i++)
        assert_int_equal(tpp_block_create(&layers[i], &env, &desc), TPP_OK);
    assert_int_equal(tpp_chain_create(&chain, &env, layers, LAYERS), TPP_OK);
    assert_int_equal(tpp_layer_query(chain, 3, 64, &info), TPP_OK);
    assert_int_equal(info.saved_bytes, (LAYERS - 1) * FLOW);
    assert_int_equal(info.scratch_bytes, one.scratch_bytes + 2 * FLOW);
    tpp_layer_destroy(chain);
}

static void bad_arguments_get_a_sentence(void **state) {
    tpp_layer_env env = {.size = sizeof env};
    tpp_norm_desc norm = {.size = sizeof norm, .cols = 4};
    tpp_block_desc block = {.size = sizeof block, .hidden = 4, .heads = 1, .recompute = 3};
    tpp_layer *layer, *out = (tpp_layer *)(void *)&env;
    (void)state;
    assert_int_equal(tpp_recompute_create(&out, NULL), TPP_ERR_INVALID);
    assert_null(out);
    assert_string_equal(tpp_message(), "layer is NULL");
    assert_int_equal(tpp_norm_create(&layer, &env, &norm), TPP_OK);
    assert_int_equal(tpp_recompute_create(NULL, layer), TPP_ERR_INVALID);
    tpp_layer_destroy(layer);
    assert_int_equal(tpp_block_create(&out, &env, &block), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "desc.recompute = 3"));
    block.recompute = TPP_RECOMPUTE_SELECTIVE;
    block.flags = TPP_BLOCK_PARALLEL;
    assert_int_equal(tpp_block_create(&out, &env, &block), TPP_ERR_INVALID);
    assert_non_null(
        strstr(tpp_message(), "desc.recompute = 1 (selective) with TPP_BLOCK_PARALLEL"));
    block.recompute = TPP_RECOMPUTE_FULL;
    assert_int_equal(tpp_block_create(NULL, &env, &block), TPP_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test(nothing_is_saved),
        cmocka_unit_test(a_block_saves_what_the_header_says),
        cmocka_unit_test(a_chain_shares_scratch),
        cmocka_unit_test(bad_arguments_get_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
