/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Memory to the byte: what the query tells is what the headers promise and is enough (every other
 * test runs in exactly that, between guards); one byte less is refused with the need in the
 * message. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/tp_run.h"

static void assert_says(const char *part) {
    if (!strstr(tpp_message(), part))
        fail_msg("\"%s\" does not say \"%s\"", tpp_message(), part);
}

/* One call with one number too small; everything else is right. Nothing may have been written. */
static void refuse(tp_rank *r, tpp_status (*run)(const tpp_layer *, const tpp_call *),
                   int64_t *bytes, const char *field) {
    char need[32];
    if (*bytes == 0)
        return;
    snprintf(need, sizeof need, "%" PRId64, *bytes);
    *bytes -= 1;
    tpp_message_set("");
    assert_int_equal(run(r->layer, &r->call), TPP_ERR_TOO_SMALL);
    assert_says(need);
    assert_says(field);
    *bytes += 1;
}

static void refuse_all(tp_rank *r) {
    refuse(r, tpp_layer_forward, &r->call.scratch_bytes, "scratch");
    refuse(r, tpp_layer_backward, &r->call.scratch_bytes, "scratch");
    refuse(r, tpp_layer_backward_input, &r->call.scratch_bytes, "scratch");
    refuse(r, tpp_layer_backward_weight, &r->call.scratch_bytes, "scratch");
    refuse(r, tpp_layer_backward_input, &r->call.saved_bytes, "saved");
    refuse(r, tpp_layer_backward_weight, &r->call.saved_bytes, "saved");
    r->call.saved_bytes = r->info.saved_bytes;
    refuse(r, tpp_layer_forward, &r->call.saved_bytes, "saved");
    refuse(r, tpp_layer_backward, &r->call.saved_bytes, "saved");
    if (r->info.split_bytes > 0) {
        assert_int_equal(tpp_layer_backward_input(r->layer, &r->call), TPP_ERR_TOO_SMALL);
        assert_int_equal(tpp_layer_backward_weight(r->layer, &r->call), TPP_ERR_TOO_SMALL);
    }
}

static void test_too_small(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        for (int i = 0; i < 6; i++) {
            tp_full *full = tp_full_inputs(c, 2, 5, 1);
            tp_setup setup = {0};
            tp_rank r;
            setup.ranks = 1;
            setup.blocks = i % 2 ? 8 : 0;
            setup.dtype = i < 2 ? TPP_F32 : i < 4 ? TPP_F64 : TPP_BF16;
            setup.halves = 1;
            assert_int_equal(tp_rank_open(&r, c, full, &setup, NULL, 0), TPP_OK);
            refuse_all(&r);
            assert_int_equal(tp_rank_verify(&r), TPP_OK);
            tp_rank_close(&r);
            tp_rank_free(&r);
            tp_full_free(full);
        }
    }
}

/* saved_bytes: at least the elements that the header names, at most 64 bytes more for each of
 * `pieces`. */
static void check_saved(const char *name, int32_t ranks, int64_t elements, int pieces) {
    const tp_case *c = tp_case_find(name);
    tpp_comm *comm = ranks > 1 ? tp_comm_stub(0, ranks) : NULL;
    for (int i = 0; i < 2; i++) {
        tpp_layer_env env = {0};
        tpp_layer *layer = NULL;
        tpp_layer_info info = {0};
        env.size = sizeof env;
        env.comm = comm;
        env.dtype = i ? TPP_F64 : TPP_F32;
        info.size = sizeof info;
        assert_int_equal(c->kind->create(&layer, &env, c->desc), TPP_OK);
        assert_int_equal(tpp_layer_query(layer, 3, 67, &info), TPP_OK);
        int64_t least = elements * tp_width(env.dtype);
        if (info.saved_bytes < least || info.saved_bytes > least + 64 * pieces)
            fail_msg("%s, %d ranks: saved_bytes = %lld; the header says %lld elements = %lld", name,
                     ranks, (long long)info.saved_bytes, (long long)elements, (long long)least);
        tpp_layer_destroy(layer);
    }
    tpp_comm_destroy(comm);
}

