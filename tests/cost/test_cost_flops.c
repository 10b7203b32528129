/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Operations against the formulas of Narayanan et al. and Korthikanti et al., and the layers' own
 * count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/cost_table.h"
#include "support/sched_support.h"

#include <tpp/tpp.h>

#define assert_near(got, want, bound)                                                              \
    do {                                                                                           \
        double got_ = (got), want_ = (want);                                                       \
        if (!(got_ >= want_ - (bound) && got_ <= want_ + (bound)))                                 \
            fail_msg("%s is %.9g, not %.9g", #got, got_, want_);                                   \
    } while (0)

static tpp_cost_flops flops_of(const tpp_cost_model *m, int64_t batch, int64_t seq,
                               tpp_cost_mask mask) {
    tpp_cost_flops f = {.size = sizeof f};
    assert_ok(tpp_cost_flops_query(m, batch, seq, mask, &f));
    return f;
}

static tpp_cost_model preset(const char *name) {
    tpp_cost_model m = {.size = sizeof m};
    assert_ok(tpp_cost_model_preset(&m, name));
    return m;
}

/* A GPT of a table's row. */
static tpp_cost_model gpt(const cost_table *table, int32_t row) {
    tpp_cost_model m = {.size = sizeof m, .flags = TPP_COST_TIED};
    m.heads = cost_integer(table, row, "attention_heads");
    m.layers = cost_integer(table, row, "layers");
    m.hidden = cost_integer(table, row, "hidden");
    m.vocab = cost_integer(table, row, "vocab");
    m.positions = cost_integer(table, row, "seq_len");
    return m;
}

/* O36: 32 layers of 4,096 columns, gated MLP of 11,008; the halves of the mask by name. */
static void causal_attention_is_halved(void **state) {
    tpp_cost_model m = preset("llama2-7b");
    (void)state;
    tpp_cost_flops half = flops_of(&m, 4, 8192, TPP_COST_MASK_HALF);
    tpp_cost_flops full = flops_of(&m, 4, 8192, TPP_COST_MASK_FULL);
    tpp_cost_flops exact = flops_of(&m, 4, 8192, TPP_COST_MASK_EXACT);
    assert_near(3e-12 * (double)(half.forward - half.cores), 1299.00, 0.005);
    assert_near(3e-12 * (double)half.cores, 211.11, 0.005);
    assert_near(3e-12 * (double)half.forward, 1510.11, 0.005);
    assert_near(3e-12 * (double)full.forward, 1721.22, 0.005);
    assert_int_equal(full.cores, 2 * half.cores);
    assert_int_equal(exact.cores * 8192, half.cores * 8193);
    assert_int_equal(half.forward - half.cores, full.forward - full.cores);
}

/* Equation 3 of Narayanan et al., 96 B s L h^2 (1 + s / (6 h) + V / (16 L h)): with all layers
 * twice; equation 7 of Korthikanti et al., 72 B s L h^2 (1 + s / (6 h) + V / (12 L h)). Both are
 * whole numbers. */
static void equations_of_papers(void **state) {
    cost_table table;
    (void)state;
    cost_table_read(&table, "narayanan_table1.csv");
    for (int32_t i = 0; i < table.rows; i++) {
        tpp_cost_model m = gpt(&table, i);
        int64_t b = cost_integer(&table, i, "micro_batch_script"), s = m.positions, h = m.hidden;
        int64_t layers = 4 * b * s * m.layers * h * (6 * h + s), head = 2 * b * s * h * m.vocab;
        tpp_cost_flops f = flops_of(&m, b, s, TPP_COST_MASK_FULL);
        assert_int_equal(3 * f.forward + f.layers, 4 * layers + 3 * head);
        assert_int_equal(3 * f.forward, 3 * layers + 3 * head);
        assert_int_equal(f.layers, layers);
    }
}

/* Model and hardware utilisation of Korthikanti et al.'s table, on A100s of 312 TFLOP/s, within 0.2
 * points; equation 8 counts the cores done again three times. */
static void korthikanti_iteration(void **state) {
    cost_table configs, times;
    (void)state;
    cost_table_read(&configs, "korthikanti_configs.csv");
    cost_table_read(&times, "korthikanti_iteration.csv");
    for (int32_t i = 0; i < configs.rows; i++) {
        tpp_cost_model m = gpt(&configs, i);
        int32_t row = cost_row(&times, cost_cell(&configs, i, "model"));
        int64_t batch = cost_integer(&configs, i, "global_batch");
        tpp_cost_flops f = flops_of(&m, batch, m.positions, TPP_COST_MASK_FULL);
        double peak = 312e12 * cost_number(&configs, i, "gpus");
        double seconds = cost_number(&times, row, "seqpar_selective_s");
        double model = 3 * (double)f.forward, cores = 3 * (double)f.cores;
        assert_near(100 * model / (seconds * peak), cost_number(&times, row, "mfu_pct"), 0.2);
        assert_near(100 * (model + cores) / (seconds * peak), cost_number(&times, row, "hfu_pct"),
                    0.2);
    }
}

/* Section 5 of Korthikanti et al., with equation 8: selective recomputation costs GPT-3 2.7 %,
 * MT-NLG 1.6 %; what is done is a third of it. */
static void selective_recomputation(void **state) {
    tpp_cost_model gpt3 = preset("gpt3-175b"), nlg = preset("gpt-530b");
    (void)state;
    tpp_cost_flops f = flops_of(&gpt3, 1, 2048, TPP_COST_MASK_FULL);
    assert_near(100 * 3 * (double)f.cores / (3 * (double)f.forward), 2.7, 0.05);
    f = flops_of(&nlg, 1, 2048, TPP_COST_MASK_FULL);
    assert_near(100 * 3 * (double)f.cores / (3 * (double)f.forward), 1.6, 0.05);
}

/* One layer of h = 8,192 with f = 4 h, T = 4,096, on 8 ranks, without scores: 8.25e11. */
static void one_layer(void **state) {
    tpp_cost_model m = {.size = sizeof m, .vocab = 1, .hidden = 8192, .layers = 1, .heads = 64};
    (void)state;
    tpp_cost_flops f = flops_of(&m, 1, 4096, TPP_COST_MASK_HALF);
    assert_near((double)(f.layers - f.cores) / 8, 8.25e11, 0.005e11);
}

/* By hand: T = 6, h 8, V 10; the first of 3 layers plain, then 2 of 4 experts and shared ones. */
static void experts(void **state) {
    tpp_cost_model m = {.size = sizeof m, .flags = TPP_COST_GATED | TPP_COST_SHARED_GATE};
    m.vocab = 10, m.hidden = 8, m.ffn = 12, m.expert_ffn = 6, m.shared_ffn = 7;
    m.layers = 3, m.heads = 2, m.head_cols = 5, m.kv_heads = 1;
    m.experts = 4, m.experts_per_token = 2, m.dense_layers = 1;
    (void)state;
    tpp_cost_flops f = flops_of(&m, 2, 3, TPP_COST_MASK_EXACT);
    tpp_cost_params p = {.size = sizeof p};
    assert_ok(tpp_cost_params_query(&m, &p));
    assert_int_equal(f.projections, 2 * 6 * 8 * 5 * 6);
    assert_int_equal(f.attention, 4 * 2 * 6 * 10);
    assert_int_equal(f.mlp, 6 * 6 * 8 * 12);
    assert_int_equal(f.moe, 6 * 6 * 8 * (2 * 6 + 7) + 2 * 6 * 8 * (4 + 1));
    assert_int_equal(f.head, 2 * 6 * 80);
    assert_int_equal(f.layers, 3 * (f.projections + f.attention) + f.mlp + 2 * f.moe);
    assert_int_equal(f.forward, f.layers + f.head);
    assert_int_equal(f.forward, 2 * 6 * p.matmul + f.cores);
}

/* A window of 3 of 5 tokens: 1 + 2 + 3 + 3 + 3 pairs, in layers from the second on. */
static void windows(void **state) {
    tpp_cost_model m = {.size = sizeof m, .vocab = 1, .hidden = 8, .layers = 3, .heads = 2};
    (void)state;
    m.window = 3, m.window_first = 1;
    tpp_cost_flops f = flops_of(&m, 2, 5, TPP_COST_MASK_EXACT);
    assert_int_equal(f.attention, 4 * 2 * 8 * 12);
    assert_int_equal(f.cores, 4 * 2 * 8 * (15 + 2 * 12));
    m.window_first = 3;
    f = flops_of(&m, 2, 5, TPP_COST_MASK_EXACT);
    assert_int_equal(f.cores, 4 * 2 * 8 * 3 * 15);
    m.window = 5, m.window_first = 0;
    f = flops_of(&m, 2, 5, TPP_COST_MASK_EXACT);
    assert_int_equal(f.attention, 4 * 2 * 8 * 15);
    m.window = 3;
    f = flops_of(&m, 2, 5, TPP_COST_MASK_FULL);
    assert_int_equal(f.attention, 4 * 2 * 8 * 25);
}

/* The layers of the library say the same of themselves: weight_flops, attention_flops with both
 * masks. */
static void layers_say_the_same(void **state) {
    (void)state;
    for (int32_t i = 0; i < 20; i++) {
        tpp_model_desc m = {.size = sizeof m, .vocab = 37, .hidden = 32, .ffn = 40};
        m.layers = 3, m.heads = 8, m.kv_heads = 4, m.max_positions = 9;
        m.window = i > 10 ? 4 : 0, m.window_first = i % 2;
        assert_ok(tpp_model_family_set(&m, i % 5));
        tpp_layer_env env = {.size = sizeof env};
        tpp_model_part_desc d = {.size = sizeof d, .model = &m, .count = 3};
        tpp_layer_cost told = {.size = sizeof told};
        tpp_cost_model cost = {.size = sizeof cost};
        tpp_layer *layer = NULL;
        assert_ok(tpp_model_part_create(&layer, &env, &d));
        assert_ok(tpp_layer_cost_query(layer, TPP_COST_FORWARD, 2, 7, &told));
        tpp_layer_destroy(layer);
        assert_ok(tpp_model_cost(&m, &cost));
        tpp_cost_flops f = flops_of(&cost, 2, 7, TPP_COST_MASK_EXACT);
        assert_true((double)(f.forward - f.cores) == told.weight_flops);
        assert_true((double)f.cores == told.attention_flops);
        f = flops_of(&cost, 2, 7, TPP_COST_MASK_FULL);
        assert_true((double)f.cores == told.attention_flops_full);
    }
}

static void refused(void **state) {
    tpp_cost_model m = preset("gpt-1t");
    tpp_cost_flops f = {.size = sizeof f};
    (void)state;
    assert_fails(tpp_cost_flops_query(&m, 0, 1, 0, &f), TPP_ERR_INVALID, "batch = 0");
    assert_fails(tpp_cost_flops_query(&m, 1, -5, 0, &f), TPP_ERR_INVALID, "seq = -5");
    assert_fails(tpp_cost_flops_query(&m, 1, 1, 3, &f), TPP_ERR_INVALID, "mask = 3");
    assert_fails(tpp_cost_flops_query(&m, 1, 1, 0, NULL), TPP_ERR_INVALID, "out is NULL");
    assert_fails(tpp_cost_flops_query(&m, 2048, 65536, 0, &f), TPP_ERR_OVERFLOW, "operations");
    assert_fails(tpp_cost_flops_query(NULL, 1, 1, 0, &f), TPP_ERR_INVALID, "model is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causal_attention_is_halved),
        cmocka_unit_test(equations_of_papers),
        cmocka_unit_test(korthikanti_iteration),
        cmocka_unit_test(selective_recomputation),
        cmocka_unit_test(one_layer),
        cmocka_unit_test(experts),
        cmocka_unit_test(windows),
        cmocka_unit_test(layers_say_the_same),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
