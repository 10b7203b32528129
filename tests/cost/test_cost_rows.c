/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Random models, parts and shapes, of all sizes, some that break a rule: as a test they are asked
 * about and must not contradict themselves; `test_cost_rows COUNT SEED` writes what was drawn and
 * what was told as rows of int64, which test_cost_bigints.py counts again. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tpp/cost_comm.h>

static uint64_t seed = 1;

static uint64_t draw(void) { /* SplitMix64 */
    uint64_t z = seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int32_t below(int32_t n) {
    return (int32_t)(draw() % (uint64_t)n);
}

/* 0 .. 2^bits - 1, all lengths alike. */
static int64_t bits(int32_t most) {
    return (int64_t)(draw() & (((uint64_t)1 << below(most + 1)) - 1));
}

static int64_t size(int32_t most) {
    return 1 + bits(most);
}

static int32_t size32(int32_t most) {
    return (int32_t)size(most);
}

typedef struct row {
    tpp_cost_model model;
    tpp_cost_part part;
    tpp_cost_bytes bytes;
    tpp_cost_shape shape;
    int64_t dp, cache_batch, cache_seq;
    int32_t zero, own_bytes, mask, phase, cache_layers, cache_bytes;
} row;

/* Mostly a multiple of t. */
static int64_t width(int64_t t, int32_t most) {
    return below(20) == 0 ? size(most) : t * size(most);
}

static void draw_heads(tpp_cost_model *m, int32_t t, int32_t length) {
    m->heads = t * size32(length < 7 ? length : 7);
    int32_t groups = 1 << below(5);
    m->kv_heads = below(3) == 0 ? 0 : m->heads % groups == 0 ? m->heads / groups : size32(5);
    if (below(2)) {
        m->head_cols = size32(10);
        m->hidden = size(length);
    } else {
        m->hidden =
            below(30) == 0 ? size(length) : m->heads * size(length > 20 || length < 8 ? length : 8);
    }
}

static void draw_experts(tpp_cost_model *m, int32_t t, int32_t length) {
    if (below(2))
        return;
    m->experts = size32(8);
    m->experts_per_token = 1 + below(m->experts + below(20) / 19);
    m->dense_layers = below(3) == 0 ? below(m->layers + 1) : 0;
    m->expert_ffn = below(2) ? width(t, length) : 0;
    m->shared_ffn = below(2) ? width(t, length) : 0;
}

static void draw_model(tpp_cost_model *m, int32_t t) {
    int32_t length = below(10) == 0 ? 45 : 4 + below(4) * 5; /* tiny .. real, or absurd */
    *m = (tpp_cost_model){.size = sizeof *m, .flags = (uint32_t)below(1024)};
    draw_heads(m, t, length);
    m->vocab = size(length + 4);
    m->ffn = below(3) == 0 ? 0 : width(t, length + 2);
    m->positions = below(2) ? size(length) : 0;
    m->layers = size32(8);
    m->window = below(3) == 0 ? size(length) : 0;
    m->window_first = below(3) == 0 ? below(m->layers + 2) : 0;
    draw_experts(m, t, length);
    if (m->shared_ffn > 0 ? below(2) : below(50) == 0)
        m->flags |= TPP_COST_SHARED_GATE;
}

static void draw_part(tpp_cost_part *p, const tpp_cost_model *m, int32_t t) {
    *p = (tpp_cost_part){.size = sizeof *p, .flags = (uint32_t)below(4), .tp = t};
    p->layers = below(m->layers + 1);
    p->dense_layers = m->dense_layers > 0 ? below(p->layers + 1) : 0;
    p->vocab_multiple = below(2) ? 0 : below(2) ? 128 : size32(12);
}

static void draw_shape(tpp_cost_shape *s, int32_t t) {
    *s = (tpp_cost_shape){.size = sizeof *s, .flags = (uint32_t)below(32), .tp = t};
    s->cp = below(2) ? below(2) : size32(4);
    s->batch = size(below(20) == 0 ? 40 : 10);
    s->seq = width(s->cp > 0 ? s->cp : 1, below(20) == 0 ? 40 : 17);
    s->recompute = below(3);
    s->element_bytes = below(3) == 0 ? 1 << below(4) : 0;
}

static row draw_row(void) {
    row r;
    int32_t t = below(3) == 0 ? below(2) : size32(6);
    draw_model(&r.model, t > 0 ? t : 1);
    draw_part(&r.part, &r.model, t);
    draw_shape(&r.shape, t);
    r.own_bytes = below(2);
    r.bytes = (tpp_cost_bytes){.size = sizeof r.bytes};
    int32_t *each[] = {&r.bytes.weight, &r.bytes.grad,     &r.bytes.grad_copy,
                       &r.bytes.master, &r.bytes.momentum, &r.bytes.variance};
    for (int32_t i = 0; i < 6; i++)
        *each[i] = below(2) ? 1 << below(4) : 0;
    r.dp = size(13);
    r.zero = below(4);
    r.mask = below(3);
    r.phase = 1 + below(6);
    r.cache_layers = below(r.model.layers + 1);
    r.cache_batch = bits(below(20) == 0 ? 62 : 10);
    r.cache_seq = bits(20);
    r.cache_bytes = below(3) == 0 ? 1 << below(4) : 0;
    return r;
}

/* What is told; a status before each. */
typedef struct told {
    tpp_status status[7];
    tpp_cost_params params;
    int64_t part;
    tpp_cost_flops flops;
    tpp_cost_states states;
    tpp_cost_activations activations;
    tpp_cost_traffic traffic;
    int64_t cache;
} told;

static told ask(const row *r) {
    told t = {.params = {.size = sizeof t.params},
              .flops = {.size = sizeof t.flops},
              .states = {.size = sizeof t.states},
              .activations = {.size = sizeof t.activations},
              .traffic = {.size = sizeof t.traffic}};
    const tpp_cost_bytes *bytes = r->own_bytes ? &r->bytes : NULL;
    const tpp_cost_model *m = &r->model;
    t.status[0] = tpp_cost_params_query(m, &t.params);
    t.status[1] = tpp_cost_part_params(m, &r->part, &t.part);
    t.status[2] = tpp_cost_flops_query(m, r->shape.batch, r->shape.seq, r->mask, &t.flops);
    t.status[3] = tpp_cost_states_query(m, &r->part, bytes, r->dp, r->zero, &t.states);
    t.status[4] = tpp_cost_activations_query(m, &r->shape, &t.activations);
    t.status[5] = tpp_cost_traffic_query(m, &r->shape, r->phase, &t.traffic);
    t.status[6] = tpp_cost_kv_cache(m, r->cache_layers, r->shape.tp, r->cache_batch, r->cache_seq,
                                    r->cache_bytes, &t.cache);
    return t;
}

static void put(int64_t value) {
    fwrite(&value, sizeof value, 1, stdout);
}

/* A status, and the numbers behind size and flags. */
static void put_struct(tpp_status status, const void *filled, size_t bytes) {
    put(status);
    fwrite((const char *)filled + 8, bytes - 8, 1, stdout);
}

static void put_model(const tpp_cost_model *m) {
    const int64_t values[] = {m->flags,        m->vocab,
                              m->hidden,       m->ffn,
                              m->positions,    m->window,
                              m->expert_ffn,   m->shared_ffn,
                              m->layers,       m->heads,
                              m->kv_heads,     m->head_cols,
                              m->experts,      m->experts_per_token,
                              m->dense_layers, m->window_first};
    fwrite(values, sizeof values, 1, stdout);
}

static void put_rest(const row *r) {
    const tpp_cost_bytes *b = &r->bytes;
    const int64_t values[] = {r->part.flags,
                              r->part.tp,
                              r->part.layers,
                              r->part.dense_layers,
                              r->part.vocab_multiple,
                              r->own_bytes,
                              b->weight,
                              b->grad,
                              b->grad_copy,
                              b->master,
                              b->momentum,
                              b->variance,
                              r->dp,
                              r->zero,
                              r->shape.flags,
                              r->shape.batch,
                              r->shape.seq,
                              r->shape.tp,
                              r->shape.cp,
                              r->shape.recompute,
                              r->shape.element_bytes,
                              r->mask,
                              r->phase,
                              r->cache_layers,
                              r->cache_batch,
                              r->cache_seq,
                              r->cache_bytes};
    fwrite(values, sizeof values, 1, stdout);
}

static void put_told(const told *t) {
    put_struct(t->status[0], &t->params, sizeof t->params);
    put(t->status[1]), put(t->part);
    put_struct(t->status[2], &t->flops, sizeof t->flops);
    put_struct(t->status[3], &t->states, sizeof t->states);
    put_struct(t->status[4], &t->activations, sizeof t->activations);
    put_struct(t->status[5], &t->traffic, sizeof t->traffic);
    put(t->status[6]), put(t->cache);
}

/* Operations are twice the weights and cores for each token; the whole is a part of itself. */
static void rows_do_not_contradict_themselves(void **state) {
    int32_t good = 0;
    (void)state;
    for (int32_t i = 0; i < 100000; i++) {
        row r = draw_row();
        told t = ask(&r);
        for (int32_t k = 0; k < 7; k++)
            assert_true(t.status[k] == TPP_OK || t.status[k] == TPP_ERR_INVALID ||
                        t.status[k] == TPP_ERR_OVERFLOW);
        if (t.status[0] != TPP_OK)
            continue;
        good++;
        int64_t whole = 0;
        if (t.status[2] == TPP_OK)
            assert_int_equal(t.flops.forward,
                             2 * r.shape.batch * r.shape.seq * t.params.matmul + t.flops.cores);
        r.part = (tpp_cost_part){.size = sizeof r.part, .flags = 3, .layers = r.model.layers};
        r.part.dense_layers = r.model.dense_layers;
        assert_int_equal(tpp_cost_part_params(&r.model, &r.part, &whole), TPP_OK);
        assert_int_equal(whole, t.params.total);
        assert_true(t.params.active <= t.params.total && t.params.active > 0);
    }
    assert_true(good > 60000);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_do_not_contradict_themselves)};
    if (argc != 3)
        return cmocka_run_group_tests(tests, NULL, NULL);
    seed = strtoull(argv[2], NULL, 10);
    for (int64_t count = strtoll(argv[1], NULL, 10); count > 0; count--) {
        row r = draw_row();
        told t = ask(&r);
        put_model(&r.model);
        put_rest(&r);
        put_told(&t);
    }
    return fflush(stdout) != 0;
}
