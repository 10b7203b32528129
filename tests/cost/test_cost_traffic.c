/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Calls and elements are those that the layers tell of themselves (which test_layer_cost holds
 * against traced comms), for blocks, embedding and head under all ways to split them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/sched_support.h"
#include "support/tp_ranks.h"

#include <tpp/tpp.h>

static uint64_t seed = 11;

static int32_t draw(int32_t values) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((seed >> 33) % (uint64_t)values);
}

typedef struct drawn {
    tpp_cost_model model;
    tpp_cost_shape shape;
    tpp_layer_env env;
    tpp_block_desc block;
} drawn;

static drawn draw_case(void) {
    static const int32_t norms[] = {0, TPP_BLOCK_PARALLEL,
                                    TPP_BLOCK_PARALLEL | TPP_BLOCK_TWO_NORMS};
    static const int32_t flags[] = {0, TPP_COST_PARALLEL_BLOCK,
                                    TPP_COST_PARALLEL_BLOCK | TPP_COST_TWO_NORMS};
    const int32_t tp = 1 << draw(4), cp = 1 << draw(3), kv = tp * cp << draw(2);
    drawn d = {.model = {.size = sizeof d.model},
               .shape = {.size = sizeof d.shape},
               .env = {.size = sizeof d.env, .dtype = TPP_BF16},
               .block = {.size = sizeof d.block}};
    const int32_t kind = draw(3), sequence = draw(2), exchange = draw(2);
    d.model.heads = kv * (1 + draw(3));
    d.model.kv_heads = exchange || draw(2) ? kv : tp > 1 ? tp / 2 : 1;
    if (d.model.heads % d.model.kv_heads != 0)
        d.model.kv_heads = d.model.heads;
    d.model.head_cols = 2 + 2 * draw(5), d.model.hidden = 1 + draw(50);
    d.model.ffn = tp * (1 + draw(20)), d.model.vocab = 1 + draw(100), d.model.layers = 1;
    d.model.flags = (uint32_t)flags[kind];
    d.shape.flags = (sequence ? TPP_COST_SEQUENCE : 0) | (exchange ? TPP_COST_EXCHANGE : 0);
    d.shape.batch = 1 + draw(3), d.shape.seq = 2 * cp * (1 + draw(20));
    d.shape.tp = tp, d.shape.cp = cp;
    d.shape.recompute = kind == 0 ? draw(3) : 2 * draw(2);
    d.env.flags = sequence ? TPP_ENV_SEQUENCE : 0;
    d.env.comm = tp > 1 ? tp_comm_stub(0, tp) : NULL;
    d.env.context = cp > 1 ? tp_comm_stub(0, cp) : NULL;
    d.block.flags = (uint32_t)norms[kind];
    d.block.hidden = d.model.hidden, d.block.ffn = d.model.ffn, d.block.heads = d.model.heads;
    d.block.kv_heads = d.model.kv_heads, d.block.head_cols = d.model.head_cols;
    d.block.recompute = d.shape.recompute;
    d.block.context = exchange ? TPP_CONTEXT_ALL_TO_ALL : TPP_CONTEXT_RING;
    return d;
}

static void same(const drawn *d, const tpp_layer *layer, tpp_cost_call call, tpp_cost_phase phase) {
    tpp_layer_cost told = {.size = sizeof told};
    tpp_cost_traffic t = {.size = sizeof t};
    const tpp_comm_count *c = told.comm, *context = told.context;
    assert_ok(tpp_layer_cost_query(layer, call, d->shape.batch, d->shape.seq / d->shape.cp, &told));
    assert_ok(tpp_cost_traffic_query(&d->model, &d->shape, phase, &t));
    assert_int_equal(t.reduce_calls, c[TPP_COMM_ALL_REDUCE].calls);
    assert_int_equal(t.reduce, c[TPP_COMM_ALL_REDUCE].elements);
    assert_int_equal(t.gather_calls, c[TPP_COMM_ALL_GATHER].calls);
    assert_int_equal(t.gather, c[TPP_COMM_ALL_GATHER].elements * d->shape.tp);
    assert_int_equal(t.scatter_calls, c[TPP_COMM_REDUCE_SCATTER].calls);
    assert_int_equal(t.scatter, c[TPP_COMM_REDUCE_SCATTER].elements * d->shape.tp);
    assert_int_equal(t.context_calls, context[TPP_COMM_SEND].calls);
    assert_int_equal(t.context, context[TPP_COMM_SEND].elements);
}

static void both(const drawn *d, tpp_layer *layer, tpp_cost_phase forward) {
    same(d, layer, TPP_COST_FORWARD, forward);
    same(d, layer, TPP_COST_BACKWARD, forward + 1);
    tpp_layer_destroy(layer);
}

static void layers_say_the_same(void **state) {
    (void)state;
    for (int32_t i = 0; i < 3000; i++) {
        drawn d = draw_case();
        const tpp_embedding_desc embedding = {
            .size = sizeof embedding, .vocab = d.model.vocab, .hidden = d.model.hidden};
        const tpp_loss_desc loss = {.size = sizeof loss, .vocab = d.model.vocab};
        const tpp_head_desc head = {
            .size = sizeof head, .hidden = d.model.hidden, .vocab = d.model.vocab, .loss = &loss};
        tpp_layer *layer = NULL;
        assert_ok(tpp_block_create(&layer, &d.env, &d.block));
        both(&d, layer, TPP_COST_LAYER_FORWARD);
        tpp_comm_destroy(d.env.context); /* embedding and head do not speak to it */
        d.env.context = NULL;
        d.shape.seq /= d.shape.cp;
        d.shape.cp = 1;
        assert_ok(tpp_embedding_create(&layer, &d.env, &embedding));
        both(&d, layer, TPP_COST_EMBEDDING_FORWARD);
        assert_ok(tpp_head_create(&layer, &d.env, &head));
        both(&d, layer, TPP_COST_HEAD_FORWARD);
        tpp_comm_destroy(d.env.comm);
    }
}

