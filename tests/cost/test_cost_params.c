/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Parameters: published sizes, equation 2 of Narayanan et al. to the digit that is printed, and a
 * part on a rank against the layers that are made for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/cost_table.h"
#include "support/sched_support.h"
#include "support/tp_ranks.h"

#include <tpp/tpp.h>

static tpp_cost_params params_of(const tpp_cost_model *m) {
    tpp_cost_params p = {.size = sizeof p};
    if (tpp_cost_params_query(m, &p) != TPP_OK)
        fail_msg("%s", tpp_message());
    return p;
}

static tpp_cost_model preset(const char *name) {
    tpp_cost_model m = {.size = sizeof m};
    if (tpp_cost_model_preset(&m, name) != TPP_OK)
        fail_msg("%s", tpp_message());
    return m;
}

/* Numbers of the checkpoints that are published under these names; the GPTs of papers have none,
 * and are equation 2 and a last norm. */
static void presets_have_their_published_sizes(void **state) {
    static const struct {
        const char *name;
        int64_t total, active;
    } sizes[] = {
        {"gpt2", 124439808, 0},
        {"gpt2-medium", 354823168, 0},
        {"gpt2-large", 774030080, 0},
        {"gpt2-xl", 1557611200, 0},
        {"gpt3-175b", 0, 0},
        {"gpt-22b", 0, 0},
        {"gpt-530b", 0, 0},
        {"gpt-1t", 0, 0},
        {"llama2-7b", 6738415616, 0},
        {"llama2-13b", 13015864320, 0},
        {"llama2-70b", 68976648192, 0},
        {"llama3-8b", 8030261248, 0},
        {"llama3-70b", 70553706496, 0},
        {"llama3-405b", 405853388800, 0},
        {"mixtral-8x7b", 46702792704, 12879925248},
    };
    const int32_t count = sizeof sizes / sizeof *sizes;
    (void)state;
    for (int32_t i = 0; i < count; i++) {
        tpp_cost_model m = preset(sizes[i].name);
        tpp_cost_params p = params_of(&m);
        int64_t h = m.hidden;
        int64_t equation2 = m.layers * (12 * h * h + 13 * h) + (m.vocab + m.positions) * h;
        int64_t total = sizes[i].total > 0 ? sizes[i].total : equation2 + 2 * h;
        assert_int_equal(p.total, total);
        assert_int_equal(p.active, sizes[i].active > 0 ? sizes[i].active : total);
        assert_string_equal(tpp_cost_model_preset_name(i), sizes[i].name);
    }
    assert_null(tpp_cost_model_preset_name(count));
    assert_null(tpp_cost_model_preset_name(-1));
}

/* Table 1 prints billions with one digit behind the point. */
static void narayanan_table1(void **state) {
    cost_table table;
    (void)state;
    cost_table_read(&table, "narayanan_table1.csv");
    assert_int_equal(table.rows, 10);
    for (int32_t i = 0; i < table.rows; i++) {
        tpp_cost_model m = {.size = sizeof m, .flags = TPP_COST_TIED};
        m.heads = cost_integer(&table, i, "attention_heads");
        m.layers = cost_integer(&table, i, "layers");
        m.hidden = cost_integer(&table, i, "hidden");
        m.vocab = cost_integer(&table, i, "vocab");
        m.positions = cost_integer(&table, i, "seq_len");
        char printed[32];
        tpp_cost_params p = params_of(&m);
        snprintf(printed, sizeof printed, "%.1f", (double)(p.total - p.final_norm) / 1e9);
        assert_string_equal(printed, cost_cell(&table, i, "params_billion"));
    }
}

/* A model of 1T parameters: no count goes through 32 bits. */
static void a_trillion(void **state) {
    tpp_cost_model m = {.size = sizeof m, .flags = TPP_COST_NO_BIAS | TPP_COST_RMS_NORM};
    m.vocab = 51200, m.hidden = 25600, m.layers = 128, m.heads = 160;
    (void)state;
    tpp_cost_params p = params_of(&m);
    assert_int_equal(p.total, 1009260979200);
    tpp_cost_states s = {.size = sizeof s};
    assert_int_equal(tpp_cost_states_of(p.total, NULL, 1, 0, &s), TPP_OK);
    assert_int_equal(s.total, 16148175667200);
}

/* By hand: h 8, V 10, 3 layers of 2 heads of 5 columns, the first with an MLP of 12, the others
 * with 4 experts of 6 and shared ones of 7, all gated. */
