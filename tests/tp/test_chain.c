/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Chains: what fits and what does not, who owns the layers, chains of one and of chains; and
 * creation under an allocator that fails at every point, for every kind. */
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

static tpp_layer_env env_of(void) {
    tpp_layer_env env = {0};
    env.size = sizeof env;
    return env;
}

static tpp_layer *norm(const tpp_layer_env *env, int64_t cols) {
    tpp_norm_desc d = {sizeof d, 0, cols, 0, 0, 0};
    tpp_layer *layer = NULL;
    assert_int_equal(tpp_norm_create(&layer, env, &d), TPP_OK);
    return layer;
}

static tpp_layer *loss(const tpp_layer_env *env, int64_t vocab) {
    tpp_loss_desc d = {.size = sizeof d, .vocab = vocab};
    tpp_layer *layer = NULL;
    assert_int_equal(tpp_loss_create(&layer, env, &d), TPP_OK);
    return layer;
}

static tpp_layer *embedding(const tpp_layer_env *env, int64_t hidden) {
    tpp_embedding_desc d = {sizeof d, 0, 5, hidden, 0, 0};
    tpp_layer *layer = NULL;
    assert_int_equal(tpp_embedding_create(&layer, env, &d), TPP_OK);
    return layer;
}

/* Refused, and the layers still are the caller's. */
static void refuse(const tpp_layer_env *env, tpp_layer *a, tpp_layer *b, const char *says) {
    tpp_layer *layers[] = {a, b};
    tpp_layer *chain = NULL;
    tpp_message_set("");
    assert_int_equal(tpp_chain_create(&chain, env, layers, 2), TPP_ERR_INVALID);
    assert_null(chain);
    assert_says(says);
    tpp_layer_destroy(a);
    tpp_layer_destroy(b);
}

static void test_fit(void **state) {
    tpp_layer_env env = env_of();
    tpp_layer_env wide = env_of();
    tpp_layer_env fixed = env_of();
    tpp_layer *chain = NULL;
    tpp_layer *none[] = {NULL};
    (void)state;
    wide.dtype = TPP_F64;
    fixed.blocks = 2;
    refuse(&env, norm(&env, 4), norm(&env, 5), "layers[1]");
    refuse(&env, norm(&env, 4), embedding(&env, 4), "layers[1]");
    refuse(&env, loss(&env, 4), norm(&env, 1), "layers[0]");
    refuse(&env, norm(&env, 4), norm(&wide, 4), "layers[1]");
    refuse(&wide, norm(&env, 4), norm(&env, 4), "layers[0]");
    refuse(&env, norm(&env, 4), norm(&fixed, 4), "layers[1]");
    refuse(&env, norm(&env, 4), NULL, "layers[1]");
    refuse(&env, NULL, norm(&env, 4), "layers[0]");
    tpp_layer *one = norm(&env, 4);
    assert_int_equal(tpp_chain_create(&chain, &env, &one, 0), TPP_ERR_INVALID);
    assert_int_equal(tpp_chain_create(&chain, &env, &one, -1), TPP_ERR_INVALID);
    assert_int_equal(tpp_chain_create(&chain, &env, NULL, 1), TPP_ERR_INVALID);
    assert_int_equal(tpp_chain_create(&chain, NULL, &one, 1), TPP_ERR_INVALID);
    assert_int_equal(tpp_chain_create(NULL, &env, &one, 1), TPP_ERR_INVALID);
    assert_int_equal(tpp_chain_create(NULL, &env, none, 1), TPP_ERR_INVALID);
    tpp_layer_destroy(one);
}

/* A comm of the chain other than the layers'. */
static void test_other_comm(void **state) {
    tpp_layer_env two = env_of();
    tpp_layer_env other = env_of();
    (void)state;
    two.comm = tp_comm_stub(0, 2);
    other.comm = tp_comm_stub(1, 2);
    refuse(&two, norm(&two, 4), norm(&other, 4), "layers[1]");
    refuse(&other, norm(&two, 4), norm(&two, 4), "layers[0]");
    tpp_comm_destroy(two.comm);
    tpp_comm_destroy(other.comm);
}

/* A case wrapped in a chain of a chain gives what the layer alone gives, bit for bit. */
static const tp_case *inside;

