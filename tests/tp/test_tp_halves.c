/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* The two halves of the backward: I then W is B bit for bit, in any order of micro-batches; each
 * half writes what is its own; and gradients accumulate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/tp_run.h"

static const struct {
    int32_t ranks, blocks;
    tpp_dtype dtype;
} setups[] = {{1, 0, TPP_F64}, {1, 8, TPP_F32},  {2, 0, TPP_F32},  {2, 4, TPP_F64}, {4, 0, TPP_F64},
              {4, 8, TPP_F32}, {1, 0, TPP_BF16}, {2, 8, TPP_BF16}, {4, 0, TPP_BF16}};

static tp_setup setup_of(size_t i) {
    tp_setup setup = {0};
    setup.ranks = setups[i].ranks;
    setup.blocks = setups[i].blocks;
    setup.dtype = setups[i].dtype;
    return setup;
}

enum { SETUPS = sizeof setups / sizeof *setups };

static void test_halves(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        tp_full *full = tp_full_inputs(c, 2, 7, 21);
        for (size_t i = 0; i < SETUPS; i++) {
            tp_setup setup = setup_of(i);
            tp_result *whole = tp_run(c, full, &setup);
            setup.halves = 1;
            tp_result *halves = tp_run(c, full, &setup);
            tp_same(c->name, whole, halves);
            tp_result_free(whole);
            tp_result_free(halves);
        }
        tp_full_free(full);
    }
}

/* The embedding adds token by token to its tables: with an id that comes twice, the sum of two
 * calls is another order of the same numbers. */
static int in_one_sum(const tp_case *c, const char *name) {
    return !strstr(c->name, "head, fused in steps") && /* nor is a fused head's, step by step */
           !strstr(name, "tokens.weight") && !strstr(name, "positions.weight");
}

/* `many` is the gradient of `one` times `factor`. */
static void check_multiple(const tp_case *c, const tp_result *one, const tp_result *many,
                           int factor) {
    for (int32_t n = 0; n < one->params; n++) {
        size_t bytes = (size_t)(one->count[n] * tp_width(one->grad_dtype));
        void *want = malloc(bytes + 1);
        assert_non_null(want);
        for (int64_t i = 0; i < one->count[n]; i++) {
            if (one->grad_dtype == TPP_F64)
                ((double *)want)[i] = factor * ((double *)one->grad[n])[i];
            else
                ((float *)want)[i] = (float)factor * ((float *)one->grad[n])[i];
        }
        if ((factor == 2 || factor == 4) && in_one_sum(c, one->name[n]))
            assert_same_bits(one->name[n], many->grad[n], want, bytes);
        else
            assert_close(one->name[n], one->grad_dtype, many->grad[n], one->grad_dtype, want,
                         one->count[n], one->grad_dtype == TPP_F64 ? 1e-15 : 5e-7);
        free(want);
    }
}

/* k backward calls give k times the gradient of one; the same bits for 2 and 4. */
static void test_accumulate(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        tp_full *full = tp_full_inputs(c, 2, 7, 22);
        for (size_t i = 0; i < SETUPS; i++) {
            tp_setup setup = setup_of(i);
            tp_result *one = tp_run(c, full, &setup);
            for (int k = 2; k <= 5; k++) {
                setup.backwards = k;
                setup.halves = k % 2;
                tp_result *many = tp_run(c, full, &setup);
                check_multiple(c, one, many, k);
                tp_result_free(many);
            }
            tp_result_free(one);
        }
        tp_full_free(full);
    }
}

/* Each half leaves the other's result alone. */
static tpp_status apart(tpp_comm *comm, int32_t rank, void *arg) {
    const tp_case *c = arg;
    tp_full *full = tp_full_inputs(c, 2, 3, 23);
    tp_setup setup = setup_of(2);
    tp_rank r;
    setup.halves = 1;
    TP_TRY(tp_rank_open(&r, c, full, &setup, comm, rank));
    TP_TRY(tpp_layer_forward(r.layer, &r.call));
    tp_memory_fill(&r.grads, 0x2a);
    TP_TRY(tpp_layer_backward_input(r.layer, &r.call));
    for (int64_t i = 0; i < r.grads.bytes; i++)
        TP_NEED(((unsigned char *)r.grads.data)[i] == 0x2a);
    if (r.grad_in.base)
        tp_memory_fill(&r.grad_in, 0x2a);
    TP_TRY(tpp_layer_backward_weight(r.layer, &r.call));
    for (int64_t i = 0; i < r.grad_in.bytes; i++)
        TP_NEED(((unsigned char *)r.grad_in.data)[i] == 0x2a);
    TP_TRY(tp_rank_verify(&r));
    tp_rank_close(&r);
    tp_rank_free(&r);
    tp_full_free(full);
    return TPP_OK;
}

