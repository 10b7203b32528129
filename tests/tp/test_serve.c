/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Forward without backward: with a cache, sequences that come in pieces give what the unsplit
 * reference gives for the whole, whatever the pieces; fixed blocks give the same bits on any number
 * of ranks; without a cache the bits are those of a plain forward. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/tp_run.h"

enum { BATCH = 3, SEQ = 7, CALLS = SEQ + 1, PATTERNS = 1 << (SEQ - 1) };

/* How many tokens each sequence brings in each call. */
typedef struct plan {
    int32_t calls;
    int32_t length[CALLS][BATCH];
} plan;

/* A pattern's bit i: a piece ends behind token i. `late`: calls with nothing before the first. */
static void add_sequence(plan *p, int32_t sequence, int32_t pattern, int32_t late) {
    int32_t call = late, count = 0;
    for (int32_t i = 0; i < SEQ; i++) {
        count++;
        if (i < SEQ - 1 && !(pattern >> i & 1))
            continue;
        p->length[call++][sequence] = count;
        count = 0;
    }
    p->calls = call > p->calls ? call : p->calls;
}

static int32_t turned(int32_t pattern) {
    int32_t back = 0;
    for (int32_t i = 0; i < SEQ - 1; i++)
        back |= (pattern >> i & 1) << (SEQ - 2 - i);
    return back;
}

/* Sequences whose lengths differ in most calls. */
static plan plan_of(int32_t pattern) {
    plan p = {0};
    add_sequence(&p, 0, pattern, 0);
    add_sequence(&p, 1, turned(pattern) ^ 5, 0);
    add_sequence(&p, 2, pattern ^ (PATTERNS - 1), 1);
    if (p.calls > CALLS)
        abort();
    return p;
}

typedef struct job {
    const tp_case *c;
    const tp_full *full;
    const tp_setup *setup;
    const plan *plan; /* NULL: one call, no cache */
    tp_rank *ranks;
} job;

/* Row `from` of a matrix to row `to` of another of the same columns. */
static void copy_row(const tpp_mat *a, int64_t from, const tpp_mat *b, int64_t to) {
    size_t bytes = (size_t)(a->cols * tp_width(a->dtype));
    memcpy((char *)b->data + to * (int64_t)bytes, (const char *)a->data + from * (int64_t)bytes,
           bytes);
}

static tpp_mat room(tp_memory *memory, const tpp_mat *like, int64_t rows) {
    tpp_mat m = *like;
    *memory = tp_memory_new(rows * like->cols * tp_width(like->dtype), TP_NAN);
    m.rows = rows;
    m.data = memory->data;
    return m;
}

/* One call on the rows that its sequences bring. */
static tpp_status do_call(tp_rank *r, const int32_t *length, int32_t *past,
                          const tp_memory *cache) {
    int32_t targets[BATCH * SEQ];
    double weights[BATCH * SEQ];
    int64_t tokens = 0, longest = 0, rows[BATCH * SEQ];
    for (int32_t b = 0; b < BATCH; b++) {
        longest = length[b] > longest ? length[b] : longest;
        for (int32_t i = 0; i < length[b]; i++)
            rows[tokens++] = (int64_t)b * SEQ + past[b] + i;
    }
    tpp_serve_info info = {.size = sizeof info};
    TP_TRY(tpp_layer_serve_query(r->layer, BATCH, longest, SEQ, &info));
    TP_NEED(info.cache_bytes == cache->bytes && info.flags == 0);
    tp_memory in, out, scratch = tp_memory_new(info.scratch_bytes, TP_NAN);
    tpp_call call = {.size = sizeof call, .flags = TPP_CALL_NO_GRAD, .batch = BATCH};
    call.seq = longest;
    call.in = room(&in, &r->call.in, tokens);
    call.out = room(&out, &r->call.out, tokens);
    call.params = r->call.params;
    call.scratch = scratch.data, call.scratch_bytes = scratch.bytes;
    call.lengths = length, call.past = past;
    call.cache = cache->data, call.cache_bytes = cache->bytes, call.cache_seq = SEQ;
    call.weight_sum = r->call.weight_sum;
    for (int64_t i = 0; i < tokens; i++) {
        copy_row(&r->call.in, rows[i], &call.in, i);
        targets[i] = r->call.targets ? r->call.targets[rows[i]] : 0;
        weights[i] = r->call.weights ? r->call.weights[rows[i]] : 0;
    }
    call.targets = r->call.targets ? targets : NULL;
    call.weights = r->call.weights ? weights : NULL;
    TP_TRY(tpp_layer_forward(r->layer, &call));
    TP_NEED(tp_memory_intact(&in) && tp_memory_intact(&out) && tp_memory_intact(&scratch));
    for (int64_t i = 0; i < tokens; i++)
        copy_row(&call.out, i, &r->call.out, rows[i]);
    for (int32_t b = 0; b < BATCH; b++)
        past[b] += length[b];
    tp_memory_free(&in);
    tp_memory_free(&out);
    tp_memory_free(&scratch);
    return TPP_OK;
}

