/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Activations against the formulas of Korthikanti et al. as whole numbers, and by hand for what
 * they leave out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/sched_support.h"

#include <tpp/cost.h>

static tpp_cost_activations of(const tpp_cost_model *m, const tpp_cost_shape *shape) {
    tpp_cost_activations a = {.size = sizeof a};
    assert_ok(tpp_cost_activations_query(m, shape, &a));
    return a;
}

static uint64_t seed = 7;

static int32_t draw(int32_t most) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return 1 + (int32_t)((seed >> 33) % (uint64_t)most);
}

/* Table 2, of 20,000 shapes: bytes times h t. */
static void korthikanti_table2(void **state) {
    (void)state;
    for (int32_t i = 0; i < 20000; i++) {
        const int64_t t = draw(16), a = t * draw(8), h = a * draw(128), b = draw(4);
        const int64_t s = t * draw(512), sb = s * b, scores = 5 * a * s;
        tpp_cost_model m = {.size = sizeof m, .vocab = 100, .hidden = h, .layers = draw(100)};
        m.heads = (int32_t)a;
        tpp_cost_shape shape = {.size = sizeof shape, .batch = b, .seq = s, .tp = (int32_t)t};
        shape.flags = TPP_COST_SCORES;
        assert_int_equal(of(&m, &shape).layer * t, sb * (h * (10 * t + 24) + scores));
        shape.recompute = TPP_RECOMPUTE_SELECTIVE;
        assert_int_equal(of(&m, &shape).layer * t, sb * h * (10 * t + 24));
        assert_int_equal(of(&m, &shape).work * t, sb * scores);
        shape.recompute = TPP_RECOMPUTE_FULL;
        assert_int_equal(of(&m, &shape).layer, 2 * sb * h);
        shape.flags |= TPP_COST_SEQUENCE;
        assert_int_equal(of(&m, &shape).layer * t, 2 * sb * h);
        assert_int_equal(of(&m, &shape).work * t, sb * (32 * h + scores));
        shape.recompute = TPP_RECOMPUTE_NONE;
        assert_int_equal(of(&m, &shape).layer * t, sb * (34 * h + scores));
        shape.recompute = TPP_RECOMPUTE_SELECTIVE;
        assert_int_equal(of(&m, &shape).layer * t, 34 * sb * h);
    }
}

/* Section 4.3: s b h p / t of masks, 4 s b h / t (1 + V / h) for the last norm and the logits. */
static void korthikanti_ends(void **state) {
    tpp_cost_model m = {.size = sizeof m};
    tpp_cost_shape shape = {.size = sizeof shape, .batch = 1, .seq = 2048, .tp = 8};
    (void)state;
    shape.flags = TPP_COST_SEQUENCE;
    assert_ok(tpp_cost_model_preset(&m, "gpt-530b"));
    assert_int_equal(of(&m, &shape).embedding * 8, 2048 * 20480);
    assert_int_equal(of(&m, &shape).head * 8, 4 * 2048 * (20480 + 51200));
}

/* 70B, h 8,192, 80 layers, 4,096 tokens, t = 8, no scores: 0.44 GB a layer. 8 micro-batches of 10
 * layers are 34.9 GB, GPipe's 256 are 1,117. With model states of 21.875 GB that is 56.8. */
static void of_70_billion(void **state) {
    tpp_cost_model m = {
        .size = sizeof m, .vocab = 32000, .hidden = 8192, .layers = 80, .heads = 64};
    tpp_cost_shape shape = {.size = sizeof shape, .batch = 1, .seq = 4096, .tp = 8};
    (void)state;
    shape.recompute = TPP_RECOMPUTE_SELECTIVE;
    int64_t layer = of(&m, &shape).layer;
    assert_int_equal((layer + 5000000) / 10000000, 44);
    assert_int_equal((8 * 10 * layer + 50000000) / 100000000, 349);
    assert_int_equal((256 * 10 * layer + 500000000) / 1000000000, 1117);
    assert_int_equal((4 * 20 * layer + 21875000000 + 50000000) / 100000000, 568);
}

