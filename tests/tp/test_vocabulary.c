/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Vocabularies that ranks and blocks do not divide, in the layers that know of one: results are those
 * of the unsplit layer, padding has no gradient (tp_gather looks at it) and wins no arg-max. And the
 * embedding adds up its gradient in the order of tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/tp_run.h"

static const int32_t splits[][2] = {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {8, 0},
                                    {1, 8}, {2, 2}, {2, 8}, {4, 8}, {8, 8}};
enum { SPLITS = sizeof splits / sizeof *splits, HIDDEN = 3 };

static tp_setup setup_of(size_t split, tpp_dtype dtype) {
    return (tp_setup){.ranks = splits[split][0], .blocks = splits[split][1], .dtype = dtype};
}

static void check(const tp_case *c, int64_t vocab) {
    tp_full *full = tp_full_inputs(c, 1, vocab + 2, (uint64_t)vocab);
    int32_t *classes = full->ids ? full->ids : full->targets;
    for (int64_t i = 0; classes && i < vocab; i++)
        classes[i] = (int32_t)i; /* every one is there */
    tp_full_answer(c, full);
    for (size_t s = 0; s < SPLITS; s++) {
        tp_setup setup = setup_of(s, TPP_F64);
        tp_result *r = tp_run(c, full, &setup);
        tp_check(r, full, 1e-13);
        tp_result_free(r);
    }
    tp_full_free(full);
}

static void test_every_vocabulary(void **state) {
    (void)state;
    for (int64_t vocab = 1; vocab <= 17; vocab++) {
        const tpp_loss_desc loss = {.size = sizeof loss, .vocab = vocab, .smoothing = 0.125};
        const tpp_embedding_desc embedding = {
            .size = sizeof embedding, .vocab = vocab, .hidden = HIDDEN};
        const tpp_linear_desc linear = {.size = sizeof linear,
                                        .flags = TPP_LINEAR_PAD,
                                        .kind = TPP_LINEAR_COLUMN,
                                        .in = HIDDEN,
                                        .out = vocab};
        const tpp_head_desc head = {.size = sizeof head, .hidden = HIDDEN, .vocab = vocab};
        tpp_head_desc fused = head;
        fused.loss = &loss;
        fused.block = 4;
        tpp_loss_desc mean = loss;
        mean.reduction = TPP_LOSS_MEAN;
        tpp_head_desc early = fused;
        early.flags = TPP_HEAD_EARLY;
        early.loss = &mean;
        const tp_case cases[] = {{"embedding", &tp_kind_embedding, &embedding},
                                 {"early", &tp_kind_head, &early},
                                 {"linear", &tp_kind_linear, &linear},
                                 {"loss", &tp_kind_loss, &loss},
                                 {"head", &tp_kind_head, &head},
                                 {"fused", &tp_kind_head, &fused}};
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            check(&cases[i], vocab);
    }
}

/* The largest logit over all columns of all ranks, padding included, is that of a class, also when
 * all classes are negative. */
typedef struct search {
    const tp_case *c;
    tp_full *full;
    tp_setup setup;
    tp_rank ranks[8];
} search;

static tpp_status run_search(tpp_comm *comm, int32_t rank, void *arg) {
    search *s = arg;
    tp_rank *r = &s->ranks[rank];
    TP_TRY(tp_rank_open(r, s->c, s->full, &s->setup, comm, rank));
    TP_TRY(tpp_layer_forward(r->layer, &r->call));
    tp_rank_close(r);
    return TPP_OK;
}

static void check_largest(const tp_case *c, int64_t vocab, size_t split) {
    search s = {.c = c, .full = tp_full_inputs(c, 1, 4, 3), .setup = setup_of(split, TPP_F64)};
    for (int64_t i = 0; i < 4 * HIDDEN; i++)
        s.full->in[i] = 1 + (ref_real)i / 16;
    for (int64_t i = 0; i < vocab * HIDDEN; i++)
        tp_value(s.full, "", "weight")[i] = -1 - (ref_real)(i % 7);
    tp_ranks_run(s.setup.ranks, run_search, &s);
    for (int64_t t = 0; t < 4; t++) {
        double most = 0;
        int64_t at = -1;
        for (int32_t k = 0; k < s.setup.ranks; k++) {
            const tp_rank *r = &s.ranks[k];
            const double *row = (const double *)r->call.out.data + t * r->call.out.cols;
            for (int64_t j = 0; j < r->call.out.cols; j++)
                if (at < 0 || row[j] > most) {
                    most = row[j];
                    at = r->out_first + j;
                }
        }
        assert_true(most < 0);
        assert_in_range(at, 0, vocab - 1);
    }
    for (int32_t k = 0; k < s.setup.ranks; k++)
        tp_rank_free(&s.ranks[k]);
    tp_full_free(s.full);
}

