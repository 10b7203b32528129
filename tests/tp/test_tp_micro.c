/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* A batch in micro-batches: the gradient of the mean loss is the same however the batch is cut,
 * also into uneven parts, and each micro-batch's loss is its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/tp_run.h"

enum { BATCH = 8, SEQ = 3, PARTS = 8 };

/* How a batch of 8 is cut. */
typedef struct pieces {
    int count;
    int64_t sizes[PARTS];
} pieces;

static const pieces cuts[] = {
    {1, {8}}, {2, {4, 4}}, {4, {2, 2, 2, 2}}, {3, {3, 3, 2}}, {8, {1, 1, 1, 1, 1, 1, 1, 1}},
};

/* A model's step over the cut batch, all forwards before all backwards, gradients accumulated. */
typedef struct step {
    const tp_case *c;
    const tp_full *whole;
    const pieces *cut;
    int calls; /* how often the step is made without zeroing */
    tp_setup setup;
    tp_rank ranks[4];
    double losses[4][BATCH * SEQ]; /* of each rank */
} step;

/* The sequences first .. first + full->batch - 1 of the whole batch. */
static void load_part(tp_full *part, const tp_full *whole, int64_t first) {
    memcpy(part->ids, whole->ids + first * SEQ, (size_t)part->tokens * sizeof *part->ids);
    memcpy(part->targets, whole->targets + first * SEQ,
           (size_t)part->tokens * sizeof *part->targets);
    memcpy(part->grad_out, whole->grad_out + first * SEQ,
           (size_t)part->tokens * sizeof *part->grad_out);
    for (int32_t n = 0; n < part->params; n++)
        memcpy(part->param[n].value, whole->param[n].value,
               (size_t)(part->param[n].rows * part->param[n].cols) * sizeof(ref_real));
}

static tpp_status make_part(step *s, tp_rank *r, tpp_comm *comm, int32_t rank, int part,
                            tp_full **full) {
    int64_t first = 0;
    for (int i = 0; i < part; i++)
        first += s->cut->sizes[i];
    *full = tp_full_inputs(s->c, s->cut->sizes[part], SEQ, 1);
    load_part(*full, s->whole, first);
    TP_TRY(tp_rank_open(r, s->c, *full, &s->setup, comm, rank));
    TP_TRY(tpp_layer_forward(r->layer, &r->call));
    memcpy(&s->losses[rank][first * SEQ], r->out.data, (size_t)r->out.bytes);
    return TPP_OK;
}

static tpp_status run_step(tpp_comm *comm, int32_t rank, void *arg) {
    step *s = arg;
    tp_rank *r = &s->ranks[rank];
    tp_rank parts[PARTS];
    tp_full *full[PARTS];
    TP_TRY(tp_rank_open(r, s->c, s->whole, &s->setup, comm, rank)); /* whose grads are used */
    for (int k = 0; k < s->calls; k++) {
        for (int i = 0; i < s->cut->count; i++)
            TP_TRY(make_part(s, &parts[i], comm, rank, i, &full[i]));
        for (int i = 0; i < s->cut->count; i++) {
            parts[i].call.grads = r->grads.data;
            TP_TRY(tpp_layer_backward(parts[i].layer, &parts[i].call));
            TP_TRY(tp_rank_verify(&parts[i]));
            tp_rank_close(&parts[i]);
            tp_rank_free(&parts[i]);
            tp_full_free(full[i]);
        }
    }
    memcpy(r->out.data, s->losses[rank], (size_t)r->out.bytes);
    TP_TRY(tp_rank_verify(r));
    tp_rank_close(r);
    return TPP_OK;
}

static tp_result *run(const tp_full *whole, const pieces *cut, int calls, int32_t ranks,
                      int32_t blocks) {
    step s = {0};
    s.c = tp_case_find("gpt");
    s.whole = whole;
    s.cut = cut;
    s.calls = calls;
    s.setup.ranks = ranks;
    s.setup.blocks = blocks;
    s.setup.dtype = TPP_F64;
    tp_ranks_run(ranks, run_step, &s);
    tp_result *result = tp_gather(s.ranks, ranks);
    for (int32_t i = 0; i < ranks; i++)
        tp_rank_free(&s.ranks[i]);
    return result;
}

/* grad_out = 1 / N for the mean; sequence b wants only targets that no other has. */
static tp_full *mean_loss(void) {
    const tp_case *c = tp_case_find("gpt");
    tp_full *full = tp_full_inputs(c, BATCH, SEQ, 17);
    for (int64_t i = 0; i < full->tokens; i++) {
        full->grad_out[i] = (ref_real)(1.0 / (BATCH * SEQ));
        full->targets[i] = (int32_t)(i / SEQ);
    }
    tp_full_answer(c, full);
    return full;
}

static void test_cuts(void **state) {
    tp_full *full = mean_loss();
    (void)state;
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        for (int32_t ranks = 1; ranks <= 4; ranks *= 2) {
            tp_result *r = run(full, &cuts[i], 1, ranks, 0);
            tp_check(r, full, 1e-13);
            tp_result_free(r);
        }
        tp_result *fixed = run(full, &cuts[i], 1, 2, 8);
        tp_check(fixed, full, 1e-13);
        tp_result_free(fixed);
    }
    tp_full_free(full);
}

/* Three steps without zeroing: three times the gradient, not less. */
static void test_calls(void **state) {
    tp_full *full = mean_loss();
    (void)state;
    tp_result *r = run(full, &cuts[2], 3, 2, 0);
    for (int32_t n = 0; n < full->params; n++)
        for (int64_t i = 0; i < r->count[n]; i++)
            full->param[n].grad[i] *= 3;
    tp_check(r, full, 1e-13);
    tp_result_free(r);
    tp_full_free(full);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
