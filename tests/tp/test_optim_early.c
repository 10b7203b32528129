/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* An AdamW step in advance: kept, it has the bits of the plain step; taken back, it leaves those from
 * before. The truth are whole steps of tpp_layer_adamw, and copies of the memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/tp_run.h"

/* A layer on one rank, with a second state that takes plain steps. */
typedef struct states {
    tp_full *full;
    tp_setup setup;
    tp_rank r;
    tp_memory moments, undo;
    tp_memory plain_params, plain_moments;
} states;

static tp_memory copy_of(const tp_memory *memory) {
    tp_memory copy = tp_memory_new(memory->bytes, TP_ZERO);
    memcpy(copy.data, memory->data, (size_t)memory->bytes);
    return copy;
}

static void open_states(states *s, const char *name, tpp_dtype dtype) {
    const tp_case *c = tp_case_find(name);
    *s = (states){0};
    s->full = tp_full_inputs(c, 1, 2, 3);
    s->setup.ranks = 1;
    s->setup.dtype = dtype;
    assert_int_equal(tp_rank_open(&s->r, c, s->full, &s->setup, NULL, 0), TPP_OK);
    s->moments = tp_memory_new(s->r.info.moments_bytes, TP_ZERO);
    s->undo = tp_memory_new(s->r.info.undo_bytes, TP_NAN);
    s->plain_params = copy_of(&s->r.params);
    s->plain_moments = copy_of(&s->moments);
}

static void close_states(states *s) {
    tp_memory *all[] = {&s->moments, &s->undo, &s->plain_params, &s->plain_moments};
    assert_true(tp_memory_intact(&s->r.params) && tp_memory_intact(&s->r.grads));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_true(tp_memory_intact(all[i]));
        tp_memory_free(all[i]);
    }
    tp_rank_close(&s->r);
    tp_rank_free(&s->r);
    tp_full_free(s->full);
}

static void random_grads(states *s, uint64_t seed) {
    for (int32_t n = 0; n < s->full->params; n++) {
        char *at = (char *)s->r.grads.data + s->r.grad_offset[n];
        for (int64_t i = 0; i < s->full->param[n].rows * s->full->param[n].cols; i++)
            tp_store(s->r.info.grad_dtype, at, i, (ref_real)(tp_random(&seed) * 3));
    }
}

/* A number that is not one in the middle of a tensor. */
static void spoil_grads(states *s, double value) {
    const tp_tensor *t = &s->full->param[s->full->params / 2];
    char *at = (char *)s->r.grads.data + s->r.grad_offset[s->full->params / 2];
    tp_store(s->r.info.grad_dtype, at, t->rows * t->cols / 2, (ref_real)value);
}

static void same(const char *what, const tp_memory *a, const tp_memory *b, int64_t bytes) {
    assert_same_bits(what, a->data, b->data, (size_t)bytes);
}

static void early(states *s, const tpp_adamw_desc *d) {
    tp_memory grads = copy_of(&s->r.grads);
    tp_memory moments = copy_of(&s->moments);
    tp_memory_fill(&s->undo, TP_NAN);
    assert_int_equal(tpp_layer_adamw_early(s->r.layer, d, s->r.params.data, s->r.grads.data,
                                           s->moments.data, s->undo.data),
                     TPP_OK);
    same("gradients", &s->r.grads, &grads, grads.bytes);
    same("m and v", &s->moments, &moments, 2 * s->r.info.grad_bytes);
    tp_memory_free(&grads);
    tp_memory_free(&moments);
}

static void plain(states *s, const tpp_adamw_desc *d) {
    assert_int_equal(tpp_layer_adamw(s->r.layer, d, s->plain_params.data, s->r.grads.data,
                                     s->plain_moments.data),
                     TPP_OK);
}

static void undo(states *s) {
    assert_int_equal(
        tpp_layer_adamw_undo(s->r.layer, s->r.params.data, s->moments.data, s->undo.data), TPP_OK);
}

static void same_as_plain(const states *s) {
    same("parameters", &s->r.params, &s->plain_params, s->plain_params.bytes);
    same("moments", &s->moments, &s->plain_moments, s->plain_moments.bytes);
}

/* Early parameters are those of the plain step before anything is kept. */
static void keep_step(states *s, const tpp_adamw_desc *d) {
    early(s, d);
    plain(s, d);
    same("early", &s->r.params, &s->plain_params, s->plain_params.bytes);
    assert_int_equal(tpp_layer_adamw_keep(s->r.layer, d, s->r.grads.data, s->moments.data), TPP_OK);
    same_as_plain(s);
}

static void redo_step(states *s, const tpp_adamw_desc *d) {
    tpp_adamw_desc guess = *d;
    guess.grad_scale = 1;
    early(s, &guess);
    undo(s);
    same_as_plain(s);
    plain(s, d);
    assert_int_equal(
        tpp_layer_adamw(s->r.layer, d, s->r.params.data, s->r.grads.data, s->moments.data), TPP_OK);
    same_as_plain(s);
}

/* A step of numbers that are none is taken back without a trace. */
static void skip_step(states *s, const tpp_adamw_desc *d) {
    static const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        spoil_grads(s, bad[i]);
        early(s, d);
        assert_memory_not_equal(s->r.params.data, s->plain_params.data,
                                (size_t)s->plain_params.bytes);
        undo(s);
        same_as_plain(s);
    }
}