static void experts(void **state) {
    tpp_cost_model m = {.size = sizeof m,
                        .flags = TPP_COST_GATED | TPP_COST_NO_BIAS | TPP_COST_RMS_NORM |
                                 TPP_COST_QK_NORM | TPP_COST_SHARED_GATE};
    m.vocab = 10, m.hidden = 8, m.ffn = 12, m.expert_ffn = 6, m.shared_ffn = 7;
    m.layers = 3, m.heads = 2, m.head_cols = 5, m.kv_heads = 1;
    m.experts = 4, m.experts_per_token = 2, m.dense_layers = 1;
    (void)state;
    tpp_cost_params p = params_of(&m);
    assert_int_equal(p.embedding, 80);
    assert_int_equal(p.head, 80);
    assert_int_equal(p.attention, 8 * 5 * 6 + 10);
    assert_int_equal(p.norms, 16);
    assert_int_equal(p.final_norm, 8);
    assert_int_equal(p.mlp, 3 * 8 * 12);
    assert_int_equal(p.moe, 4 * 144 + 168 + 32 + 8);
    assert_int_equal(p.total, 80 + 80 + 8 + 3 * (250 + 16) + 288 + 2 * 784);
    assert_int_equal(p.active, p.total - 2 * 2 * 144);
    assert_int_equal(p.matmul, 3 * 240 + 288 + 2 * (2 * 144 + 168 + 32 + 8) + 80);
    /* Of two ranks, all of it: the router, its gate and norms are whole; one K/V head each. */
    tpp_cost_part part = {.size = sizeof part, .flags = 3, .layers = 3, .dense_layers = 1};
    int64_t whole, half;
    assert_int_equal(tpp_cost_part_params(&m, &part, &whole), TPP_OK);
    assert_int_equal(whole, p.total);
    part.tp = 2;
    m.shared_ffn = 14;
    assert_int_equal(tpp_cost_part_params(&m, &part, &half), TPP_OK);
    assert_int_equal(half,
                     2 * 5 * 8 + 8 + 3 * (8 * 5 * 4 + 10 + 16) + 144 + 2 * (4 * 72 + 168 + 32 + 8));
}

/* Numbers in the memory of a chain on a rank of `tp`. */
static int64_t numbers_of(const tpp_model_desc *m, int32_t tp, int32_t first, int32_t count) {
    tpp_layer_env env = {.size = sizeof env, .dtype = TPP_F64};
    env.comm = tp > 1 ? tp_comm_stub(0, tp) : NULL;
    tpp_model_part_desc d = {.size = sizeof d, .flags = TPP_MODEL_PART_ONE_TABLE, .model = m};
    d.first = first, d.count = count;
    tpp_layer *layer = NULL;
    tpp_layer_info info = {.size = sizeof info};
    int64_t sum = 0;
    if (tpp_model_part_create(&layer, &env, &d) != TPP_OK)
        fail_msg("%s", tpp_message());
    assert_int_equal(tpp_layer_query(layer, 1, 1, &info), TPP_OK);
    for (int32_t i = 0; i < info.params; i++) {
        tpp_param_info p = {.size = sizeof p};
        assert_int_equal(tpp_layer_param(layer, i, &p), TPP_OK);
        if (!(p.flags & TPP_PARAM_COPY) || first > 0)
            sum += tpp_shard_rows(&p.shard) * tpp_shard_cols(&p.shard);
    }
    tpp_layer_destroy(layer);
    tpp_comm_destroy(env.comm);
    return sum;
}

/* What a rank holds is what the layers of model.h hold, for every family, stage and number of
 * ranks. */
