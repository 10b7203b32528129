/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Shard maps: which numbers a rank holds, cutting and putting together, and from one degree to
 * another through the full tensor, for every parameter of every kind of layer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/tp_case.h"
#include "support/tp_memory.h"
#include "support/tp_ranks.h"

/* Blocks of every section, by the definition in the header: local order is block,
 * section, offset. */
static void test_index(void **state) {
    /* 24 columns in 3 sections of 8, each in 4 blocks of 2; this rank has blocks 1 and 2 */
    const tpp_shard s = {5, 24, 24, TPP_AXIS_COLS, 3, 4, 1, 2, 0, {0, 0}};
    static const int64_t want[] = {2, 3, 10, 11, 18, 19, 4, 5, 12, 13, 20, 21};
    (void)state;
    assert_int_equal(tpp_shard_rows(&s), 5);
    assert_int_equal(tpp_shard_cols(&s), 12);
    for (int64_t i = 0; i < 12; i++)
        assert_int_equal(tpp_shard_index(&s, i), want[i]);
    assert_int_equal(tpp_shard_index(&s, 12), -1);
    assert_int_equal(tpp_shard_index(&s, -1), -1);
    const tpp_shard whole = {5, 7, 5, TPP_AXIS_NONE, 1, 1, 0, 1, 0, {0, 0}};
    assert_int_equal(tpp_shard_rows(&whole), 5);
    assert_int_equal(tpp_shard_cols(&whole), 7);
    assert_int_equal(tpp_shard_index(&whole, 4), 4);
}

/* Two pieces of 3 rows, each held by 4 blocks after one another: blocks 2 .. 5 of 8. */
static void test_copied(void **state) {
    const tpp_shard s = {6, 2, 6, TPP_AXIS_ROWS, 1, 8, 2, 4, 4, {0, 0}};
    static const int64_t want[] = {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5};
    float full[12], local[24], back[12] = {0};
    (void)state;
    for (int i = 0; i < 12; i++)
        full[i] = (float)i + 1;
    assert_int_equal(tpp_shard_rows(&s), 12);
    assert_int_equal(tpp_shard_cols(&s), 2);
    for (int64_t i = 0; i < 12; i++)
        assert_int_equal(tpp_shard_index(&s, i), want[i]);
    assert_int_equal(tpp_shard_index(&s, 12), -1);
    assert_int_equal(tpp_shard_split(&s, full, local, TPP_F32), TPP_OK);
    for (int i = 0; i < 24; i++)
        assert_true(local[i] == full[2 * want[i / 2] + i % 2]);
    assert_int_equal(tpp_shard_join(&s, local, back, TPP_F32), TPP_OK);
    assert_same_bits("joined", back, full, sizeof full);
}

/* 3 rows and 5 valid columns padded to 6, two blocks: full tensors hold no padding. */
static void test_padding(void **state) {
    const tpp_shard second = {3, 6, 5, TPP_AXIS_COLS, 1, 2, 1, 1, 0, {0, 0}};
    const tpp_shard below = {6, 2, 5, TPP_AXIS_ROWS, 1, 2, 1, 1, 0, {0, 0}};
    float full[15];
    float tall[10];
    float local[9];
    (void)state;
    for (int i = 0; i < 15; i++)
        full[i] = (float)i + 1;
    memset(local, TP_NAN, sizeof local);
    assert_int_equal(tpp_shard_split(&second, full, local, TPP_F32), TPP_OK);
    const float want[9] = {4, 5, 0, 9, 10, 0, 14, 15, 0};
    assert_same_bits("columns", local, want, sizeof want);
    memset(full, 0, sizeof full);
    local[2] = 99; /* padding goes nowhere */
    assert_int_equal(tpp_shard_join(&second, local, full, TPP_F32), TPP_OK);
    const float back[15] = {0, 0, 0, 4, 5, 0, 0, 0, 9, 10, 0, 0, 0, 14, 15};
    assert_same_bits("joined", full, back, sizeof back);
    for (int i = 0; i < 10; i++)
        tall[i] = (float)i + 1;
    memset(local, TP_NAN, sizeof local);
    assert_int_equal(tpp_shard_split(&below, tall, local, TPP_F32), TPP_OK);
    const float rows[6] = {7, 8, 9, 10, 0, 0};
    assert_same_bits("rows", local, rows, sizeof rows);
}

