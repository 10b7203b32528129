/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* What layers tell of their calls is what happens: collectives as a traced comm counts them (which
 * test_tp_comm holds against the headers), products as a counting GEMM table does; and operations by
 * the formulas of papers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/tp_again.h"
#include "support/tp_run.h"

static int64_t counted; /* multiplications and additions, by all threads */

static tpp_status counting_gemm(void *ctx, const tpp_gemm_call *call) {
    const tpp_gemm_ops *blas = ctx;
    __atomic_fetch_add(&counted, 2 * call->m * call->n * call->k, __ATOMIC_RELAXED);
    return blas->gemm(blas->ctx, call);
}

static tpp_gemm_ops counting(void) {
    return (tpp_gemm_ops){sizeof(tpp_gemm_ops), 0, (void *)(size_t)tpp_gemm_builtin(TPP_GEMM_BLAS),
                          counting_gemm};
}

/* As the layer on rank 0 tells. */
static tpp_layer_cost told(const tp_case *c, const tp_full *full, const tp_setup *setup,
                           tpp_cost_call call) {
    tpp_layer_env env = {.size = sizeof env,
                         .flags = setup->flags,
                         .comm = setup->ranks > 1 ? tp_comm_stub(0, setup->ranks) : NULL,
                         .dtype = setup->dtype,
                         .blocks = setup->blocks};
    tpp_layer_cost cost = {.size = sizeof cost};
    tpp_layer *layer;
    assert_int_equal(c->kind->create(&layer, &env, c->desc), TPP_OK);
    assert_int_equal(tpp_layer_cost_query(layer, call, full->batch, full->seq, &cost), TPP_OK);
    tpp_layer_destroy(layer);
    tpp_comm_destroy(env.comm);
    return cost;
}

static void same_count(const char *what, const tpp_comm_count *got, const tpp_comm_count *want) {
    if (memcmp(got, want, sizeof *got) != 0)
        fail_msg("%s: %lld calls of %lld elements, %lld bytes; the layer tells %lld of %lld, %lld",
                 what, (long long)got->calls, (long long)got->elements, (long long)got->bytes,
                 (long long)want->calls, (long long)want->elements, (long long)want->bytes);
}

static void same_comm(const char *name, const char *call, const tp_counts *got,
                      const tpp_layer_cost *cost) {
    tpp_comm_count rest = {0};
    char what[128];
    snprintf(what, sizeof what, "%s, %s", name, call);
    same_count(what, &got->reduce, &cost->comm[TPP_COMM_ALL_REDUCE]);
    same_count(what, &got->gather, &cost->comm[TPP_COMM_ALL_GATHER]);
    same_count(what, &got->scatter, &cost->comm[TPP_COMM_REDUCE_SCATTER]);
    same_count(what, &rest, &cost->comm[TPP_COMM_BROADCAST]);
}

/* All calls of all ranks. */
static void check_run(const tp_case *c, const tp_full *full, const tp_setup *setup) {
    tpp_layer_cost forward = told(c, full, setup, TPP_COST_FORWARD);
    tpp_layer_cost back = told(c, full, setup, setup->halves ? TPP_COST_INPUT : TPP_COST_BACKWARD);
    tpp_layer_cost weight = {.size = 0}, copies = told(c, full, setup, TPP_COST_COPIES);
    if (setup->halves)
        weight = told(c, full, setup, TPP_COST_WEIGHT);
    counted = 0;
    tp_result *r = tp_run(c, full, setup);
    same_comm(c->name, "forward", &r->forward, &forward);
    same_comm(c->name, "backward", &r->backward, &back);
    same_comm(c->name, "weight half", &r->weight, &weight);
    same_comm(c->name, "copies", &r->copies, &copies);
    double flops = forward.gemm_flops + back.gemm_flops + weight.gemm_flops;
    if ((double)counted != setup->ranks * flops)
        fail_msg("%s, %d ranks: %lld operations in products; the layer tells %.0f", c->name,
                 setup->ranks, (long long)counted, setup->ranks * flops);
    tp_result_free(r);
}

static void what_happens_is_what_is_told(void **state) {
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
    tpp_gemm_ops gemm = counting();
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        const tp_case again = {c->name, &tp_kind_again, c};
        tp_full *full = tp_full_inputs(c, 2, 67, 41);
        for (size_t i = 0; i < 2 * sizeof setups / sizeof *setups; i++) {
            tp_setup setup = {.ranks = setups[i / 2].ranks,
                              .blocks = setups[i / 2].blocks,
                              .dtype = setups[i / 2].dtype,
                              .flags = setups[i / 2].flags,
                              .halves = i % 2,
                              .gemm = &gemm};
            check_run(c, full, &setup);
            check_run(&again, full, &setup);
        }
        tp_full_free(full);
    }
}