static tpp_status in_pieces(tp_rank *r, const plan *p) {
    tpp_serve_info info = {.size = sizeof info};
    int32_t past[BATCH] = {0};
    TP_TRY(tpp_layer_serve_query(r->layer, BATCH, 1, SEQ, &info));
    tp_memory cache = tp_memory_new(info.cache_bytes, TP_NAN);
    for (int32_t i = 0; i < p->calls; i++)
        TP_TRY(do_call(r, p->length[i], past, &cache));
    TP_NEED(tp_memory_intact(&cache));
    tp_memory_free(&cache);
    return TPP_OK;
}

static tpp_status at_once(tp_rank *r) {
    tpp_serve_info info = {.size = sizeof info};
    TP_TRY(tpp_layer_serve_query(r->layer, r->call.batch, r->call.seq, 0, &info));
    TP_NEED(info.cache_bytes == 0);
    tp_memory scratch = tp_memory_new(info.scratch_bytes, TP_NAN);
    tpp_call call = r->call;
    call.flags = TPP_CALL_NO_GRAD;
    call.saved = NULL, call.saved_bytes = 0;
    call.scratch = scratch.data, call.scratch_bytes = scratch.bytes;
    TP_TRY(tpp_layer_forward(r->layer, &call));
    TP_NEED(tp_memory_intact(&scratch));
    tp_memory_free(&scratch);
    return TPP_OK;
}

static tpp_status run_rank(tpp_comm *comm, int32_t rank, void *arg) {
    const job *j = arg;
    tp_rank *r = &j->ranks[rank];
    TP_TRY(tp_rank_open(r, j->c, j->full, j->setup, comm, rank));
    if (r->grad_in.data) /* nobody writes it, and tp_gather looks at its padding */
        tp_memory_fill(&r->grad_in, TP_ZERO);
    if (j->plan)
        TP_TRY(in_pieces(r, j->plan));
    else
        TP_TRY(at_once(r));
    TP_TRY(tp_rank_verify(r));
    tp_rank_close(r);
    return TPP_OK;
}

/* Only `out` of the result means anything. */
static tp_result *serve(const tp_case *c, const tp_full *full, const tp_setup *setup,
                        const plan *p) {
    tp_rank ranks[8];
    job j = {c, full, setup, p, ranks};
    tp_ranks_run(setup->ranks, run_rank, &j);
    tp_result *r = tp_gather(ranks, setup->ranks);
    for (int32_t i = 0; i < setup->ranks; i++)
        tp_rank_free(&ranks[i]);
    return r;
}

static tp_setup setup_of(int32_t ranks, int32_t blocks, tpp_dtype dtype) {
    return (tp_setup){.ranks = ranks, .blocks = blocks, .dtype = dtype};
}

static void check_near(const tp_case *c, const tp_full *full, const tp_setup *setup,
                       const plan *p) {
    tp_result *r = serve(c, full, setup, p);
    double bound = setup->dtype == TPP_F64 ? 1e-13 : setup->dtype == TPP_F32 ? 1e-5 : 0.07;
    assert_close(c->name, r->out_dtype, r->out, CLOSE_QUAD, full->out, r->out_rows * r->out_cols,
                 bound);
    tp_result_free(r);
}