/* Two sections of 5 columns padded to 6, two blocks: [g g g | u u u], [g g 0 | u u 0]. */
static void test_padded_sections(void **state) {
    const tpp_shard second = {1, 12, 10, TPP_AXIS_COLS, 2, 2, 1, 1, 0, {0, 0}};
    static const int64_t want[] = {3, 4, 10, 8, 9, 11};
    float full[10], local[6], back[10] = {0};
    (void)state;
    for (int i = 0; i < 10; i++)
        full[i] = (float)i + 1;
    assert_int_equal(tpp_shard_cols(&second), 6);
    for (int64_t i = 0; i < 6; i++)
        assert_int_equal(tpp_shard_index(&second, i), want[i]);
    assert_int_equal(tpp_shard_split(&second, full, local, TPP_F32), TPP_OK);
    const float cut[6] = {4, 5, 0, 9, 10, 0};
    assert_same_bits("cut", local, cut, sizeof cut);
    assert_int_equal(tpp_shard_join(&second, local, back, TPP_F32), TPP_OK);
    const float joined[10] = {0, 0, 0, 4, 5, 0, 0, 0, 9, 10};
    assert_same_bits("joined", back, joined, sizeof joined);
}

static void refused(tpp_shard s) {
    float x[64] = {0};
    assert_int_equal(tpp_shard_rows(&s), 0);
    assert_int_equal(tpp_shard_cols(&s), 0);
    assert_int_equal(tpp_shard_index(&s, 0), -1);
    assert_int_equal(tpp_shard_split(&s, x, x + 32, TPP_F32), TPP_ERR_INVALID);
    assert_int_equal(tpp_shard_join(&s, x, x + 32, TPP_F32), TPP_ERR_INVALID);
}

static void test_refused(void **state) {
    const tpp_shard good = {2, 8, 8, TPP_AXIS_COLS, 2, 2, 1, 1, 0, {0, 0}};
    tpp_shard s;
    float x[16] = {0};
    (void)state;
    assert_int_equal(tpp_shard_cols(&good), 4);
    s = good, s.rows = -1, refused(s);
    s = good, s.cols = -8, refused(s);
    s = good, s.cols = 9, refused(s);
    s = good, s.valid = 9, refused(s);
    s = good, s.valid = -1, refused(s);
    s = good, s.valid = 7, refused(s);
    s = good, s.axis = 3, refused(s);
    s = good, s.axis = -1, refused(s);
    s = good, s.sections = 0, refused(s);
    s = good, s.parts = 0, refused(s);
    s = good, s.parts = 3, refused(s);
    s = good, s.first = -1, refused(s);
    s = good, s.first = 2, refused(s);
    s = good, s.count = 2, refused(s);
    s = good, s.count = -1, refused(s);
    s = good, s.copies = -1, refused(s);
    s = good, s.copies = 3, refused(s);
    s = good, s.copies = 2, s.cols = 7, s.valid = 7, refused(s);
    /* copies of 2^40 columns that 64 bits cannot count */
    s = (tpp_shard){.rows = 1,
                    .cols = (int64_t)1 << 40,
                    .valid = (int64_t)1 << 40,
                    .axis = TPP_AXIS_COLS,
                    .sections = 1,
                    .parts = INT32_MAX,
                    .count = INT32_MAX,
                    .copies = INT32_MAX};
    refused(s);
    s.count = 1;
    assert_int_equal(tpp_shard_cols(&s), s.cols);
    assert_int_equal(tpp_shard_split(NULL, x, x, TPP_F32), TPP_ERR_INVALID);
    assert_int_equal(tpp_shard_rows(NULL), 0);
    assert_int_equal(tpp_shard_cols(NULL), 0);
    assert_int_equal(tpp_shard_index(NULL, 0), -1);
    assert_int_equal(tpp_shard_split(&good, NULL, x, TPP_F32), TPP_ERR_INVALID);
    assert_int_equal(tpp_shard_split(&good, x, NULL, TPP_F32), TPP_ERR_INVALID);
    assert_int_equal(tpp_shard_join(&good, x, NULL, TPP_F32), TPP_ERR_INVALID);
    assert_int_equal(tpp_shard_split(&good, x, x, 3), TPP_ERR_INVALID);
    assert_int_equal(tpp_shard_join(&good, x, x, 0), TPP_ERR_INVALID);
}