/* Each call by itself, on one rank. */
static void check_calls(const tp_case *c, const tp_full *full, const tp_setup *setup) {
    static const struct {
        tpp_cost_call call;
        tpp_status (*run)(const tpp_layer *layer, const tpp_call *call);
    } calls[] = {{TPP_COST_FORWARD, tpp_layer_forward},
                 {TPP_COST_BACKWARD, tpp_layer_backward},
                 {TPP_COST_INPUT, tpp_layer_backward_input},
                 {TPP_COST_WEIGHT, tpp_layer_backward_weight}};
    tp_rank rank;
    assert_int_equal(tp_rank_open(&rank, c, full, setup, NULL, 0), TPP_OK);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        tpp_layer_cost cost = told(c, full, setup, calls[i].call);
        counted = 0;
        assert_int_equal(calls[i].run(rank.layer, &rank.call), TPP_OK);
        if ((double)counted != cost.gemm_flops)
            fail_msg("%s, call %d: %lld operations; the layer tells %.0f", c->name, calls[i].call,
                     (long long)counted, cost.gemm_flops);
    }
    tp_rank_close(&rank);
    tp_rank_free(&rank);
}

static void each_call_by_itself(void **state) {
    tpp_gemm_ops gemm = counting();
    tp_setup setup = {.ranks = 1, .dtype = TPP_F32, .halves = 1, .gemm = &gemm};
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        const tp_case again = {c->name, &tp_kind_again, c};
        tp_full *full = tp_full_inputs(c, 2, 67, 41);
        check_calls(c, full, &setup);
        check_calls(&again, full, &setup);
        tp_full_free(full);
    }
}

/* The sum over `layers` alike layers and one head, forward and backward, in 10^12. */
typedef struct total {
    double weight, attention, full;
} total;

static void add(total *t, const tpp_layer *layer, double times) {
    for (tpp_cost_call call = TPP_COST_FORWARD; call <= TPP_COST_BACKWARD; call++) {
        tpp_layer_cost cost = {.size = sizeof cost};
        assert_int_equal(tpp_layer_cost_query(layer, call, 4, 8192, &cost), TPP_OK);
        t->weight += times * cost.weight_flops / 1e12;
        t->attention += times * cost.attention_flops / 1e12;
        t->full += times * cost.attention_flops_full / 1e12;
    }
}

/* O36: 32 layers of 4,096 columns, a gated MLP of 11,008, 32,000 words; 4 sequences of 8,192 tokens:
 * 1,299.00 for weights and 422.22 for attention, 211.11 when halved; 1,510.11 or 1,721.22 in all.
 * Recomputation asks for no more. */
static void operations_are_those_of_papers(void **state) {
    tpp_layer_env env = {.size = sizeof env};
    tpp_block_desc block = {.size = sizeof block,
                            .flags = TPP_BLOCK_NO_BIAS,
                            .hidden = 4096,
                            .ffn = 11008,
                            .heads = 32,
                            .act = TPP_ACT_SWIGLU};
    tpp_head_desc head = {.size = sizeof head, .hidden = 4096, .vocab = 32000};
    (void)state;
    for (block.recompute = 0; block.recompute <= TPP_RECOMPUTE_FULL; block.recompute++) {
        total t = {0};
        tpp_layer *layer;
        assert_int_equal(tpp_block_create(&layer, &env, &block), TPP_OK);
        add(&t, layer, 32);
        tpp_layer_destroy(layer);
        assert_int_equal(tpp_head_create(&layer, &env, &head), TPP_OK);
        add(&t, layer, 1);
        tpp_layer_destroy(layer);
        assert_near(t.weight, 1299.00, 0.005);
        assert_near(t.full / 2, 211.11, 0.005);
        assert_near(t.weight + t.full / 2, 1510.11, 0.005);
        assert_near(t.weight + t.full, 1721.22, 0.01);
        assert_near(t.attention, t.full * 8193 / (2 * 8192.0), 1e-9);
    }
}

