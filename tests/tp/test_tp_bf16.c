/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* bfloat16 against the unsplit reference on the same, rounded inputs. What is stored on the way is
 * rounded, each time by at most u = 2^-8 of itself. From a layer's input to its output, or to a
 * gradient, are at most three such places behind one another (first matrix, activation, second
 * matrix; K, heads, output), and a sum over 8 ranks or blocks rounds its parts and three levels of the
 * tree. Those roundings are independent, so that they stay far below their sum: BOUND u of the
 * tensor's largest entry for a layer (twice that in test_tp_random.c), BOUND_DEEP u for layers behind one another, where gradients of
 * norms are sums of large terms that cancel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/tp_run.h"

#define UNIT (1.0 / 256)
enum { BOUND = 4, BOUND_DEEP = 16 };

static const struct {
    int32_t ranks, blocks;
} splits[] = {{1, 0}, {1, 2}, {1, 8}, {2, 0}, {2, 8}, {4, 0}, {4, 4}, {4, 8}, {8, 0}, {8, 8}};

static int is_deep(const tp_case *c) {
    return c->kind == &tp_kind_block || c->kind == &tp_kind_gpt;
}

static void check_shape(const tp_case *c, int64_t batch, int64_t seq) {
    tp_full *full = tp_full_inputs(c, batch, seq, (uint64_t)(100 * batch + seq));
    tp_full_round(full);
    tp_full_answer(c, full);
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        tp_setup setup = {0};
        setup.ranks = splits[i].ranks;
        setup.blocks = splits[i].blocks;
        setup.dtype = TPP_BF16;
        tp_result *result = tp_run(c, full, &setup);
        tp_check(result, full, (is_deep(c) ? BOUND_DEEP : BOUND) * UNIT);
        tp_result_free(result);
    }
    tp_full_free(full);
}

static void test_kind(void **state) {
    const tp_case *c = *state;
    check_shape(c, 1, 1);
    check_shape(c, 2, 1);
    check_shape(c, 3, 5);
    check_shape(c, 1, 67);
}

/* Products of several tiles: widths and tokens that are no multiple of a tile, and gradients that
 * sum over more tokens than a tile has. A product of bfloat16 is rounded once, whatever its inner
 * size is: in float the reference's result, then the nearest bfloat16, or one beside it where the
 * float lies between two. */
static void test_large_product(void **state) {
    static const tpp_linear_desc column = {sizeof column, 0, TPP_LINEAR_COLUMN, 0, 301, 264, 0};
    static const tp_case c = {"large", &tp_kind_linear, &column};
    tp_full *full = tp_full_inputs(&c, 1, 140, 5);
    (void)state;
    tp_full_round(full);
    tp_full_answer(&c, full);
    tp_setup setup = {.ranks = 1, .dtype = TPP_BF16};
    tp_result *r = tp_run(&c, full, &setup);
    assert_close_each("out", TPP_BF16, r->out, CLOSE_QUAD, full->out, 140 * 264, 1.02 * UNIT, 0.01);
    assert_close_each("grad_in", TPP_BF16, r->grad_in, CLOSE_QUAD, full->grad_in, 140 * 301,
                      1.02 * UNIT, 0.01);
    assert_close("weight", TPP_F32, r->grad[0], CLOSE_QUAD, full->param[0].grad, 301 * 264, 1e-6);
    assert_close("bias", TPP_F32, r->grad[1], CLOSE_QUAD, full->param[1].grad, 264, 1e-6);
    tp_result_free(r);
    tp_full_free(full);
}

/* Gradients of many micro-batches add up in float32: 256 times the same is not lost in rounding, as
 * it would be in bfloat16 from the 257th on. */
static void test_gradients_add_up(void **state) {
    const tp_case *c = tp_case_find("mlp");
    tp_full *full = tp_full_inputs(c, 2, 7, 22);
    (void)state;
    tp_setup setup = {.ranks = 2, .dtype = TPP_BF16};
    tp_result *one = tp_run(c, full, &setup);
    setup.backwards = 512;
    tp_result *many = tp_run(c, full, &setup);
    for (int32_t n = 0; n < one->params; n++) {
        for (int64_t i = 0; i < one->count[n]; i++)
            ((float *)one->grad[n])[i] *= 512;
        assert_close(one->name[n], TPP_F32, many->grad[n], TPP_F32, one->grad[n], one->count[n],
                     1e-5);
    }
    tp_result_free(one);
    tp_result_free(many);
    tp_full_free(full);
}

/* saved_bytes of [3, 67]: 2 bytes for each of `elements`, 4 for each statistic; and what a state
 * needs: 2 for a parameter, 4 for its gradient and for each of m, v and the rest. */
static void check_memory(const char *name, int32_t ranks, int64_t elements, int64_t statistics,
                         int pieces) {
    const tp_case *c = tp_case_find(name);
    tpp_comm *comm = ranks > 1 ? tp_comm_stub(0, ranks) : NULL;
    tpp_layer_env env = {.size = sizeof env, .comm = comm, .dtype = TPP_BF16};
    tpp_layer *layer = NULL;
    tpp_layer_info info = {.size = sizeof info};
    assert_int_equal(c->kind->create(&layer, &env, c->desc), TPP_OK);
    assert_int_equal(tpp_layer_query(layer, 3, 67, &info), TPP_OK);
    int64_t least = 2 * elements + 4 * statistics, params = 0;
    assert_in_range(info.saved_bytes, least, least + 64 * pieces);
    for (int32_t i = 0; i < info.params; i++) {
        tpp_param_info p = {.size = sizeof p};
        assert_int_equal(tpp_layer_param(layer, i, &p), TPP_OK);
        params += p.local_rows * p.local_cols;
    }
    assert_in_range(info.state_bytes, 2 * params, 2 * params + 64 * info.params);
    assert_in_range(info.grad_bytes, 4 * params, 4 * params + 64 * info.params);
    assert_int_equal(info.moments_bytes, 3 * info.grad_bytes);
    tpp_layer_destroy(layer);
    tpp_comm_destroy(comm);
}

static void test_memory(void **state) {
    const int64_t tokens = 3 * 67;
    (void)state;
    for (int32_t t = 1; t <= 8; t *= 2) {
        check_memory("linear row", t, 0, 0, 0);
        check_memory("mlp", t, 2 * tokens * 40 / t, 0, 2);
        check_memory("mlp, swiglu, separate", t, 3 * tokens * 40 / t, 0, 2);
        check_memory("attention", t, 4 * tokens * 24 / t, tokens * 8 / t, 5);
        check_memory("norm", t, 0, 2 * tokens, 2);
        check_memory("loss", t, 0, 2 * tokens, 2);
        check_memory("block", t, 4 * tokens * 24 / t + 2 * tokens * 40 / t + 3 * tokens * 24,
                     4 * tokens + tokens * 8 / t, 16);
    }
}

int main(void) {
    struct CMUnitTest tests[128] = {{0}};
    size_t count = 0;
    for (const tp_case *c = tp_cases; c->name; c++)
        tests[count++] = (struct CMUnitTest){c->name, test_kind, NULL, NULL, (void *)(size_t)c};
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_large_product);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_gradients_add_up);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_memory);
    return _cmocka_run_group_tests("test_tp_bf16", tests, count, NULL, NULL);
}