/* The map of a parameter of a case, of one rank. */
static tpp_shard map_of(const tp_case *c, const char *name, int32_t rank, int32_t ranks,
                        int32_t blocks) {
    tpp_layer_env env = {0};
    tpp_layer *layer = NULL;
    tpp_param_info p = {0};
    env.size = sizeof env;
    env.blocks = blocks;
    env.comm = ranks > 1 ? tp_comm_stub(rank, ranks) : NULL;
    p.size = sizeof p;
    assert_int_equal(c->kind->create(&layer, &env, c->desc), TPP_OK);
    for (int32_t n = 0; !p.name || strcmp(p.name, name) != 0; n++)
        assert_int_equal(tpp_layer_param(layer, n, &p), TPP_OK);
    tpp_layer_destroy(layer);
    tpp_comm_destroy(env.comm);
    return p.shard;
}

/* full -> ranks -> full2: the same bytes, every valid index written exactly once when split, or once by each copy. */
static void through(const tp_case *c, const tp_tensor *t, int32_t ranks, int32_t blocks,
                    const double *from, double *to) {
    int64_t length = t->rows > t->cols ? t->rows : t->cols;
    int *owners = calloc((size_t)length, sizeof *owners);
    assert_non_null(owners);
    memset(to, TP_NAN, (size_t)(t->rows * t->cols) * sizeof *to);
    tpp_shard s = {0};
    for (int32_t r = 0; r < ranks; r++) {
        s = map_of(c, t->name, r, ranks, blocks);
        int64_t count = tpp_shard_rows(&s) * tpp_shard_cols(&s);
        tp_memory local = tp_memory_new(count * 8, TP_NAN);
        assert_int_equal(tpp_shard_split(&s, from, local.data, TPP_F64), TPP_OK);
        assert_int_equal(tpp_shard_join(&s, local.data, to, TPP_F64), TPP_OK);
        assert_true(tp_memory_intact(&local));
        tp_memory_free(&local);
        int64_t along = s.axis == TPP_AXIS_COLS ? tpp_shard_cols(&s) : tpp_shard_rows(&s);
        for (int64_t i = 0; s.axis != TPP_AXIS_NONE && i < along; i++) {
            int64_t at = tpp_shard_index(&s, i);
            assert_true(at >= 0);
            if (at < s.valid)
                owners[at]++;
        }
    }
    for (int64_t i = 0; s.axis != TPP_AXIS_NONE && i < s.valid; i++)
        assert_int_equal(owners[i], s.copies ? s.copies : 1);
    free(owners);
}

static void check_param(const tp_case *c, const tp_tensor *t) {
    uint64_t state = 77;
    size_t bytes = (size_t)(t->rows * t->cols) * sizeof(double);
    double *one = malloc(bytes);
    double *two = malloc(bytes);
    assert_non_null(one);
    assert_non_null(two);
    for (int64_t i = 0; i < t->rows * t->cols; i++)
        one[i] = tp_random(&state);
    for (int32_t from = 1; from <= 8; from *= 2) {
        through(c, t, from, 0, one, two);
        assert_same_bits(t->name, one, two, bytes);
        through(c, t, from, 8, one, two);
        assert_same_bits(t->name, one, two, bytes);
    }
    free(one);
    free(two);
}

static void test_round_trip(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        tp_full *full = tp_full_inputs(c, 1, 1, 1);
        for (int32_t n = 0; n < full->params; n++)
            check_param(c, &full->param[n]);
        tp_full_free(full);
    }
}