static void parts_are_what_layers_hold(void **state) {
    (void)state;
    for (int32_t i = 0; i < 5 * 3 * 3; i++) {
        tpp_model_desc m = {.size = sizeof m, .vocab = 37, .hidden = 32, .ffn = 40};
        m.layers = 4, m.heads = 8, m.max_positions = 9;
        assert_int_equal(tpp_model_family_set(&m, i % 5), TPP_OK);
        m.kv_heads = 2 << (i / 5 % 3);
        m.flags = i % 2 ? TPP_MODEL_TIED : 0;
        if (i > 30)
            m.block_flags |= TPP_BLOCK_PARALLEL | (i > 37 ? TPP_BLOCK_TWO_NORMS : 0);
        tpp_cost_model cost = {.size = sizeof cost};
        assert_int_equal(tpp_model_cost(&m, &cost), TPP_OK);
        for (int32_t at = 0; at < 12; at++) {
            const int32_t tp = 1 << at / 3, first = at % 3 == 2 ? 2 : 0;
            tpp_cost_part part = {.size = sizeof part, .tp = tp};
            part.layers = at % 3 == 0 ? 4 : 2;
            part.flags = (first == 0 ? TPP_COST_PART_EMBEDDING : 0) |
                         (first + part.layers == 4 ? TPP_COST_PART_HEAD : 0);
            int64_t told = 0;
            if (tpp_cost_part_params(&cost, &part, &told) != TPP_OK)
                fail_msg("%s", tpp_message());
            assert_int_equal(told, numbers_of(&m, tp, first, part.layers));
        }
    }
}

/* Rows of the table: 50,257 to 50,304 = 393 * 128 for one rank, 51,200 = 50 * 1,024 for eight
 * (Megatron-LM). */
static void padding_of_the_vocabulary(void **state) {
    tpp_cost_model m = preset("gpt2");
    tpp_cost_part part = {.size = sizeof part, .flags = TPP_COST_PART_EMBEDDING};
    int64_t n;
    (void)state;
    part.vocab_multiple = 128;
    assert_int_equal(tpp_cost_part_params(&m, &part, &n), TPP_OK);
    assert_int_equal(n, (50304 + 1024) * 768);
    part.tp = 4;
    assert_int_equal(tpp_cost_part_params(&m, &part, &n), TPP_OK);
    assert_int_equal(n, (50688 / 4 + 1024) * 768);
}

static void refused(void **state) {
    tpp_cost_model good = {.size = sizeof good, .vocab = 10, .hidden = 16, .layers = 3, .heads = 4};
    tpp_cost_params p = {.size = sizeof p};
    tpp_cost_model m = good;
    (void)state;
#define REFUSED(field, value, words)                                                               \
    m = good;                                                                                      \
    m.field = value;                                                                               \
    assert_fails(tpp_cost_params_query(&m, &p), TPP_ERR_INVALID, words)
    REFUSED(vocab, 0, "model.vocab = 0 is not accepted; accepted: 1 or more");
    REFUSED(hidden, -16, "model.hidden = -16");
    REFUSED(hidden, 18, "model.heads = 4 does not divide model.hidden = 18");
    REFUSED(hidden, (int64_t)1 << 40, "model.hidden = 1099511627776 is too large");
    REFUSED(ffn, -1, "model.ffn = -1");
    REFUSED(positions, -1, "model.positions = -1");
    REFUSED(window, -1, "model.window = -1");
    REFUSED(window_first, -1, "model.window_first = -1");
    REFUSED(layers, 0, "model.layers = 0");
    REFUSED(heads, 0, "model.heads = 0");
    REFUSED(kv_heads, 3,
            "model.kv_heads = 3 does not divide model.heads = 4; accepted: 0 (heads), "
            "1, 2, 4");
    REFUSED(head_cols, -2, "model.head_cols = -2");
    REFUSED(experts, -1, "model.experts = -1");
    REFUSED(experts, 4, "model.experts_per_token = 0 is not accepted; accepted: 1 .. 4");
    REFUSED(experts_per_token, 2, "model.experts_per_token = 2 is not accepted with model.experts");
    REFUSED(expert_ffn, 2, "model.expert_ffn = 2 is not accepted with model.experts = 0");
    REFUSED(shared_ffn, 2, "model.shared_ffn = 2 is not accepted with model.experts = 0");
    REFUSED(dense_layers, 2, "model.dense_layers = 2 is not accepted with model.experts = 0");
    REFUSED(flags, TPP_COST_SHARED_GATE, "model.shared_ffn = 0 is not accepted with");
    good.experts = 4, good.experts_per_token = 1;
    REFUSED(experts_per_token, 5, "model.experts_per_token = 5");
    REFUSED(dense_layers, 4, "model.dense_layers = 4 is not accepted; accepted: 0 .. 3");
    m = good;
    m.size = 4;
    assert_fails(tpp_cost_params_query(&m, &p), TPP_ERR_INVALID, "model.size = 4");
    m = good;
    m.flags = 1u << 20;
    assert_fails(tpp_cost_params_query(&m, &p), TPP_ERR_TOO_NEW, "model.flags");
    assert_fails(tpp_cost_params_query(NULL, &p), TPP_ERR_INVALID, "model is NULL");
    assert_fails(tpp_cost_params_query(&good, NULL), TPP_ERR_INVALID, "out is NULL");
    m = good;
    m.vocab = INT64_MAX / 16;
    assert_fails(tpp_cost_params_query(&m, &p), TPP_ERR_OVERFLOW, "parameters do not fit");
    assert_fails(tpp_cost_model_preset(&m, "gpt5"), TPP_ERR_INVALID,
                 "name = \"gpt5\" is no model that is known; accepted: gpt2, ");
    assert_non_null(strstr(tpp_message(), "mixtral-8x7b"));
    assert_fails(tpp_cost_model_preset(&m, NULL), TPP_ERR_INVALID, "name is NULL");
    assert_fails(tpp_cost_model_preset(NULL, "gpt2"), TPP_ERR_INVALID, "out is NULL");
}