static void test_apart(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++)
        tp_ranks_run(2, apart, (void *)(size_t)c);
}

/* Three micro-batches of one rank, each with its own memory for what is saved; the rest
 * is shared. */
enum { MICROS = 3 };

typedef struct flight {
    const tp_case *c;
    tp_full *full[MICROS];
    const char *order; /* F, B, I, W and a micro-batch, such as "F0F1B0B1" */
    tp_rank ranks[2];
    tp_setup setup;
} flight;

static tpp_status step(tp_rank *r, flight *f, char op, int micro, const tp_memory *saved) {
    tp_rank_load(r, f->full[micro]);
    r->call.saved = saved[micro].data;
    switch (op) {
    case 'F':
        return tpp_layer_forward(r->layer, &r->call);
    case 'B':
        return tpp_layer_backward(r->layer, &r->call);
    case 'I':
        return tpp_layer_backward_input(r->layer, &r->call);
    default:
        return tpp_layer_backward_weight(r->layer, &r->call);
    }
}

static tpp_status fly(tpp_comm *comm, int32_t rank, void *arg) {
    flight *f = arg;
    tp_rank *r = &f->ranks[rank];
    tp_memory saved[MICROS];
    TP_TRY(tp_rank_open(r, f->c, f->full[0], &f->setup, comm, rank));
    for (int i = 0; i < MICROS; i++)
        saved[i] = tp_memory_new(r->call.saved_bytes, TP_NAN);
    for (const char *at = f->order; *at; at += 2) {
        TP_TRY(step(r, f, at[0], at[1] - '0', saved));
        tp_memory_fill(&r->scratch, TP_NAN);
    }
    TP_TRY(tp_rank_sum_copies(r));
    for (int i = 0; i < MICROS; i++) {
        TP_NEED(tp_memory_intact(&saved[i]));
        tp_memory_free(&saved[i]);
    }
    TP_TRY(tp_rank_verify(r));
    tp_rank_close(r);
    return TPP_OK;
}

static tp_result *flown(flight *f, const char *order) {
    f->order = order;
    tp_ranks_run(f->setup.ranks, fly, f);
    tp_result *result = tp_gather(f->ranks, f->setup.ranks);
    for (int32_t i = 0; i < f->setup.ranks; i++)
        tp_rank_free(&f->ranks[i]);
    return result;
}

/* With the same order of weight gradients, whatever else lies between, the gradients have the same
 * bits. */
static void test_flight(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        flight f = {0};
        f.c = c;
        f.setup = setup_of(2);
        f.setup.halves = 1;
        for (int i = 0; i < MICROS; i++)
            f.full[i] = tp_full_inputs(c, 2, 3, (uint64_t)(30 + i));
        tp_result *want = flown(&f, "F0B0F1B1F2B2");
        tp_result *gpipe = flown(&f, "F0F1F2B0B1B2");
        tp_result *zero = flown(&f, "F0F1I0F2I1W0I2W1W2");
        for (int32_t n = 0; n < want->params; n++) {
            uint64_t bytes = (uint64_t)(want->count[n] * tp_width(want->grad_dtype));
            assert_same_bits(want->name[n], want->grad[n], gpipe->grad[n], bytes);
            assert_same_bits(want->name[n], want->grad[n], zero->grad[n], bytes);
        }
        tp_result_free(want);
        tp_result_free(gpipe);
        tp_result_free(zero);
        for (int i = 0; i < MICROS; i++)
            tp_full_free(f.full[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_accumulate),
        cmocka_unit_test(test_apart),
        cmocka_unit_test(test_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