/* Q, K and V in one matrix: rank r of 2 holds heads 2r and 2r + 1 of each, whatever the blocks. */
static void test_qkv(void **state) {
    static const tpp_attention_desc d = {.size = sizeof d, .hidden = 8, .heads = 4, .head_cols = 2};
    const tp_case c = {"qkv", &tp_kind_attention, &d};
    static const int64_t free_order[] = {4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23};
    (void)state;
    tpp_shard s = map_of(&c, "qkv.weight", 1, 2, 0);
    assert_int_equal(s.axis, TPP_AXIS_COLS);
    assert_int_equal(tpp_shard_cols(&s), 12);
    for (int64_t i = 0; i < 12; i++)
        assert_int_equal(tpp_shard_index(&s, i), free_order[i]);
    s = map_of(&c, "qkv.weight", 1, 2, 4);
    int seen[24] = {0};
    for (int64_t i = 0; i < 12; i++)
        seen[tpp_shard_index(&s, i)]++;
    for (int64_t i = 0; i < 12; i++)
        assert_int_equal(seen[free_order[i]], 1);
}

/* A tensor of a case through two degrees, 1 -> t -> t' -> 1: the same bytes. */
static void through_two(const tp_case *c, const char *name, int64_t count, int32_t t, int32_t u) {
    double full[96], middle[96], end[96];
    assert_true(count <= 96);
    for (int64_t i = 0; i < count; i++)
        full[i] = (double)i + 1;
    const double *from = full;
    for (int k = 0; k < 2; k++) {
        double *to = k ? end : middle;
        int32_t ranks = k ? u : t;
        memset(to, TP_NAN, sizeof middle);
        for (int32_t r = 0; r < ranks; r++) {
            double local[96];
            tpp_shard s = map_of(c, name, r, ranks, 0);
            assert_int_equal(tpp_shard_split(&s, from, local, TPP_F64), TPP_OK);
            assert_int_equal(tpp_shard_join(&s, local, to, TPP_F64), TPP_OK);
        }
        from = to;
    }
    assert_same_bits(name, end, full, (uint64_t)count * sizeof *full);
}

/* O26: gate and up in one matrix. A rank holds gate block r and up block r, never a run of columns
 * across the middle; a gather gives [gate | up]. */
static void test_gate_up(void **state) {
    static const tpp_mlp_desc d = {sizeof d, 0, 3, 8, TPP_ACT_SWIGLU, 0, 0, 0};
    static const tpp_mlp_desc small = {sizeof small, 0, 1, 2, TPP_ACT_GEGLU, 0, 0, 0};
    const tp_case c = {"swiglu", &tp_kind_mlp, &d};
    const tp_case smallest = {"geglu", &tp_kind_mlp, &small};
    (void)state;
    for (int32_t t = 1; t <= 4; t *= 2) {
        int64_t wide = 8 / t;
        for (int32_t r = 0; r < t; r++) {
            tpp_shard s = map_of(&c, "up.weight", r, t, 0);
            assert_int_equal(s.sections, 2);
            assert_int_equal(tpp_shard_cols(&s), 2 * wide);
            for (int64_t i = 0; i < wide; i++) {
                assert_int_equal(tpp_shard_index(&s, i), r * wide + i);
                assert_int_equal(tpp_shard_index(&s, wide + i), 8 + r * wide + i);
            }
        }
        for (int32_t u = 1; u <= 4; u *= 2) {
            through_two(&c, "up.weight", 48, t, u);
            through_two(&c, "up.bias", 16, t, u);
            through_two(&c, "down.weight", 24, t, u);
        }
    }
    for (int32_t r = 0; r < 2; r++) {
        tpp_shard s = map_of(&smallest, "up.bias", r, 2, 0);
        assert_int_equal(tpp_shard_index(&s, 0), r);
        assert_int_equal(tpp_shard_index(&s, 1), 2 + r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index),   cmocka_unit_test(test_copied),
        cmocka_unit_test(test_padding), cmocka_unit_test(test_padded_sections),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_qkv),     cmocka_unit_test(test_gate_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