/* One layer of h = 8,192, T = 4,096 on 8 ranks: rings of 2 all-reduces send 235 MB; recomputation
 * repeats them but for the last. */
static void one_layer(void **state) {
    tpp_cost_model m = {.size = sizeof m, .vocab = 1, .hidden = 8192, .layers = 1, .heads = 64};
    tpp_cost_shape shape = {.size = sizeof shape, .batch = 1, .seq = 4096, .tp = 8};
    tpp_cost_traffic t = {.size = sizeof t};
    (void)state;
    assert_ok(tpp_cost_traffic_query(&m, &shape, TPP_COST_LAYER_FORWARD, &t));
    assert_int_equal(t.reduce, 2 * 4096 * 8192);
    assert_int_equal((2 * t.reduce * 7 / 8 * 2 + 500000) / 1000000, 235);
    int64_t forward = t.reduce; /* Narayanan et al., section 3.2: 8 b s h (t - 1) / t both ways */
    assert_ok(tpp_cost_traffic_query(&m, &shape, TPP_COST_LAYER_BACKWARD, &t));
    assert_int_equal(2 * (forward + t.reduce) * 7 / 8, 8 * (int64_t)4096 * 8192 * 7 / 8);
    shape.recompute = TPP_RECOMPUTE_FULL;
    assert_ok(tpp_cost_traffic_query(&m, &shape, TPP_COST_LAYER_BACKWARD, &t));
    assert_int_equal(t.reduce_calls, 3);
}

/* The vocabulary-parallel cross-entropy says 3 numbers a token, not V. */
static void the_loss_is_small(void **state) {
    tpp_cost_model m = {.size = sizeof m, .vocab = 50257, .hidden = 8, .layers = 1, .heads = 4};
    tpp_cost_shape shape = {.size = sizeof shape, .batch = 2, .seq = 10, .tp = 4};
    tpp_cost_traffic t = {.size = sizeof t};
    (void)state;
    assert_ok(tpp_cost_traffic_query(&m, &shape, TPP_COST_HEAD_FORWARD, &t));
    assert_int_equal(t.reduce, 3 * 20);
    assert_int_equal(t.reduce_calls, 2);
}

/* ZeRO-3 of 70B on 8 x 8 ranks: 45.9 GB a micro-batch; ZeRO-1 on 2 x 32: 4.4 GB a step. */
static void data_parallel(void **state) {
    double n;
    (void)state;
    assert_ok(tpp_cost_data_volume(8750000000, 8, 3, 1, &n));
    assert_true(2 * n > 45.85e9 && 2 * n < 45.95e9);
    assert_ok(tpp_cost_data_volume(2187500000, 2, 1, 1, &n));
    assert_true(2 * n == 4.375e9);
    assert_ok(tpp_cost_data_volume(1000, 4, 2, 3, &n));
    assert_true(n == 0.75 * 4000);
    assert_ok(tpp_cost_data_volume(1000, 1, 3, 3, &n));
    assert_true(n == 0);
    assert_fails(tpp_cost_data_volume(-1, 1, 3, 3, &n), TPP_ERR_INVALID, "params = -1");
    assert_fails(tpp_cost_data_volume(1, 0, 3, 3, &n), TPP_ERR_INVALID, "dp = 0");
    assert_fails(tpp_cost_data_volume(1, 1, 4, 3, &n), TPP_ERR_INVALID, "zero = 4");
    assert_fails(tpp_cost_data_volume(1, 1, 3, 0, &n), TPP_ERR_INVALID, "reductions = 0");
    assert_fails(tpp_cost_data_volume(1, 1, 3, 1, NULL), TPP_ERR_INVALID, "out is NULL");
}

static void refused(void **state) {
    tpp_cost_model m = {.size = sizeof m, .vocab = 10, .hidden = 16, .layers = 3, .heads = 4};
    tpp_cost_traffic t = {.size = sizeof t};
    tpp_cost_shape s = {.size = sizeof s, .batch = 1, .seq = 6, .tp = 2, .cp = 3};
    (void)state;
    assert_fails(tpp_cost_traffic_query(&m, &s, 0, &t), TPP_ERR_INVALID, "phase = 0");
    assert_fails(tpp_cost_traffic_query(&m, &s, 7, &t), TPP_ERR_INVALID, "accepted: 1 .. 6");
    assert_fails(tpp_cost_traffic_query(&m, &s, 1, NULL), TPP_ERR_INVALID, "out is NULL");
    s.flags = TPP_COST_EXCHANGE;
    assert_fails(tpp_cost_traffic_query(&m, &s, 1, &t), TPP_ERR_INVALID,
                 "shape.cp = 3 does not divide the 2 K/V heads of a rank");
    s.tp = 5;
    assert_fails(tpp_cost_traffic_query(&m, &s, 1, &t), TPP_ERR_INVALID, "shape.tp = 5");
    s.tp = 2, s.cp = 1, s.batch = INT64_MAX / 100;
    assert_fails(tpp_cost_traffic_query(&m, &s, 1, &t), TPP_ERR_OVERFLOW, "collectives");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_say_the_same),
        cmocka_unit_test(one_layer),
        cmocka_unit_test(the_loss_is_small),
        cmocka_unit_test(data_parallel),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