/* Section 5: 5 a s / h is 80 for GPT-3 and 64 for MT-NLG; selective saves 70 % and 65 %. */
static void what_selective_saves(void **state) {
    static const struct {
        const char *name;
        int64_t per_token, percent;
    } rows[] = {{"gpt3-175b", 80, 70}, {"gpt-530b", 64, 65}};
    (void)state;
    for (int32_t i = 0; i < 2; i++) {
        tpp_cost_model m = {.size = sizeof m};
        tpp_cost_shape shape = {.size = sizeof shape, .batch = 1, .seq = 2048, .tp = 8};
        shape.flags = TPP_COST_SEQUENCE | TPP_COST_SCORES;
        assert_ok(tpp_cost_model_preset(&m, rows[i].name));
        tpp_cost_activations a = of(&m, &shape);
        assert_int_equal(a.scores * 8, rows[i].per_token * 2048 * m.hidden);
        assert_int_equal((100 * a.scores + a.layer / 2) / a.layer, rows[i].percent);
    }
}

/* By hand: 12 tokens (24 on 2 context ranks), h 16, 8 heads of 3 columns and 2 K/V heads on 4
 * ranks: 2 and 1. */
static void the_general_form(void **state) {
    tpp_cost_model m = {.size = sizeof m, .flags = TPP_COST_GATED | TPP_COST_QK_NORM};
    m.vocab = 10, m.hidden = 16, m.ffn = 20, m.layers = 2;
    m.heads = 8, m.kv_heads = 2, m.head_cols = 3;
    tpp_cost_shape shape = {.size = sizeof shape, .batch = 2, .seq = 12, .tp = 4, .cp = 2};
    (void)state;
    tpp_cost_activations a = of(&m, &shape);
    assert_int_equal(a.attention, 2 * 12 * 16 + 2 * 12 * 3 * (2 + 1 + 1 + 2 + 2 + 1) + 12 * 16);
    assert_int_equal(a.scores, 4 * 2 * 12);
    assert_int_equal(a.mlp, 2 * 12 * 16 + 2 * 12 * 3 * 5 + 12 * 16);
    assert_int_equal(a.norms, 2 * 2 * 12 * 16);
    assert_int_equal(a.layer, a.attention + a.scores + a.mlp + a.norms);
    assert_int_equal(a.moe_layer + a.moe + a.work, 0);
    assert_int_equal(a.embedding, 12 * 16);
    assert_int_equal(a.head, 4 * 12 * 16 + 4 * 12 * 3); /* 10 words on 4 ranks: 3 */
    /* 12 tokens on 4 ranks: 3; float32, no masks; the activated gate is kept too */
    shape.flags = TPP_COST_SEQUENCE | TPP_COST_NO_DROPOUT | TPP_COST_KEEP_SILU | TPP_COST_SCORES;
    shape.element_bytes = 4;
    a = of(&m, &shape);
    assert_int_equal(a.attention, 4 * 3 * 16 + 4 * 12 * 3 * 9);
    assert_int_equal(a.scores, 4 * 2 * 12 * 12);
    assert_int_equal(a.mlp, 4 * 3 * 16 + 4 * 12 * 4 * 5);
    assert_int_equal(a.norms, 2 * 4 * 3 * 16);
    assert_int_equal(a.embedding, 0);
    assert_int_equal(a.head, 2 * 4 * 3 * 16 + 4 * 12 * 3);
    /* 10 tokens on 4 ranks: 3 on the first */
    shape.seq = 10;
    assert_int_equal(of(&m, &shape).norms, 2 * 4 * 3 * 16);
}