/* Halves add up; a window of 3 of 5 tokens: 1 + 2 + 3 + 3 + 3 pairs. */
static void parts_add_up(void **state) {
    const tpp_attention_desc d = {.size = sizeof d, .hidden = 8, .heads = 2, .window = 3};
    const tp_case c = {"", &tp_kind_attention, &d};
    const tp_setup setup = {.ranks = 1, .dtype = TPP_F32};
    tp_full *full = tp_full_inputs(&c, 3, 5, 1);
    tpp_layer_cost forward = told(&c, full, &setup, TPP_COST_FORWARD);
    tpp_layer_cost back = told(&c, full, &setup, TPP_COST_BACKWARD);
    tpp_layer_cost input = told(&c, full, &setup, TPP_COST_INPUT);
    tpp_layer_cost weight = told(&c, full, &setup, TPP_COST_WEIGHT);
    (void)state;
    assert_true(forward.attention_flops == 3 * 2 * 2 * 2 * 4 * 12);
    assert_true(forward.attention_flops_full == 3 * 2 * 2 * 2 * 4 * 25);
    assert_true(forward.weight_flops == 2 * 15 * 8 * 32);
    assert_true(back.weight_flops == 2 * forward.weight_flops);
    assert_true(back.attention_flops == 2 * forward.attention_flops);
    assert_true(input.weight_flops == weight.weight_flops && weight.attention_flops == 0);
    assert_true(back.gemm_flops == input.gemm_flops + weight.gemm_flops);
    tp_full_free(full);
}

/* A head asks for three products, whether logits are made once, or again in backward, or all is done in
 * forward. */
static void heads_ask_for_the_same(void **state) {
    const char *const names[] = {"head", "head, fused", "head, early"};
    const tp_setup setup = {.ranks = 1, .dtype = TPP_F32};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const tp_case *c = tp_case_find(names[i]);
        const tpp_head_desc *d = c->desc;
        tp_full *full = tp_full_inputs(c, 3, 5, 1);
        double flops = told(c, full, &setup, TPP_COST_FORWARD).weight_flops +
                       told(c, full, &setup, TPP_COST_BACKWARD).weight_flops;
        assert_true(flops == (double)(3 * 2 * 15 * d->hidden * d->vocab));
        tp_full_free(full);
    }
}

static tpp_status bad_cost(void *ctx, const tpp_custom_call *c, tpp_cost_call kind,
                           tpp_layer_cost *out) {
    (void)ctx, (void)c, (void)kind, (void)out;
    return TPP_ERR_USER - 3;
}

static tpp_status nothing(void *ctx, const tpp_custom_call *c) {
    (void)ctx, (void)c;
    return TPP_OK;
}

static void bad_arguments_get_a_sentence(void **state) {
    const tpp_custom_ops ops = {
        .size = sizeof ops, .forward = nothing, .backward_input = nothing, .cost = bad_cost};
    tpp_layer_env env = {.size = sizeof env};
    tpp_custom_desc desc = {.size = sizeof desc, .ops = &ops, .in_cols = 1, .out_cols = 1};
    tpp_norm_desc norm = {.size = sizeof norm, .cols = 4};
    tpp_layer_cost cost = {.size = sizeof cost};
    tpp_layer *layer;
    (void)state;
    assert_int_equal(tpp_norm_create(&layer, &env, &norm), TPP_OK);
    assert_int_equal(tpp_layer_cost_query(NULL, 1, 1, 1, &cost), TPP_ERR_INVALID);
    assert_int_equal(tpp_layer_cost_query(layer, 0, 1, 1, &cost), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "call = 0"));
    assert_int_equal(tpp_layer_cost_query(layer, 7, 1, 1, &cost), TPP_ERR_INVALID);
    assert_int_equal(tpp_layer_cost_query(layer, 1, -1, 1, &cost), TPP_ERR_INVALID);
    assert_int_equal(tpp_layer_cost_query(layer, 1, 1, 1, NULL), TPP_ERR_INVALID);
    tpp_layer_destroy(layer);
    assert_int_equal(tpp_custom_create(&layer, &env, &desc), TPP_OK);
    assert_int_equal(tpp_layer_cost_query(layer, 1, 1, 1, &cost), TPP_ERR_USER - 3);
    assert_non_null(strstr(tpp_message(), "cost of the custom layer"));
    assert_int_equal(tpp_layer_cost_query(layer, 1, 0, 1, &cost), TPP_OK);
    tpp_layer_destroy(layer);
    tpp_mlp_desc mlp = {.size = sizeof mlp, .hidden = INT32_MAX, .ffn = 2};
    env.comm = tp_comm_stub(0, 2);
    env.dtype = TPP_F64;
    assert_int_equal(tpp_mlp_create(&layer, &env, &mlp), TPP_OK);
    assert_int_equal(tpp_layer_cost_query(layer, 1, 1, INT32_MAX, &cost), TPP_ERR_OVERFLOW);
    tpp_layer_destroy(layer);
    tpp_comm_destroy(env.comm);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_happens_is_what_is_told),
        cmocka_unit_test(each_call_by_itself),
        cmocka_unit_test(operations_are_those_of_papers),
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(heads_ask_for_the_same),
        cmocka_unit_test(bad_arguments_get_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