static void check(const char *name, tpp_dtype dtype) {
    states s;
    tpp_adamw_desc d = {.size = sizeof d, .rate = 1e-2, .decay = 0.125};
    open_states(&s, name, dtype);
    int64_t rest = dtype == TPP_BF16 ? s.r.info.grad_bytes : 0;
    assert_int_equal(s.r.info.undo_bytes, s.r.info.state_bytes + rest);
    for (d.step = 1; d.step <= 6; d.step++) {
        random_grads(&s, (uint64_t)d.step);
        d.grad_scale = 0.3 + (double)d.step / 7;
        if (d.step % 2)
            keep_step(&s, &d);
        else
            redo_step(&s, &d);
        skip_step(&s, &d);
    }
    close_states(&s);
}

static void test_bits(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++) {
        tpp_dtype dtype = k == 0 ? TPP_F32 : k == 1 ? TPP_F64 : TPP_BF16;
        check("block", dtype);
        check("gpt", dtype);
        check("mlp", dtype);
    }
}

/* Bits that arithmetic would not give back: -0, NaN with a payload, denormals. */
static void test_odd_bits(void **state) {
    static const uint16_t odd[] = {0x8000, 0x7fc1, 0xff81, 0x0001, 0x7f80};
    tpp_adamw_desc d = {.size = sizeof d, .rate = 1e-2, .step = 1};
    states s;
    (void)state;
    open_states(&s, "block", TPP_BF16);
    memcpy(s.r.params.data, odd, sizeof odd);
    memcpy(s.plain_params.data, odd, sizeof odd);
    random_grads(&s, 1);
    early(&s, &d);
    undo(&s);
    same_as_plain(&s);
    close_states(&s);
}

static void says(tpp_status got, const char *text) {
    assert_int_equal(got, TPP_ERR_INVALID);
    if (!strstr(tpp_message(), text))
        fail_msg("\"%s\" does not say %s", tpp_message(), text);
}

static void test_refused(void **state) {
    tpp_adamw_desc d = {.size = sizeof d, .rate = 1e-2, .step = 1};
    states s;
    (void)state;
    open_states(&s, "mlp", TPP_F32);
    const tpp_layer *l = s.r.layer;
    void *p = s.r.params.data, *g = s.r.grads.data, *m = s.moments.data, *u = s.undo.data;
    says(tpp_layer_adamw_early(NULL, &d, p, g, m, u), "layer");
    says(tpp_layer_adamw_early(l, &d, NULL, g, m, u), "params");
    says(tpp_layer_adamw_early(l, &d, p, NULL, m, u), "grads");
    says(tpp_layer_adamw_early(l, &d, p, g, NULL, u), "moments");
    says(tpp_layer_adamw_early(l, &d, p, g, m, NULL), "undo");
    says(tpp_layer_adamw_early(l, NULL, p, g, m, u), "desc");
    says(tpp_layer_adamw_keep(NULL, &d, g, m), "layer");
    says(tpp_layer_adamw_keep(l, &d, NULL, m), "grads");
    says(tpp_layer_adamw_keep(l, &d, g, NULL), "moments");
    says(tpp_layer_adamw_undo(NULL, p, m, u), "layer");
    says(tpp_layer_adamw_undo(l, NULL, m, u), "params");
    says(tpp_layer_adamw_undo(l, p, NULL, u), "moments");
    says(tpp_layer_adamw_undo(l, p, m, NULL), "undo");
    d.step = 0;
    says(tpp_layer_adamw_early(l, &d, p, g, m, u), "step");
    says(tpp_layer_adamw_keep(l, &d, g, m), "step");
    same_as_plain(&s);
    close_states(&s);
}

/* --- The rule of clipping --------------------------------------------------------------------- */

static tpp_verdict verdict_of(double a, double b, double clip) {
    double parts[3] = {a, 0, b};
    tpp_verdict v = {.size = sizeof v};
    assert_int_equal(tpp_grad_verdict(parts, 3, clip, &v), TPP_OK);
    return v;
}

static void expect(tpp_verdict v, double norm, double scale, int32_t skip) {
    assert_true(v.norm == norm || (isnan(norm) && isnan(v.norm)));
    assert_true(v.grad_scale == scale);
    assert_int_equal(v.skip, skip);
}

static void test_verdict(void **state) {
    tpp_verdict v = {.size = sizeof v};
    double inf = (double)INFINITY, nan = (double)NAN;
    (void)state;
    expect(verdict_of(9, 16, 0), 5, 1, 0);
    expect(verdict_of(9, 16, 5), 5, 1, 0);
    expect(verdict_of(9, 16, 4), 5, 0.8, 0);
    expect(verdict_of(0, 0, 1e-3), 0, 1, 0);
    expect(verdict_of(inf, 1, 1), inf, 1, 1);
    expect(verdict_of(1, nan, 1), nan, 1, 1);
    expect(verdict_of(nan, 1, 0), nan, 1, 1);
    expect(verdict_of(1e308, 1e308, 1), inf, 1, 1);
    assert_true(verdict_of(1e300, 0, 1e-300).grad_scale > 0); /* 0 would stand for 1 */
    assert_int_equal(tpp_grad_verdict(NULL, 0, 1, &v), TPP_OK);
    expect(v, 0, 1, 0);
    says(tpp_grad_verdict(NULL, 1, 1, &v), "parts");
    says(tpp_grad_verdict(&inf, -1, 1, &v), "count");
    says(tpp_grad_verdict(&inf, 1, -1, &v), "clip");
    says(tpp_grad_verdict(&inf, 1, nan, &v), "clip");
    says(tpp_grad_verdict(&inf, 1, inf, &v), "clip");
    says(tpp_grad_verdict(&inf, 1, 1, NULL), "out");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_odd_bits),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
