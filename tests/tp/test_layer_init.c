/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* tpp_layer_init: the same full tensors for every split, with the mean and the deviation asked for;
 * zeros, ones and padding where they belong; other numbers for another seed or name. */
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

/* Full tensors of a layer after init, one behind the other in the order of full->param. */
typedef struct filled {
    const tp_case *c;
    const tp_full *full;
    tpp_dtype dtype;
    uint64_t seed;
    const char *name;
    const char *want; /* what another split gave, to which every part is held; or NULL */
} filled;

static int64_t start_of(const tp_full *full, int32_t n) {
    int64_t at = 0;
    for (int32_t i = 0; i < n; i++)
        at += full->param[i].rows * full->param[i].cols;
    return at;
}

static int32_t number_of(const tp_full *full, const char *name) {
    for (int32_t i = 0; i < full->params; i++) {
        if (strcmp(full->param[i].name, name) == 0)
            return i;
    }
    return -1;
}

/* Padding of a local part holds zeros. */
static void check_padding(const tpp_param_info *p, const char *local, int64_t width) {
    static const char zeros[8];
    int rows = p->shard.axis == TPP_AXIS_ROWS;
    for (int64_t i = 0; p->shard.axis != TPP_AXIS_NONE && i < p->local_rows * p->local_cols; i++) {
        int64_t at = tpp_shard_index(&p->shard, rows ? i / p->local_cols : i % p->local_cols);
        if (at >= p->shard.valid)
            assert_memory_equal(local + i * width, zeros, (size_t)width);
    }
}

/* This rank's part, each of its copies, is that of the full tensor. */
static void check_part(const tpp_param_info *p, const char *local, const char *full,
                       tpp_dtype dtype) {
    tp_memory part = tp_memory_new(p->local_rows * p->local_cols * tp_width(dtype), TP_NAN);
    assert_int_equal(tpp_shard_split(&p->shard, full, part.data, dtype), TPP_OK);
    assert_same_bits(p->name, local, part.data, (uint64_t)part.bytes);
    tp_memory_free(&part);
}

static void init_rank(const filled *f, int32_t rank, int32_t ranks, int32_t blocks, char *to) {
    tpp_layer_env env = {0};
    tpp_layer *layer = NULL;
    tpp_layer_info info = {0};
    int64_t width = f->dtype == TPP_F64 ? 8 : 4;
    env.size = sizeof env;
    env.dtype = f->dtype;
    env.blocks = blocks;
    env.name = f->name;
    env.comm = ranks > 1 ? tp_comm_stub(rank, ranks) : NULL;
    info.size = sizeof info;
    assert_int_equal(f->c->kind->create(&layer, &env, f->c->desc), TPP_OK);
    assert_int_equal(tpp_layer_query(layer, 1, 1, &info), TPP_OK);
    tp_memory params = tp_memory_new(info.state_bytes, TP_NAN);
    assert_int_equal(tpp_layer_init(layer, params.data, f->seed), TPP_OK);
    assert_true(tp_memory_intact(&params));
    for (int32_t i = 0; i < info.params; i++) {
        tpp_param_info p = {0};
        p.size = sizeof p;
        assert_int_equal(tpp_layer_param(layer, i, &p), TPP_OK);
        int32_t n = number_of(f->full, p.name + (f->name ? strlen(f->name) : 0));
        const char *local = (const char *)params.data + p.offset;
        assert_true(n >= 0);
        check_padding(&p, local, width);
        if (f->want)
            check_part(&p, local, f->want + start_of(f->full, n) * width, f->dtype);
        assert_int_equal(
            tpp_shard_join(&p.shard, local, to + start_of(f->full, n) * width, f->dtype), TPP_OK);
    }
    tp_memory_free(&params);
    tpp_layer_destroy(layer);
    tpp_comm_destroy(env.comm);
}

static void *init(const filled *f, int32_t ranks, int32_t blocks) {
    size_t bytes = (size_t)start_of(f->full, f->full->params) * 8;
    char *to = malloc(bytes + 1);
    assert_non_null(to);
    memset(to, TP_NAN, bytes);
    for (int32_t r = 0; r < ranks; r++)
        init_rank(f, r, ranks, blocks, to);
    return to;
}