static tpp_status nested_create(tpp_layer **out, const tpp_layer_env *env, const void *desc) {
    tpp_layer *layer = NULL;
    tpp_layer *inner = NULL;
    tpp_status status = inside->kind->create(&layer, env, desc);
    if (status < 0)
        return status;
    status = tpp_chain_create(&inner, env, &layer, 1);
    if (status < 0) {
        tpp_layer_destroy(layer);
        return status;
    }
    status = tpp_chain_create(out, env, &inner, 1);
    if (status < 0)
        tpp_layer_destroy(inner);
    return status;
}

static void test_nested(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        tp_kind kind = *c->kind;
        const tp_case nested = {c->name, &kind, c->desc};
        tp_full *full = tp_full_inputs(c, 2, 5, 5);
        inside = c;
        kind.create = nested_create;
        for (int i = 0; i < 4; i++) {
            tp_setup setup = {0};
            setup.ranks = i % 2 ? 2 : 1;
            setup.dtype = TPP_F32;
            setup.halves = i >= 2;
            tp_result *want = tp_run(c, full, &setup);
            tp_result *got = tp_run(&nested, full, &setup);
            tp_same(c->name, want, got);
            tp_result_free(want);
            tp_result_free(got);
        }
        tp_full_free(full);
    }
}

/* Prefixes: env.name in front of every name, also of a block's parts. */
static void test_names(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        tp_full *full = tp_full_inputs(c, 1, 2, 5);
        tp_setup setup = {0};
        setup.ranks = 1;
        setup.dtype = TPP_F32;
        setup.name = "model.layers.31.";
        if (c->kind != &tp_kind_gpt) /* its parts have their own names */
            tp_result_free(tp_run(c, full, &setup));
        tp_full_free(full);
    }
}

/* Every allocation of every creation fails once: typed, nothing kept, nothing leaked. */
static void check_failing(const tp_case *c) {
    tp_counting counting;
    tpp_layer_env env = env_of();
    tpp_layer *layer = NULL;
    tp_counting_init(&counting);
    env.allocator = &counting.allocator;
    env.name = "deep.";
    assert_int_equal(c->kind->create(&layer, &env, c->desc), TPP_OK);
    int64_t calls = counting.calls;
    assert_true(calls >= 1);
    tpp_layer_destroy(layer);
    assert_int_equal(counting.live, 0);
    assert_int_equal(counting.live_bytes, 0);
    for (int64_t n = 1; n <= calls; n++) {
        tp_counting_init(&counting);
        counting.fail_at = n;
        layer = NULL;
        tpp_message_set("");
        assert_int_equal(c->kind->create(&layer, &env, c->desc), TPP_ERR_NO_MEMORY);
        assert_null(layer);
        assert_true(strlen(tpp_message()) > 0);
        assert_int_equal(counting.live, 0);
        assert_int_equal(counting.live_bytes, 0);
        assert_int_equal(counting.wrong, 0);
    }
}

static void test_failing(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++)
        check_failing(c);
}

/* No call but create allocates. */
static void test_no_allocation(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        tp_counting counting;
        tpp_layer_env env = env_of();
        tpp_layer *layer = NULL;
        tpp_layer_info info = {0};
        tpp_param_info p = {0};
        tp_counting_init(&counting);
        env.allocator = &counting.allocator;
        assert_int_equal(c->kind->create(&layer, &env, c->desc), TPP_OK);
        int64_t calls = counting.calls;
        info.size = sizeof info;
        p.size = sizeof p;
        assert_int_equal(tpp_layer_query(layer, 2, 3, &info), TPP_OK);
        if (info.params > 0)
            assert_int_equal(tpp_layer_param(layer, 0, &p), TPP_OK);
        tp_memory params = tp_memory_new(info.state_bytes, TP_NAN);
        assert_int_equal(tpp_layer_init(layer, params.data, 1), TPP_OK);
        assert_int_equal(counting.calls, calls);
        tp_memory_free(&params);
        tpp_layer_destroy(layer);
        assert_int_equal(counting.live, 0);
        assert_int_equal(counting.wrong, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fit),     cmocka_unit_test(test_other_comm),
        cmocka_unit_test(test_nested),  cmocka_unit_test(test_names),
        cmocka_unit_test(test_failing), cmocka_unit_test(test_no_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