/* The "Memory:" lines of the headers. */
static void test_saved(void **state) {
    const int64_t tokens = 3 * 67;
    (void)state;
    for (int32_t t = 1; t <= 8; t *= 2) {
        check_saved("linear column", t, 0, 0);
        check_saved("linear row", t, 0, 0);
        check_saved("mlp", t, 2 * tokens * 40 / t, 2);
        check_saved("mlp, squared relu", t, 2 * tokens * 16 / t, 2);
        check_saved("mlp, swiglu", t, 3 * tokens * 40 / t, 2);
        check_saved("mlp, swiglu, separate", t, 3 * tokens * 40 / t, 2);
        check_saved("attention", t, 4 * tokens * 24 / t + tokens * 8 / t, 5);
        check_saved("attention, wide heads", t, 4 * tokens * 40 / t + tokens * 8 / t, 5);
        /* K/V heads, every copy counted */
        int64_t kv = t > 4 ? t : 4;
        check_saved("attention, grouped", t, 2 * tokens * (8 + kv) * 6 / t + tokens * 8 / t, 7);
        check_saved("attention, multi-query", t, 2 * tokens * (8 + t) * 3 / t + tokens * 8 / t, 7);
        check_saved("attention, rotary", t, 4 * tokens * 32 / t + tokens * 8 / t, 5);
        check_saved("attention, window", t, 4 * tokens * 16 / t + tokens * 8 / t, 5);
        check_saved("attention, qk-norm", t,
                    4 * tokens * 40 / t + tokens * 8 / t + 2 * tokens * 8 * 6 / t, 10);
        check_saved("attention, qwen", t,
                    2 * tokens * (16 + kv) * 6 / t + tokens * 16 / t + tokens * (16 + kv) * 7 / t,
                    10);
        check_saved("norm", t, 2 * tokens, 2);
        check_saved("norm, rms", t, tokens, 1);
        check_saved("embedding", t, 0, 0);
    }
}

static void test_saved_loss(void **state) {
    (void)state;
    for (int32_t t = 1; t <= 8; t *= 2) {
        check_saved("loss", t, 2 * 3 * 67, 2);
        check_saved("loss, smoothing", t, 2 * 3 * 67, 2);
        check_saved("head", t, 0, 0);
        check_saved("head, fused in steps", t, 2 * 3 * 67, 2);
        check_saved("head, early", t, 3 * 67 * 5 + (13 + t - 1) / t * 5, 2);
    }
}

static void test_saved_block(void **state) {
    const int64_t tokens = 3 * 67;
    (void)state;
    for (int32_t t = 1; t <= 8; t *= 2)
        check_saved("block", t,
                    2 * 2 * tokens + 4 * tokens * 24 / t + tokens * 8 / t + 2 * tokens * 40 / t +
                        3 * tokens * 24,
                    16);
}

static tpp_layer_info query(const tpp_layer *layer, int64_t batch, int64_t seq) {
    tpp_layer_info info = {0};
    info.size = sizeof info;
    assert_int_equal(tpp_layer_query(layer, batch, seq, &info), TPP_OK);
    return info;
}

/* State does not depend on the batch; what does grows linearly, attention included. */
static void test_growth(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        tpp_layer_env env = {0};
        tpp_layer *layer = NULL;
        env.size = sizeof env;
        env.blocks = 8;
        assert_int_equal(c->kind->create(&layer, &env, c->desc), TPP_OK);
        tpp_layer_info none = query(layer, 0, 0);
        tpp_layer_info small = query(layer, 1, 1024);
        tpp_layer_info twice = query(layer, 1, 2048);
        tpp_layer_info wide = query(layer, 2, 1024);
        assert_int_equal(none.state_bytes, twice.state_bytes);
        assert_int_equal(none.saved_bytes, 0);
        assert_in_range(twice.saved_bytes, small.saved_bytes, 2 * small.saved_bytes);
        assert_in_range(twice.split_bytes, small.split_bytes, 2 * small.split_bytes);
        assert_in_range(twice.scratch_bytes, small.scratch_bytes, 2 * small.scratch_bytes);
        assert_in_range(wide.saved_bytes, small.saved_bytes, 2 * small.saved_bytes);
        tpp_layer_destroy(layer);
    }
}

/* Sizes beyond 64 bits are told, not wrapped; a negative one is refused. */
static void test_overflow(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        tpp_layer_env env = {0};
        tpp_layer *layer = NULL;
        tpp_layer_info info = {0};
        env.size = sizeof env;
        info.size = sizeof info;
        assert_int_equal(c->kind->create(&layer, &env, c->desc), TPP_OK);
        assert_int_equal(tpp_layer_query(layer, INT64_MAX, 2, &info), TPP_ERR_OVERFLOW);
        assert_int_equal(tpp_layer_query(layer, INT64_MAX / 2, 2, &info), TPP_ERR_OVERFLOW);
        assert_int_equal(tpp_layer_query(layer, (int64_t)1 << 40, (int64_t)1 << 40, &info),
                         TPP_ERR_OVERFLOW);
        assert_int_equal(tpp_layer_query(layer, -1, 2, &info), TPP_ERR_INVALID);
        assert_says("-1");
        assert_int_equal(tpp_layer_query(layer, 2, -3, &info), TPP_ERR_INVALID);
        assert_says("-3");
        tpp_layer_destroy(layer);
    }
}