static void check_bits(const tp_case *c, const tp_full *full, const plan *p, tpp_dtype dtype) {
    tp_setup one = setup_of(1, 4, dtype);
    tp_result *want = serve(c, full, &one, p);
    for (int32_t ranks = 2; ranks <= 4; ranks *= 2) {
        tp_setup setup = setup_of(ranks, 4, dtype);
        tp_result *got = serve(c, full, &setup, p);
        assert_same_bits(c->name, got->out, want->out,
                         (uint64_t)(want->out_rows * want->out_cols * tp_width(want->out_dtype)));
        tp_result_free(got);
    }
    tp_result_free(want);
}

static int sees_later(const tp_case *c) {
    return strstr(c->name, ", full") != NULL;
}

/* What a token gives must be a row of its own, and dropout is for training. */
static int comes_apart(const tp_full *full) {
    return !full->one_row && full->dropout_seed == 0;
}

static void check_patterns(const tp_case *c, int32_t step) {
    tp_full *full = tp_full_new(c, BATCH, SEQ, 11);
    for (int32_t n = 0; n < PATTERNS && comes_apart(full); n += step) {
        plan p = plan_of(n);
        for (int32_t ranks = 1; ranks <= 4; ranks *= 2) {
            tp_setup setup = setup_of(ranks, 0, TPP_F64);
            check_near(c, full, &setup, &p);
            setup.dtype = TPP_F32;
            check_near(c, full, &setup, &p);
            setup.blocks = 4, setup.dtype = TPP_F64;
            check_near(c, full, &setup, &p);
        }
        check_bits(c, full, &p, TPP_F32);
        check_bits(c, full, &p, TPP_F64);
    }
    tp_full_free(full);
}

/* All 64 ways to cut 7 tokens. */
static void test_patterns(void **state) {
    static const char *const names[] = {"attention, grouped", "block, llama 3", "gpt",
                                        "attention, window"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_patterns(tp_case_find(names[i]), 1);
}

/* Some of them for every kind of layer. */
static void test_kinds(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++)
        if (!sees_later(c))
            check_patterns(c, 13);
}

static void test_bf16(void **state) {
    plan p = plan_of(44);
    tp_setup setup = setup_of(2, 0, TPP_BF16);
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        tp_full *full = tp_full_inputs(c, BATCH, SEQ, 12);
        if (comes_apart(full) && !sees_later(c)) {
            tp_full_round(full);
            tp_full_answer(c, full);
            check_near(c, full, &setup, &p);
            check_bits(c, full, &p, TPP_BF16);
        }
        tp_full_free(full);
    }
}

/* The bits of a forward that saves. */
static void test_no_grad(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        tp_full *full = tp_full_inputs(c, 2, 5, 13);
        for (int32_t i = 0; i < 12; i++) {
            tp_setup setup = setup_of(i % 2 ? 2 : 1, i % 3 ? 4 : 0, i % 6 < 3 ? TPP_F32 : TPP_F64);
            setup.flags = i < 6 ? 0 : TPP_ENV_SEQUENCE;
            tp_result *want = tp_run(c, full, &setup);
            tp_result *got = serve(c, full, &setup, NULL);
            assert_same_bits(
                c->name, got->out, want->out,
                (uint64_t)(want->out_rows * want->out_cols * tp_width(want->out_dtype)));
            tp_result_free(want);
            tp_result_free(got);
        }
        tp_full_free(full);
    }
}

/* A model of many blocks needs the scratch of one. */
static void test_memory(void **state) {
    static const tp_gpt_desc one = {17, 8, 64, 4, 1, 0, 0, 0}, four = {17, 8, 64, 4, 4, 0, 0, 0};
    tpp_layer_env env = {.size = sizeof env};
    int64_t scratch[2], cache[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        tpp_serve_info info = {.size = sizeof info};
        tpp_layer *layer;
        assert_int_equal(tp_kind_gpt.create(&layer, &env, i ? &four : &one), TPP_OK);
        assert_int_equal(tpp_layer_serve_query(layer, 2, 5, 64, &info), TPP_OK);
        scratch[i] = info.scratch_bytes;
        cache[i] = info.cache_bytes;
        tpp_layer_destroy(layer);
    }
    assert_int_equal(scratch[0], scratch[1]);
    assert_int_equal(cache[0], 2 * 2 * 64 * 8 * 4);
    assert_int_equal(cache[1], 4 * cache[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patterns), cmocka_unit_test(test_kinds),  cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_no_grad),  cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