static void experts(void **state) {
    tpp_cost_model m = {.size = sizeof m, .flags = TPP_COST_GATED};
    m.vocab = 10, m.hidden = 16, m.ffn = 20, m.expert_ffn = 12, m.shared_ffn = 8, m.layers = 3;
    m.heads = 4, m.experts = 5, m.experts_per_token = 2, m.dense_layers = 1;
    tpp_cost_shape shape = {.size = sizeof shape, .batch = 1, .seq = 6, .tp = 2};
    (void)state;
    tpp_cost_activations a = of(&m, &shape);
    assert_int_equal(a.mlp, 3 * 6 * 16 + 2 * 6 * 3 * 10);
    assert_int_equal(a.moe, 3 * 6 * 16 + 2 * 6 * 3 * (2 * 6 + 4) + 4 * 6 * 5 + 2 * 2 * 6 * 16);
    assert_int_equal(a.moe_layer - a.layer, a.moe - a.mlp);
    int64_t most = a.moe_layer;
    shape.recompute = TPP_RECOMPUTE_FULL;
    a = of(&m, &shape);
    assert_int_equal(a.layer, 2 * 6 * 16);
    assert_int_equal(a.moe_layer, 2 * 6 * 16);
    assert_int_equal(a.work, most - a.layer);
    m.dense_layers = 0;
    a = of(&m, &shape);
    assert_int_equal(a.layer + a.mlp, 0);
}

/* Side by side: one norm input and one mask; with one norm its output serves both. */
static void side_by_side(void **state) {
    tpp_cost_model m = {.size = sizeof m, .vocab = 10, .hidden = 16, .layers = 3, .heads = 4};
    tpp_cost_shape shape = {.size = sizeof shape, .batch = 1, .seq = 6};
    (void)state;
    int64_t apart = of(&m, &shape).layer;
    m.flags = TPP_COST_PARALLEL_BLOCK | TPP_COST_TWO_NORMS;
    assert_int_equal(of(&m, &shape).layer, apart - 3 * 6 * 16);
    m.flags = TPP_COST_PARALLEL_BLOCK;
    assert_int_equal(of(&m, &shape).layer, apart - 5 * 6 * 16);
}

static void refused(void **state) {
    tpp_cost_model m = {.size = sizeof m, .vocab = 10, .hidden = 16, .layers = 3, .heads = 4};
    tpp_cost_activations a = {.size = sizeof a};
    const tpp_cost_shape good = {.size = sizeof good, .batch = 1, .seq = 6};
    tpp_cost_shape s = good;
    (void)state;
#define REFUSED(field, value, words)                                                               \
    s = good;                                                                                      \
    s.field = value;                                                                               \
    assert_fails(tpp_cost_activations_query(&m, &s, &a), TPP_ERR_INVALID, words)
    REFUSED(batch, 0, "shape.batch = 0");
    REFUSED(seq, -1, "shape.seq = -1");
    REFUSED(tp, -1, "shape.tp = -1");
    REFUSED(tp, 3, "shape.tp = 3 does not divide model.heads = 4; accepted: 1, 2, 4");
    REFUSED(cp, -1, "shape.cp = -1");
    REFUSED(cp, 4, "shape.cp = 4 does not divide shape.seq = 6");
    REFUSED(recompute, 3, "shape.recompute = 3");
    REFUSED(element_bytes, -2, "shape.element_bytes = -2");
    s = good;
    s.flags = 64;
    assert_fails(tpp_cost_activations_query(&m, &s, &a), TPP_ERR_TOO_NEW, "shape.flags = 0x40");
    s = good;
    s.batch = INT64_MAX / 2;
    assert_fails(tpp_cost_activations_query(&m, &s, &a), TPP_ERR_OVERFLOW, "tokens");
    s.batch = INT64_MAX / 1000;
    assert_fails(tpp_cost_activations_query(&m, &s, &a), TPP_ERR_OVERFLOW, "activations");
    assert_fails(tpp_cost_activations_query(&m, &good, NULL), TPP_ERR_INVALID, "out is NULL");
    assert_fails(tpp_cost_activations_query(&m, NULL, &a), TPP_ERR_INVALID, "shape is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(korthikanti_table2), cmocka_unit_test(korthikanti_ends),
        cmocka_unit_test(of_70_billion),      cmocka_unit_test(what_selective_saves),
        cmocka_unit_test(the_general_form),   cmocka_unit_test(experts),
        cmocka_unit_test(side_by_side),       cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