static void models_of_layers_refused(void **state) {
    tpp_model_desc d = {.size = sizeof d, .vocab = 10, .hidden = 16, .layers = 3, .heads = 4};
    tpp_cost_model m = {.size = sizeof m};
    int64_t n;
    (void)state;
    assert_fails(tpp_model_cost(NULL, &m), TPP_ERR_INVALID, "model is NULL");
    assert_fails(tpp_model_cost(&d, NULL), TPP_ERR_INVALID, "out is NULL");
    assert_fails(tpp_model_params(&d, NULL), TPP_ERR_INVALID, "out is NULL");
    d.heads = 3;
    assert_fails(tpp_model_cost(&d, &m), TPP_ERR_INVALID, "model.heads = 3");
    d.heads = 4, d.vocab = INT64_MAX / 2;
    assert_fails(tpp_model_params(&d, &n), TPP_ERR_OVERFLOW, "parameters");
}

static void parts_refused(void **state) {
    tpp_cost_model m = {.size = sizeof m, .vocab = 10, .hidden = 24, .layers = 3, .heads = 12};
    const tpp_cost_part good = {.size = sizeof good, .layers = 1};
    tpp_cost_part part = good;
    int64_t n;
    (void)state;
    m.kv_heads = 6, m.ffn = 20;
#define PART_REFUSED(field, value, words)                                                          \
    part = good;                                                                                   \
    part.field = value;                                                                            \
    assert_fails(tpp_cost_part_params(&m, &part, &n), TPP_ERR_INVALID, words)
    PART_REFUSED(tp, -1, "part.tp = -1");
    PART_REFUSED(tp, 5,
                 "part.tp = 5 does not divide model.heads = 12; accepted: 1, 2, 3, 4, 6, 12");
    PART_REFUSED(tp, 4, "part.tp = 4 does not divide model.kv_heads = 6, nor is it a multiple");
    PART_REFUSED(tp, 3, "part.tp = 3 does not divide model.ffn = 20");
    PART_REFUSED(layers, -1, "part.layers = -1");
    PART_REFUSED(layers, 4, "part.layers = 4 is more than model.layers = 3");
    PART_REFUSED(dense_layers, 1,
                 "part.dense_layers = 1 is not accepted with part.layers = 1; "
                 "accepted: 0 .. 0");
    PART_REFUSED(vocab_multiple, -1, "part.vocab_multiple = -1");
    assert_fails(tpp_cost_part_params(&m, NULL, &n), TPP_ERR_INVALID, "part is NULL");
    assert_fails(tpp_cost_part_params(&m, &good, NULL), TPP_ERR_INVALID, "out is NULL");
    m.experts = 2, m.experts_per_token = 1, m.dense_layers = 1, m.expert_ffn = 21;
    PART_REFUSED(layers, 3,
                 "part.dense_layers = 0 is not accepted with part.layers = 3; accepted: "
                 "1 .. 1");
    PART_REFUSED(tp, 2, "part.tp = 2 does not divide model.expert_ffn = 21");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_have_their_published_sizes),
        cmocka_unit_test(narayanan_table1),
        cmocka_unit_test(a_trillion),
        cmocka_unit_test(experts),
        cmocka_unit_test(parts_are_what_layers_hold),
        cmocka_unit_test(padding_of_the_vocabulary),
        cmocka_unit_test(refused),
        cmocka_unit_test(models_of_layers_refused),
        cmocka_unit_test(parts_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
