/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* The reference itself: its gradients against central differences of its own forward. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/tp_run.h"

static const tpp_linear_desc linear = {sizeof linear, 0, TPP_LINEAR_COLUMN, 0, 3, 4, 0};
static const tpp_mlp_desc mlp = {sizeof mlp, 0, 3, 5, TPP_ACT_GELU_TANH, 0, 0, 0};
static const tpp_mlp_desc mlp_erf = {sizeof mlp_erf, 0, 3, 5, TPP_ACT_GELU_ERF, 0, 0, 0};
static const tpp_mlp_desc mlp_relu = {sizeof mlp_relu, 0, 3, 5, TPP_ACT_RELU, 0, 0, 0};
static const tpp_mlp_desc mlp_square = {sizeof mlp_square, 0, 3, 5, TPP_ACT_SQUARED_RELU, 0, 0, 0};
static const tpp_mlp_desc mlp_silu = {sizeof mlp_silu, 0, 3, 5, TPP_ACT_SILU, 0, 0, 0};
static const tpp_mlp_desc swiglu = {sizeof swiglu, 0, 3, 5, TPP_ACT_SWIGLU, 0, 0, 0};
static const tpp_mlp_desc geglu = {
    sizeof geglu, TPP_MLP_SEPARATE_GATE, 3, 5, TPP_ACT_GEGLU, 0, 0, 0};
static const tpp_norm_desc rms = {sizeof rms, 0, 5, 0, TPP_NORM_RMS, 0};
static const tpp_attention_desc attention = {
    .size = sizeof attention, .hidden = 4, .heads = 2, .head_cols = 3};
static const tpp_rope_desc rope = {.size = sizeof rope, .theta = 10};
static const tpp_attention_desc qwen = {.size = sizeof qwen,
                                        .flags = TPP_ATTENTION_QK_NORM,
                                        .hidden = 4,
                                        .heads = 2,
                                        .head_cols = 4,
                                        .kv_heads = 1,
                                        .rope = &rope,
                                        .window = 2};
static const tpp_attention_desc unmasked = {
    .size = sizeof unmasked, .flags = TPP_ATTENTION_FULL, .hidden = 4, .heads = 2};
static const tpp_norm_desc norm = {sizeof norm, 0, 5, 0, 0, 0};
static const tpp_embedding_desc embedding = {sizeof embedding, 0, 5, 2, 3, 0};
static const tpp_loss_desc loss = {.size = sizeof loss, .vocab = 6};
static const tpp_block_desc block = {
    .size = sizeof block, .hidden = 4, .ffn = 6, .heads = 2, .act = TPP_ACT_GELU_ERF};
static const tp_gpt_desc gpt = {3, 2, 4, 1, 2, 0, 0, 0};

static const tp_case cases[] = {
    {"linear", &tp_kind_linear, &linear},
    {"mlp", &tp_kind_mlp, &mlp},
    {"mlp, erf", &tp_kind_mlp, &mlp_erf},
    {"attention", &tp_kind_attention, &attention},
    {"attention, qwen", &tp_kind_attention, &qwen},
    {"attention, full", &tp_kind_attention, &unmasked},
    {"norm", &tp_kind_norm, &norm},
    {"embedding", &tp_kind_embedding, &embedding},
    {"loss", &tp_kind_loss, &loss},
    {"block", &tp_kind_block, &block},
    {"gpt", &tp_kind_gpt, &gpt},
    {"mlp, relu", &tp_kind_mlp, &mlp_relu},
    {"mlp, squared relu", &tp_kind_mlp, &mlp_square},
    {"mlp, silu", &tp_kind_mlp, &mlp_silu},
    {"mlp, swiglu", &tp_kind_mlp, &swiglu},
    {"mlp, geglu, separate", &tp_kind_mlp, &geglu},
    {"norm, rms", &tp_kind_norm, &rms},
};

static const ref_real step = (ref_real)1e-10;
static const ref_real bound = (ref_real)1e-15;

/* sum of out * grad_out, which the gradients are derivatives of. */
static ref_real objective(const tp_case *c, tp_full *full) {
    ref_real sum = 0;
    tp_full_answer(c, full);
    for (int64_t i = 0; i < full->tokens * full->out_cols; i++)
        sum += full->out[i] * full->grad_out[i];
    return sum;
}

static void check(const tp_case *c, tp_full *full, const char *name, ref_real *x,
                  const ref_real *gradient, int64_t count) {
    ref_real *want = ref_new(count); /* the objective writes into gradient */
    tp_full_answer(c, full);
    memcpy(want, gradient, (size_t)count * sizeof *want);
    for (int64_t i = 0; i < count; i++) {
        ref_real at = x[i];
        x[i] = at + step;
        ref_real above = objective(c, full);
        x[i] = at - step;
        ref_real below = objective(c, full);
        x[i] = at;
        ref_real off = (above - below) / (2 * step) - want[i];
        if (off > bound || off < -bound || off != off)
            fail_msg("%s: %s[%lld]: gradient %.17g is off by %.3g", c->name, name, (long long)i,
                     (double)want[i], (double)off);
    }
    free(want);
}

static void test_differences(void **state) {
    const tp_case *c = *state;
    tp_full *full = tp_full_new(c, 2, 3, 11);
    if (full->in)
        check(c, full, "in", full->in, full->grad_in, full->tokens * full->in_cols);
    for (int32_t i = 0; i < full->params; i++) {
        tp_tensor *t = &full->param[i];
        check(c, full, t->name, t->value, t->grad, t->rows * t->cols);
    }
    tp_full_free(full);
}

/* Values known from elsewhere. */
static void test_known(void **state) {
    static const struct {
        int act;
        int x_tenths;
        const char *value, *slope;
    } known[] = {
        {REF_GELU_ERF, -37, "-0.000398859013866336850178", "-0.00146388726756039290"},
        {REF_GELU_TANH, -37, "-0.000271806021392053912", "-0.0011567272357879136"},
        {REF_GELU_ERF, 0, "0", "0.5"},
        {REF_GELU_TANH, 0, "0", "0.5"},
        {REF_GELU_ERF, 10, "0.841344746068542948585", "1.08331547058768629"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ref_real x = (ref_real)known[i].x_tenths / 10;
        double value = 0;
        double slope = 0;
        assert_int_equal(sscanf(known[i].value, "%lf", &value), 1);
        assert_int_equal(sscanf(known[i].slope, "%lf", &slope), 1);
        assert_near((double)ref_act(known[i].act, x), value, 1.2e-16);
        assert_near((double)ref_act_slope(known[i].act, x), slope, 3e-16);
    }
}

int main(void) {
    struct CMUnitTest tests[32] = {{0}};
    size_t count = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        tests[count++] = (struct CMUnitTest){cases[i].name, test_differences, NULL, NULL,
                                             (void *)(size_t)&cases[i]};
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_known);
    return _cmocka_run_group_tests("test_ref_gpt", tests, count, NULL, NULL);
}