static void test_padding_is_never_largest(void **state) {
    static const int64_t vocabularies[] = {1, 3, 5, 13};
    (void)state;
    for (size_t v = 0; v < sizeof vocabularies / sizeof *vocabularies; v++) {
        const tpp_linear_desc linear = {.size = sizeof linear,
                                        .flags = TPP_LINEAR_PAD | TPP_LINEAR_NO_BIAS,
                                        .kind = TPP_LINEAR_COLUMN,
                                        .in = HIDDEN,
                                        .out = vocabularies[v]};
        const tpp_head_desc head = {
            .size = sizeof head, .hidden = HIDDEN, .vocab = vocabularies[v]};
        const tp_case cases[] = {{"linear", &tp_kind_linear, &linear},
                                 {"head", &tp_kind_head, &head}};
        for (size_t s = 0; s < SPLITS; s++)
            for (int i = 0; i < 2; i++)
                check_largest(&cases[i], vocabularies[v], s);
    }
}

/* Rows of padding in a table are not counted on to be 0: other numbers there change nothing. */
static tpp_status run_soiled(tpp_comm *comm, int32_t rank, void *arg) {
    search *s = arg;
    tp_rank *r = &s->ranks[rank];
    TP_TRY(tp_rank_open(r, s->c, s->full, &s->setup, comm, rank));
    const tpp_shard *table = &r->shard[0];
    double *numbers = (double *)(void *)((char *)r->params.data + r->offset[0]);
    for (int64_t i = 0; i < tpp_shard_rows(table); i++)
        for (int64_t k = 0; tpp_shard_index(table, i) >= table->valid && k < HIDDEN; k++)
            numbers[i * HIDDEN + k] = 3;
    tp_rank_seal(r);
    TP_TRY(tpp_layer_forward(r->layer, &r->call));
    TP_TRY(tpp_layer_backward(r->layer, &r->call));
    tp_rank_close(r);
    return TPP_OK;
}

static void test_soiled_padding(void **state) {
    static const tpp_loss_desc loss = {.size = sizeof loss, .vocab = 5, .smoothing = 0.125};
    static const tpp_embedding_desc embedding = {
        .size = sizeof embedding, .vocab = 5, .hidden = HIDDEN};
    static const tpp_head_desc head = {.size = sizeof head, .hidden = HIDDEN, .vocab = 5};
    static const tpp_head_desc fused = {
        .size = sizeof fused, .hidden = HIDDEN, .vocab = 5, .loss = &loss, .block = 2};
    static const tp_case cases[] = {{"embedding", &tp_kind_embedding, &embedding},
                                    {"head", &tp_kind_head, &head},
                                    {"fused", &tp_kind_head, &fused}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t split = 0; split < SPLITS; split++) {
            search s = {.c = &cases[i], .setup = setup_of(split, TPP_F64)};
            s.full = tp_full_inputs(s.c, 1, 5, 3);
            tp_result *clean = tp_run(s.c, s.full, &s.setup);
            tp_ranks_run(s.setup.ranks, run_soiled, &s);
            tp_result *soiled = tp_gather(s.ranks, s.setup.ranks);
            tp_same(s.c->name, clean, soiled);
            tp_result_free(clean);
            tp_result_free(soiled);
            for (int32_t k = 0; k < s.setup.ranks; k++)
                tp_rank_free(&s.ranks[k]);
            tp_full_free(s.full);
        }
}

/* 1e16, 1, -1e16, 1 for one id is 1 in this order, 0 or 2 in others. */
static void test_order_of_tokens(void **state) {
    static const tpp_embedding_desc d = {.size = sizeof d, .vocab = 5, .hidden = 1};
    static const tp_case c = {"embedding", &tp_kind_embedding, &d};
    static const int32_t ids[] = {4, 0, 4, 4, 2, 4};
    static const double slopes[] = {1e16, 5, 1, -1e16, 7, 1};
    static const double want[] = {5, 0, 7, 0, 1};
    (void)state;
    tp_full *full = tp_full_inputs(&c, 2, 3, 1);
    for (int i = 0; i < 6; i++) {
        full->ids[i] = ids[i];
        full->grad_out[i] = (ref_real)slopes[i];
    }
    for (size_t s = 0; s < SPLITS; s++) {
        tp_setup setup = setup_of(s, TPP_F64);
        tp_result *r = tp_run(&c, full, &setup);
        assert_same_bits("gradient", r->grad[0], want, sizeof want);
        tp_result_free(r);
    }
    tp_full_free(full);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_vocabulary),
        cmocka_unit_test(test_padding_is_never_largest),
        cmocka_unit_test(test_soiled_padding),
        cmocka_unit_test(test_order_of_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
