/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy at its extremes and over vocabularies that do not divide, on 1, 2 and 4 ranks. */
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

/* One token, `vocab` logits that a test fills, grad_out 1; returns the gathered result. */
typedef struct logits {
    tpp_loss_desc desc;
    tp_case c;
    tp_full *full;
} logits;

static void logits_init(logits *l, int64_t vocab, int64_t tokens) {
    *l = (logits){.desc = {.size = sizeof l->desc, .vocab = vocab}};
    l->c = (tp_case){"loss", &tp_kind_loss, &l->desc};
    l->full = tp_full_inputs(&l->c, 1, tokens, 1);
    for (int64_t i = 0; i < tokens; i++)
        l->full->grad_out[i] = 1;
}

static tp_result *logits_run(const logits *l, int32_t ranks, int32_t blocks, tpp_dtype dtype) {
    tp_setup setup = {0};
    setup.ranks = ranks;
    setup.blocks = blocks;
    setup.dtype = dtype;
    return tp_run(&l->c, l->full, &setup);
}

static double number(const tp_result *r, const void *array, int64_t i) {
    return r->dtype == TPP_F64 ? ((const double *)array)[i] : (double)((const float *)array)[i];
}

/* Splits that every test here goes through: ranks, blocks. */
static const int32_t splits[][2] = {{1, 0}, {2, 0}, {4, 0}, {1, 8}, {2, 8}, {4, 8}};

/* All logits -inf but that of the target: loss 0, gradient 0, although whole shards hold
 * only -inf. */
static void test_one_finite(void **state) {
    logits l;
    (void)state;
    logits_init(&l, 100000, 1);
    for (int64_t i = 0; i < 100000; i++)
        l.full->in[i] = (ref_real)-INFINITY;
    l.full->in[50000] = 10;
    l.full->targets[0] = 50000;
    for (size_t s = 0; s < sizeof splits / sizeof *splits; s++) {
        for (int k = 0; k < 2; k++) {
            tp_result *r = logits_run(&l, splits[s][0], splits[s][1], k ? TPP_F64 : TPP_F32);
            assert_true(number(r, r->out, 0) == 0);
            for (int64_t i = 0; i < 100000; i++)
                assert_true(number(r, r->grad_in, i) == 0);
            tp_result_free(r);
        }
    }
    tp_full_free(l.full);
}

static void check_two(int32_t ranks, int32_t blocks, tpp_dtype dtype, double want, double bound) {
    logits l;
    logits_init(&l, 2, 1);
    l.full->in[0] = l.full->in[1] = (ref_real)1e8;
    l.full->targets[0] = 0;
    tp_result *r = logits_run(&l, ranks, blocks, dtype);
    assert_near(number(r, r->out, 0), want, bound);
    assert_near(number(r, r->grad_in, 0), -0.5, bound);
    assert_near(number(r, r->grad_in, 1), 0.5, bound);
    tp_result_free(r);
    tp_full_free(l.full);
}

/* Two equal logits of 1e8: log 2. On 4 ranks two of them hold padding alone. */
static void test_large_logits(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof splits / sizeof *splits; s++) {
        check_two(splits[s][0], splits[s][1], TPP_F32, 0.693147, 5e-7);
        check_two(splits[s][0], splits[s][1], TPP_F64, 0.693147180559945, 5e-16);
    }
}

/* A constant on all logits of a token changes nothing beyond the rounding of the logits. */
static void test_shift(void **state) {
    static const double shifts[] = {1, -1000, 65536, 1e8, -1e8};
    (void)state;
    for (size_t s = 0; s < sizeof splits / sizeof *splits; s++) {
        logits l;
        logits_init(&l, 37, 5);
        tp_result *want = logits_run(&l, splits[s][0], splits[s][1], TPP_F64);
        for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++) {
            for (int64_t k = 0; k < 5 * 37; k++)
                l.full->in[k] += (ref_real)shifts[i]; /* exact: all are multiples of 2^-15 */
            tp_result *got = logits_run(&l, splits[s][0], splits[s][1], TPP_F64);
            tp_same("shifted logits", want, got);
            tp_result_free(got);
            for (int64_t k = 0; k < 5 * 37; k++)
                l.full->in[k] -= (ref_real)shifts[i];
        }
        tp_result_free(want);
        tp_full_free(l.full);
    }
}

/* Every vocabulary from 1 to 17 and every target: equal to the unsplit reference; tp_run fails when
 * a padded column, which it fills with 1e30, has a gradient other than 0. */