static void test_splits(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        tp_full *full = tp_full_inputs(c, 1, 1, 1);
        for (int k = 0; k < 2; k++) {
            filled f = {c, full, k ? TPP_F64 : TPP_F32, 42, NULL, NULL};
            uint64_t bytes = (uint64_t)start_of(full, full->params) * (k ? 8 : 4);
            void *want = init(&f, 1, 0);
            f.want = want;
            for (int32_t ranks = 1; ranks <= 8; ranks *= 2) {
                void *free_mode = init(&f, ranks, 0);
                void *fixed = init(&f, ranks, 8);
                assert_same_bits(c->name, want, free_mode, bytes);
                assert_same_bits(c->name, want, fixed, bytes);
                free(free_mode);
                free(fixed);
            }
            free(want);
        }
        tp_full_free(full);
    }
}

static void moments(const double *x, int64_t n, double *mean, double *std) {
    double sum = 0;
    double squares = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *std = sqrt(squares / (double)n);
}

/* n draws: mean within 5 / sqrt(n) deviations, deviation within 5 / sqrt(2 n) of itself. */
static void check_normal(const double *x, int64_t n, double want) {
    double mean;
    double std;
    moments(x, n, &mean, &std);
    assert_near(mean, 0, want * 5 / sqrt((double)n));
    assert_near(std, want, want * 5 / sqrt(2 * (double)n));
}

static void check_constant(const double *x, int64_t n, double want) {
    for (int64_t i = 0; i < n; i++)
        assert_near(x[i], want, 0);
}

static void test_distribution(void **state) {
    static const tpp_mlp_desc mlp = {sizeof mlp, 0, 64, 256, 0, 0, 0.5, 0.25};
    static const tpp_block_desc block = {
        .size = sizeof block, .hidden = 64, .heads = 4, .out_std = 0.005};
    const tp_case mlp_case = {"mlp", &tp_kind_mlp, &mlp};
    const tp_case block_case = {"block", &tp_kind_block, &block};
    (void)state;
    tp_full *full = tp_full_inputs(&mlp_case, 1, 1, 1);
    filled f = {&mlp_case, full, TPP_F64, 7, NULL, NULL};
    double *x = init(&f, 1, 0);
    check_normal(x + start_of(full, 0), 64 * 256, 0.5);
    check_constant(x + start_of(full, 1), 256, 0);
    check_normal(x + start_of(full, 2), 64 * 256, 0.25);
    check_constant(x + start_of(full, 3), 64, 0);
    free(x);
    tp_full_free(full);

    full = tp_full_inputs(&block_case, 1, 1, 1);
    f = (filled){&block_case, full, TPP_F64, 7, NULL, NULL};
    x = init(&f, 1, 0);
    check_constant(x + start_of(full, 0), 64, 1);          /* ln_1.weight */
    check_constant(x + start_of(full, 1), 64, 0);          /* ln_1.bias */
    check_normal(x + start_of(full, 2), 64 * 192, 0.02);   /* attn.qkv.weight */
    check_normal(x + start_of(full, 3), 64 * 64, 0.005);   /* attn.out.weight */
    check_constant(x + start_of(full, 4), 192, 0);         /* attn.qkv.bias */
    check_normal(x + start_of(full, 8), 64 * 256, 0.02);   /* mlp.up.weight */
    check_normal(x + start_of(full, 10), 64 * 256, 0.005); /* mlp.down.weight */
    free(x);
    tp_full_free(full);
}

/* Numbers that are equal at the same place in two fillings. */
static int64_t equal(const double *a, const double *b, int64_t n) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += a[i] == b[i];
    return count;
}

static void test_keys(void **state) {
    static const tpp_linear_desc d = {sizeof d, TPP_LINEAR_NO_BIAS, TPP_LINEAR_COLUMN, 0, 32, 32,
                                      1};
    const tp_case c = {"linear", &tp_kind_linear, &d};
    tp_full *full = tp_full_inputs(&c, 1, 1, 1);
    filled f = {&c, full, TPP_F64, 1, "a.", NULL};
    (void)state;
    double *one = init(&f, 1, 0);
    double *again = init(&f, 1, 0);
    f.seed = 2;
    double *seed = init(&f, 1, 0);
    f.seed = 1;
    f.name = "b.";
    double *name = init(&f, 1, 0);
    assert_int_equal(equal(one, again, 1024), 1024);
    assert_int_equal(equal(one, seed, 1024), 0);
    assert_int_equal(equal(one, name, 1024), 0);
    assert_int_equal(equal(seed, name, 1024), 0);
    assert_int_equal(equal(one, one + 1, 1023), 0);
    free(one);
    free(again);
    free(seed);
    free(name);
    tp_full_free(full);
    assert_int_equal(tpp_layer_init(NULL, NULL, 1), TPP_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
