/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Sequence parallelism: every kind of layer against the unsplit reference with each rank holding its
 * rows alone, whatever the number of tokens is; the same bits for every number of ranks, and as without
 * it; halves; memory. (Collectives: test_tp_comm.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/tp_run.h"

static tp_setup setup_of(int32_t ranks, int32_t blocks, tpp_dtype dtype) {
    return (tp_setup){.ranks = ranks, .blocks = blocks, .dtype = dtype, .flags = TPP_ENV_SEQUENCE};
}

static void check_case(const tp_case *c, const tp_full *full, int32_t ranks, int32_t blocks) {
    static const tpp_dtype types[] = {TPP_F64, TPP_F32};
    for (int i = 0; i < 2; i++) {
        tp_setup setup = setup_of(ranks, blocks, types[i]);
        tp_result *result = tp_run(c, full, &setup);
        tp_check(result, full, i ? 1e-5 : 1e-13);
        tp_result_free(result);
    }
}

/* Ranks and blocks. */
static const int32_t splits[][2] = {{1, 0}, {1, 4}, {2, 0}, {2, 8}, {4, 0}, {4, 8}, {8, 8}};
enum { SPLITS = sizeof splits / sizeof *splits };

static void test_reference(void **state) {
    static const int64_t shapes[][2] = {{1, 1}, {2, 1}, {3, 5}, {1, 67}};
    const tp_case *c = *state;
    for (int s = 0; s < 4; s++) {
        tp_full *full = tp_full_new(c, shapes[s][0], shapes[s][1], (uint64_t)(40 + s));
        for (int i = 0; i < SPLITS; i++)
            check_case(c, full, splits[i][0], splits[i][1]);
        tp_full_free(full);
    }
}

/* O23: 1 .. 9 tokens on 1 .. 4 ranks; three are for free mode alone. */
static void test_lengths(void **state) {
    static const tpp_mlp_desc mlp = {.size = sizeof mlp, .hidden = 5, .ffn = 12};
    static const tpp_rope_desc rope = {.size = sizeof rope};
    static const tpp_block_desc block = {
        .size = sizeof block, .hidden = 12, .ffn = 24, .heads = 12, .head_cols = 2, .rope = &rope};
    static const tpp_embedding_desc embedding = {
        .size = sizeof embedding, .vocab = 12, .hidden = 3, .positions = 9};
    static const tpp_norm_desc norm = {.size = sizeof norm, .cols = 5};
    static const tp_case cases[] = {{"mlp", &tp_kind_mlp, &mlp},
                                    {"block", &tp_kind_block, &block},
                                    {"embedding", &tp_kind_embedding, &embedding},
                                    {"norm", &tp_kind_norm, &norm}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        for (int64_t seq = 1; seq <= 9; seq++) {
            tp_full *full = tp_full_new(&cases[k], 1, seq, (uint64_t)seq);
            for (int32_t ranks = 1; ranks <= 4; ranks++) {
                check_case(&cases[k], full, ranks, 0);
                if (ranks != 3)
                    check_case(&cases[k], full, ranks, 4);
            }
            tp_full_free(full);
        }
    }
}

/* A norm's gradients, whose sums over tokens are cut otherwise. */
static int is_of_norm(const tp_case *c, const char *name) {
    return strncmp(c->name, "norm", 4) == 0 || strstr(name, "ln_");
}

/* Outputs and gradients but those of norms, byte by byte. */
static void same_but_norms(const tp_case *c, const tp_result *a, const tp_result *b) {
    assert_same_bits(c->name, a->out, b->out,
                     (uint64_t)(a->out_rows * a->out_cols * tp_width(a->out_dtype)));
    if (a->grad_in)
        assert_same_bits(c->name, a->grad_in, b->grad_in,
                         (uint64_t)(a->tokens * a->in_cols * tp_width(a->dtype)));
    for (int32_t n = 0; n < a->params; n++)
        if (!is_of_norm(c, a->name[n]))
            assert_same_bits(a->name[n], a->grad[n], b->grad[n],
                             (uint64_t)(a->count[n] * tp_width(a->grad_dtype)));
}

static void check_bits(const tp_case *c, const tp_full *full, tpp_dtype dtype) {
    tp_setup one = setup_of(1, 8, dtype), plain = one;
    char what[96];
    plain.flags = 0;
    tp_result *want = tp_run(c, full, &one), *without = tp_run(c, full, &plain);
    same_but_norms(c, want, without);
    for (int32_t ranks = 2; ranks <= 8; ranks *= 2) {
        tp_setup setup = setup_of(ranks, 8, dtype);
        tp_result *got = tp_run(c, full, &setup);
        snprintf(what, sizeof what, "%s, %d ranks", c->name, ranks);
        tp_same(what, want, got);
        tp_result_free(got);
    }
    tp_result_free(want);
    tp_result_free(without);
}

/* O22 and O24 too: positions are those of the whole sequence, and norms' gradients sums over ranks. */
static void test_bits(void **state) {
    const tp_case *c = *state;
    static const int64_t shapes[][2] = {{1, 1}, {3, 5}, {1, 67}};
    for (int s = 0; s < 3; s++) {
        tp_full *full = tp_full_inputs(c, shapes[s][0], shapes[s][1], 6);
        check_bits(c, full, TPP_F32);
        check_bits(c, full, TPP_F64);
        check_bits(c, full, TPP_BF16);
        tp_full_free(full);
    }
}

/* The halves give the bits of the whole, whatever was in memory before. */
static void test_halves(void **state) {
    const tp_case *c = *state;
    tp_full *full = tp_full_inputs(c, 2, 5, 7);
    for (int i = 0; i < SPLITS; i++) {
        tp_setup setup = setup_of(splits[i][0], splits[i][1], i % 2 ? TPP_F32 : TPP_BF16);
        tp_result *whole = tp_run(c, full, &setup);
        setup.halves = 1;
        setup.fill = TP_HUGE;
        tp_result *halves = tp_run(c, full, &setup);
        tp_same(c->name, whole, halves);
        tp_result_free(whole);
        tp_result_free(halves);
    }
    tp_full_free(full);
}

static tpp_layer_info query(const tp_case *c, tpp_comm *comm, uint32_t flags) {
    tpp_layer_env env = {.size = sizeof env, .comm = comm, .flags = flags};
    tpp_layer_info info = {.size = sizeof info};
    tpp_layer *layer = NULL;
    assert_int_equal(c->kind->create(&layer, &env, c->desc), TPP_OK);
    assert_int_equal(tpp_layer_query(layer, 3, 67, &info), TPP_OK);
    tpp_layer_destroy(layer);
    return info;
}

/* What is saved between regions is 1 / t of it, inside of them as without; the halves keep the gathered
 * gradient and input. */
static void test_memory(void **state) {
    enum { TOKENS = 3 * 67, RANKS = 4, PART = 51, WHOLE = RANKS * PART };
    (void)state;
    tpp_comm *comm = tp_comm_stub(3, RANKS);
    for (int i = 0; i < 2; i++) {
        const tp_case *block = tp_case_find("block"), *mlp = tp_case_find("mlp");
        uint32_t flags = i ? TPP_ENV_SEQUENCE : 0;
        int64_t rows = i ? PART : TOKENS, kept = i ? 2 * WHOLE * 11 : 0;
        int64_t inside = 4 * TOKENS * 6 + TOKENS * 2 + 2 * TOKENS * 10;
        int64_t least = 4 * (inside + 2 * 2 * rows + 3 * rows * 24);
        assert_in_range(query(block, comm, flags).saved_bytes, least, least + 64 * 16);
        assert_in_range(query(mlp, comm, flags).split_bytes, 4 * (TOKENS * 10 + kept),
                        4 * (TOKENS * 10 + kept) + 64 * 3);
    }
    assert_int_equal(query(tp_case_find("block"), comm, TPP_ENV_SEQUENCE).in_rows,
                     TOKENS - 3 * PART);
    tpp_comm_destroy(comm);
}

/* Layers with and without it do not meet, nor a norm and logits. */
static void test_misfits(void **state) {
    (void)state;
    tpp_comm *comm = tp_comm_stub(0, 2);
    tpp_layer_env with = {.size = sizeof with, .comm = comm, .flags = TPP_ENV_SEQUENCE};
    tpp_layer_env without = {.size = sizeof without, .comm = comm};
    tpp_norm_desc norm = {.size = sizeof norm, .cols = 4};
    tpp_linear_desc column = {.size = sizeof column, .kind = TPP_LINEAR_COLUMN, .in = 4, .out = 8};
    tpp_layer *layers[2], *chain;
    assert_int_equal(tpp_norm_create(&layers[0], &with, &norm), TPP_OK);
    assert_int_equal(tpp_norm_create(&layers[1], &without, &norm), TPP_OK);
    assert_int_equal(tpp_chain_create(&chain, &with, layers, 2), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "layers[1]"));
    assert_non_null(strstr(tpp_message(), "TPP_ENV_SEQUENCE"));
    tpp_layer_destroy(layers[1]);
    layers[1] = layers[0];
    assert_int_equal(tpp_linear_create(&layers[0], &with, &column), TPP_OK);
    assert_int_equal(tpp_chain_create(&chain, &with, layers, 2), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "layers[1] takes this rank's rows alone, but layers[0] "
                                          "gives the rows of all tokens"));
    int64_t first, count;
    assert_int_equal(tpp_layer_rows(layers[1], -1, &first, &count), TPP_ERR_INVALID);
    assert_int_equal(tpp_layer_rows(layers[1], 5, NULL, &count), TPP_ERR_INVALID);
    assert_int_equal(tpp_layer_rows(layers[1], 5, &first, &count), TPP_OK);
    assert_true(first == 0 && count == 3);
    tpp_layer_destroy(layers[0]);
    tpp_layer_destroy(layers[1]);
    tpp_comm_destroy(comm);
}

int main(void) {
    static struct CMUnitTest tests[512];
    size_t count = 0;
    for (const tp_case *c = tp_cases; c->name; c++) {
        void *at = (void *)(size_t)c;
        tests[count++] = (struct CMUnitTest){c->name, test_reference, NULL, NULL, at};
        tests[count++] = (struct CMUnitTest){c->name, test_bits, NULL, NULL, at};
        tests[count++] = (struct CMUnitTest){c->name, test_halves, NULL, NULL, at};
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_lengths);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_memory);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_misfits);
    return _cmocka_run_group_tests("test_sequence", tests, count, NULL, NULL);
}