static void test_vocabularies(void **state) {
    (void)state;
    for (int64_t vocab = 1; vocab <= 17; vocab++) {
        logits l;
        logits_init(&l, vocab, vocab);
        for (int64_t i = 0; i < vocab; i++)
            l.full->targets[i] = (int32_t)i;
        tp_full_answer(&l.c, l.full);
        for (size_t s = 0; s < sizeof splits / sizeof *splits; s++) {
            tp_result *r = logits_run(&l, splits[s][0], splits[s][1], TPP_F64);
            tp_check(r, l.full, 1e-14);
            tp_result_free(r);
        }
        tp_full_free(l.full);
    }
}

/* Padding that holds NaN or infinity is never looked at. */
typedef struct poison {
    const logits *l;
    tp_rank ranks[4];
    tp_setup setup;
    double value;
} poison;

static tpp_status run_poisoned(tpp_comm *comm, int32_t rank, void *arg) {
    poison *p = arg;
    tp_rank *r = &p->ranks[rank];
    TP_TRY(tp_rank_open(r, &p->l->c, p->l->full, &p->setup, comm, rank));
    for (int64_t t = 0; t < r->call.in.rows; t++) {
        for (int64_t c = 0; c < r->call.in.cols; c++) {
            if (r->in_first + c >= p->l->desc.vocab)
                ((double *)r->in.data)[t * r->call.in.cols + c] = p->value;
        }
    }
    tp_rank_seal(r);
    TP_TRY(tpp_layer_forward(r->layer, &r->call));
    TP_TRY(tpp_layer_backward(r->layer, &r->call));
    TP_TRY(tp_rank_verify(r));
    tp_rank_close(r);
    return TPP_OK;
}

static void test_padding_unread(void **state) {
    const double values[] = {(double)NAN, (double)INFINITY, (double)-INFINITY, 1e300};
    logits l;
    (void)state;
    logits_init(&l, 5, 3);
    tp_full_answer(&l.c, l.full);
    for (int32_t ranks = 2; ranks <= 4; ranks *= 2) {
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            poison p = {0};
            p.l = &l;
            p.setup.ranks = ranks;
            p.setup.dtype = TPP_F64;
            p.value = values[i];
            tp_ranks_run(ranks, run_poisoned, &p);
            tp_result *r = tp_gather(p.ranks, ranks);
            tp_check(r, l.full, 1e-14);
            tp_result_free(r);
            for (int32_t k = 0; k < ranks; k++)
                tp_rank_free(&p.ranks[k]);
        }
    }
    tp_full_free(l.full);
}

/* 129,280 classes on 24 ranks: 5,387 columns each, 129,288 in all; the last rank has 8
 * of padding. */
static void check_share(int32_t rank, const tp_kind *kind, const void *desc, int64_t in_cols,
                        int64_t out_cols) {
    tpp_layer_env env = {0};
    tpp_layer *layer = NULL;
    tpp_layer_info info = {0};
    env.size = sizeof env;
    env.comm = tp_comm_stub(rank, 24);
    info.size = sizeof info;
    assert_int_equal(kind->create(&layer, &env, desc), TPP_OK);
    assert_int_equal(tpp_layer_query(layer, 1, 1, &info), TPP_OK);
    assert_int_equal(info.in_cols, in_cols);
    assert_int_equal(info.out_cols, out_cols);
    if (info.params > 0) {
        tpp_param_info p = {0};
        p.size = sizeof p;
        assert_int_equal(tpp_layer_param(layer, 0, &p), TPP_OK);
        int rows = p.shard.axis == TPP_AXIS_ROWS;
        assert_int_equal(rows ? p.shard.rows : p.shard.cols, 129288);
        assert_int_equal(p.shard.valid, 129280);
        assert_int_equal(rows ? p.local_rows : p.local_cols, 5387);
        assert_int_equal(tpp_shard_index(&p.shard, 0), 5387 * rank);
    }
    tpp_layer_destroy(layer);
    tpp_comm_destroy(env.comm);
}

static void test_large_vocabulary(void **state) {
    static const tpp_loss_desc loss = {.size = sizeof loss, .vocab = 129280};
    static const tpp_embedding_desc embedding = {sizeof embedding, 0, 129280, 2, 0, 0};
    static const tpp_linear_desc head = {
        sizeof head, TPP_LINEAR_PAD | TPP_LINEAR_NO_BIAS, TPP_LINEAR_COLUMN, 0, 2, 129280, 0};
    (void)state;
    for (int32_t rank = 0; rank < 24; rank++) {
        check_share(rank, &tp_kind_loss, &loss, 5387, 1);
        check_share(rank, &tp_kind_embedding, &embedding, 1, 2);
        check_share(rank, &tp_kind_linear, &head, 2, 5387);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_finite),     cmocka_unit_test(test_large_logits),
        cmocka_unit_test(test_shift),          cmocka_unit_test(test_vocabularies),
        cmocka_unit_test(test_padding_unread), cmocka_unit_test(test_large_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