/* Layers as wide as descriptors allow, for as many tokens as calls allow. */
static void test_overflow_wide(void **state) {
    static const tpp_mlp_desc mlp = {sizeof mlp, 0, 1, INT32_MAX, 0, 0, 0, 0};
    static const tpp_attention_desc attention = {
        .size = sizeof attention, .hidden = 1, .heads = 1, .head_cols = INT32_MAX / 3};
    static const tpp_norm_desc norm = {sizeof norm, 0, INT32_MAX, 0, 0, 0};
    static const tpp_mlp_desc gated = {sizeof gated, 0, 1, INT32_MAX / 2, TPP_ACT_SWIGLU, 0, 0, 0};
    static const tpp_mlp_desc separate = {
        sizeof separate, TPP_MLP_SEPARATE_GATE, 1, INT32_MAX, TPP_ACT_GEGLU, 0, 0, 0};
    static const tp_case cases[] = {{"mlp", &tp_kind_mlp, &mlp},
                                    {"mlp, gated", &tp_kind_mlp, &gated},
                                    {"mlp, separate", &tp_kind_mlp, &separate},
                                    {"attention", &tp_kind_attention, &attention}};
    tpp_layer_info info = {0};
    (void)state;
    info.size = sizeof info;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tpp_layer_env env = {0};
        tpp_layer *layer = NULL;
        env.size = sizeof env;
        env.dtype = TPP_F64;
        assert_int_equal(cases[i].kind->create(&layer, &env, cases[i].desc), TPP_OK);
        tpp_status status = tpp_layer_query(layer, 1, INT32_MAX, &info);
        if (status != TPP_ERR_OVERFLOW)
            fail_msg("%s: %s", cases[i].name, tpp_status_name(status));
        tpp_layer_destroy(layer);
    }
    tpp_layer_env env = {0};
    tpp_layer *layer = NULL;
    env.size = sizeof env;
    assert_int_equal(tpp_norm_create(&layer, &env, &norm), TPP_OK);
    assert_int_equal(tpp_layer_query(layer, 1, INT32_MAX, &info), TPP_OK);
    assert_true(info.saved_bytes >= 2 * 4 * (int64_t)INT32_MAX);
    tpp_layer_destroy(layer);
}

/* Parameters that do not fit into 64 bits: typed, at creation, in both types. */
static void test_huge_parameters(void **state) {
    static const tpp_linear_desc linear = {sizeof linear, 0, TPP_LINEAR_COLUMN, 0, INT32_MAX,
                                           INT32_MAX,     0};
    static const tpp_mlp_desc mlp = {sizeof mlp, 0, INT32_MAX, INT32_MAX, 0, 0, 0, 0};
    static const tpp_embedding_desc embedding = {sizeof embedding, 0,         INT32_MAX,
                                                 INT32_MAX,        INT32_MAX, 0};
    static const tpp_attention_desc attention = {
        .size = sizeof attention, .hidden = INT32_MAX, .heads = INT32_MAX, .head_cols = INT32_MAX};
    static const tp_case cases[] = {{"linear", &tp_kind_linear, &linear},
                                    {"mlp", &tp_kind_mlp, &mlp},
                                    {"embedding", &tp_kind_embedding, &embedding},
                                    {"attention", &tp_kind_attention, &attention}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tpp_layer_env env = {0};
        tpp_layer *layer = NULL;
        env.size = sizeof env;
        env.dtype = TPP_F64;
        tpp_status status = cases[i].kind->create(&layer, &env, cases[i].desc);
        if (status != TPP_ERR_OVERFLOW && status != TPP_ERR_INVALID)
            fail_msg("%s with 2^62 weights: %s", cases[i].name, tpp_status_name(status));
        assert_null(layer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_small),     cmocka_unit_test(test_saved),
        cmocka_unit_test(test_saved_loss),    cmocka_unit_test(test_saved_block),
        cmocka_unit_test(test_growth),        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_overflow_wide), cmocka_unit_test(test_huge_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
