/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* The collectives of every layer are those that the "Comm:" lines of the headers say: number and
 * size, forward, backward, and in the halves; and the sum of operator f runs while weight gradients
 * are made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/tp_run.h"

/* All-reduces; elements as multiples of tokens * columns and of tokens. `columns` is the input's
 * for backward and the output's for forward. */
typedef struct expected {
    const char *name;
    int64_t forward, forward_cols, forward_tokens;
    int64_t backward, backward_cols;
    int64_t copied; /* elements of copied parameters when K/V heads are copied over ranks */
    int64_t kv_heads;
    int64_t norms; /* elements of the weights of QK-norms, of which every block has a copy */
} expected;

static const expected table[] = {
    {"linear column", 0, 0, 0, 1, 1, 0, 0, 0},
    {"linear column, no bias", 0, 0, 0, 1, 1, 0, 0, 0},
    {"linear column, padded", 0, 0, 0, 1, 1, 0, 0, 0},
    {"linear row", 1, 1, 0, 0, 0, 0, 0, 0},
    {"linear row, no bias", 1, 1, 0, 0, 0, 0, 0, 0},
    {"mlp", 1, 1, 0, 1, 1, 0, 0, 0},
    {"mlp, erf", 1, 1, 0, 1, 1, 0, 0, 0},
    {"mlp, no bias", 1, 1, 0, 1, 1, 0, 0, 0},
    {"mlp, relu", 1, 1, 0, 1, 1, 0, 0, 0},
    {"mlp, squared relu", 1, 1, 0, 1, 1, 0, 0, 0},
    {"mlp, silu", 1, 1, 0, 1, 1, 0, 0, 0},
    {"mlp, swiglu", 1, 1, 0, 1, 1, 0, 0, 0},
    {"mlp, swiglu, no bias", 1, 1, 0, 1, 1, 0, 0, 0},
    {"mlp, swiglu, separate", 1, 1, 0, 1, 1, 0, 0, 0},
    {"mlp, geglu", 1, 1, 0, 1, 1, 0, 0, 0},
    {"mlp, geglu, separate", 1, 1, 0, 1, 1, 0, 0, 0},
    {"linear column, uneven", 0, 0, 0, 1, 1, 0, 0, 0},
    {"linear row, uneven", 1, 1, 0, 0, 0, 0, 0, 0},
    {"mlp, uneven", 1, 1, 0, 1, 1, 0, 0, 0},
    {"mlp, narrower than the blocks", 1, 1, 0, 1, 1, 0, 0, 0},
    {"mlp, swiglu, uneven", 1, 1, 0, 1, 1, 0, 0, 0},
    {"mlp, geglu, separate, uneven", 1, 1, 0, 1, 1, 0, 0, 0},
    {"attention", 1, 1, 0, 1, 1, 0, 0, 0},
    {"attention, wide heads", 1, 1, 0, 1, 1, 0, 0, 0},
    {"attention, no bias", 1, 1, 0, 1, 1, 0, 0, 0},
    {"attention, grouped", 1, 1, 0, 1, 1, 2 * (9 + 1) * 4 * 6, 4, 0},
    {"attention, grouped, no bias", 1, 1, 0, 1, 1, 2 * 16 * 8, 8, 0},
    {"attention, multi-query", 1, 1, 0, 1, 1, 2 * (24 + 1) * 3, 1, 0},
    {"attention, rotary", 1, 1, 0, 1, 1, 0, 0, 0},
    {"attention, rotary, partial", 1, 1, 0, 1, 1, 2 * (5 + 1) * 2 * 7, 2, 0},
    {"attention, rotary, linear", 1, 1, 0, 1, 1, 0, 0, 0},
    {"attention, window", 1, 1, 0, 1, 1, 0, 0, 0},
    {"attention, full", 1, 1, 0, 1, 1, 0, 0, 0},
    {"attention, qk-norm", 1, 1, 0, 1, 1, 0, 8, 2 * 5},
    {"attention, qwen", 1, 1, 0, 1, 1, 2 * (12 + 1) * 4 * 6, 4, 2 * 6},
    {"norm", 0, 0, 0, 0, 0, 0, 0, 0},
    {"norm, no bias", 0, 0, 0, 0, 0, 0, 0, 0},
    {"norm, rms", 0, 0, 0, 0, 0, 0, 0, 0},
    {"embedding", 1, 1, 0, 0, 0, 0, 0, 0},
    {"embedding, no positions", 1, 1, 0, 0, 0, 0, 0, 0},
    {"loss", 2, 0, 3, 0, 0, 0, 0, 0},
    {"loss, one class", 2, 0, 3, 0, 0, 0, 0, 0},
    {"loss, ignore", 2, 0, 3, 0, 0, 0, 0, 0},
    {"loss, smoothing", 2, 0, 4, 0, 0, 0, 0, 0},
    {"loss, smoothing others, z-loss", 2, 0, 4, 0, 0, 0, 0, 0},
    {"loss, sum, ignore a class", 2, 0, 3, 0, 0, 0, 0, 0},
    {"loss, weighted mean, all options", 2, 0, 4, 0, 0, 0, 0, 0},
    {"head", 0, 0, 0, 1, 1, 0, 0, 0},
    {"head, fused", 2, 0, 3, 1, 1, 0, 0, 0},
    {"head, fused in steps", 2, 0, 3, 1, 1, 0, 0, 0},
    {"head, fused in steps, all options", 2, 0, 4, 1, 1, 0, 0, 0},
    {"head, early", 2, 0, 3, 1, 1, 0, 0, 0},
    {"head, early, weighted", 8, 0, 4, 1, 1, 0, 0, 0}, /* 15 tokens are 4 blocks of 4 or less */
    {"block", 2, 2, 0, 2, 2, 0, 0, 0},
    {"block, erf", 2, 2, 0, 2, 2, 0, 0, 0},
    {"block, llama", 2, 2, 0, 2, 2, 0, 0, 0},
    {"block, separate gate", 2, 2, 0, 2, 2, 0, 0, 0},
    /* embedding 1, two blocks 4, loss 2; backward: output head 1, two blocks 4; 16 columns */
    {"block, grouped", 2, 2, 0, 2, 2, 2 * (24 + 1) * 2 * 3, 2, 0},
    {"block, llama 3", 2, 2, 0, 2, 2, 2 * 16 * 2 * 2, 2, 0},
    {"block, qwen 3", 2, 2, 0, 2, 2, 0, 8, 2 * 6},
    {"block, full", 2, 2, 0, 2, 2, 0, 0, 0},
    {"block, dropout", 2, 2, 0, 2, 2, 0, 0, 0},
    {"block, parallel", 1, 1, 0, 1, 1, 0, 0, 0},
    {"block, parallel, two norms", 1, 1, 0, 2, 2, 0, 0, 0},
    {"block, parallel, all options", 1, 1, 0, 1, 1, 2 * 24 * 4 * 3, 4, 0},
    {"dropout", 0, 0, 0, 0, 0, 0, 0, 0},
    {"gpt", 7, 5 * 16, 3, 5, 5 * 16, 0, 0, 0},
    {"gpt, grouped", 7, 5 * 16, 3, 5, 5 * 16, 2 * 2 * (16 + 1) * 2 * 2, 2, 0},
    {"gpt, tied", 7, 5 * 16, 3, 5, 5 * 16, 0, 0, 0},
    {"gpt, tied, fused in steps", 7, 5 * 16, 3, 5, 5 * 16, 0, 0, 0},
    {"custom gate", 0, 0, 0, 0, 0, 0, 0, 0},
    {"custom gate, split", 0, 0, 0, 0, 0, 0, 0, 0},
    {"custom sum", 1, 1, 0, 0, 0, 0, 0, 0},
    {"block, recompute selective", 2, 2, 0, 2, 2, 2 * (24 + 1) * 2 * 3, 2, 0},
    {"block, recompute full", 2, 2, 0, 2, 2, 0, 0, 0},
    {"mlp, recomputed", 1, 1, 0, 1, 1, 0, 0, 0},
    {"attention, recomputed", 1, 1, 0, 1, 1, 2 * (9 + 1) * 4 * 6, 4, 0},
    {"norm, recomputed", 0, 0, 0, 0, 0, 0, 0, 0},
};

/* What backward does of forward again: operators f and g, calls and columns as above. */
typedef struct again {
    const char *name;
    int64_t f, g;
} again;

static again again_of(const char *name) {
    static const again known[] = {{"block, recompute selective", 1, 0},
                                  {"block, recompute full", 2, 1},
                                  {"mlp, recomputed", 1, 0},
                                  {"attention, recomputed", 1, 0}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i];
    return (again){name, 0, 0};
}

static void check_count(const char *what, const tpp_comm_count *got, int64_t calls,
                        int64_t elements, int64_t bytes) {
    if (got->calls != calls || got->elements != elements || got->bytes != bytes)
        fail_msg("%s: %lld collectives of %lld elements, %lld bytes; want %lld of %lld, %lld", what,
                 (long long)got->calls, (long long)got->elements, (long long)got->bytes,
                 (long long)calls, (long long)elements, (long long)bytes);
}

/* Elements of norms' parameters, of which every block has a copy under sequence parallelism. */
static int64_t norm_elements(const char *name, const tp_full *full) {
    int64_t count = 0;
    for (int32_t i = 0; i < full->params; i++)
        if (strncmp(name, "norm", 4) == 0 || strstr(full->param[i].name, "ln_"))
            count += full->param[i].rows * full->param[i].cols;
    return count;
}

static void check_copies(const expected *e, const tp_full *full, const tp_setup *setup,
                         const tp_counts *got) {
    int64_t wide = tp_width(tp_wide(setup->dtype));
    int32_t blocks = setup->blocks ? setup->blocks : setup->ranks;
    int64_t norms = e->norms;
    if (setup->flags & TPP_ENV_SEQUENCE)
        norms += norm_elements(e->name, full);
    int over_ranks = (e->kv_heads > 0 && e->kv_heads < setup->ranks) || norms > 0;
    int64_t copied = over_ranks ? norms + (blocks > e->kv_heads ? e->copied : 0) : 0;
    char what[96];
    snprintf(what, sizeof what, "%s, %d ranks, copies", e->name, setup->ranks);
    check_count(what, &got->reduce, over_ranks, copied, copied * wide);
}

/* Operators f and g as all-reduces; with sequence parallelism as gathers and scatters, of the rows of a
 * rank. What is reduced for a loss stays. */
static void check_run(const expected *e, const tp_full *full, const tp_setup *setup) {
    tp_result *r = tp_run(tp_case_find(e->name), full, setup);
    int64_t width = tp_width(setup->dtype);
    int64_t wide = tp_width(tp_wide(setup->dtype)); /* of a loss's sums, and of gradients */
    int64_t blocks = setup->blocks ? setup->blocks : setup->ranks;
    int64_t rows = (full->tokens + blocks - 1) / blocks * blocks / setup->ranks;
    int parted = (setup->flags & TPP_ENV_SEQUENCE) && !full->all_rows;
    int64_t g = e->forward_cols * full->out_cols, f = e->backward_cols * full->in_cols;
    int64_t calls_f = e->backward, calls_g = g ? e->forward - (e->forward_tokens ? 2 : 0) : 0;
    int64_t whole = parted ? 0 : full->tokens, part = parted ? rows : 0;
    int64_t loss = full->tokens * e->forward_tokens, said = parted ? calls_g : 0;
    char what[96];
    snprintf(what, sizeof what, "%s, %d ranks, forward", e->name, setup->ranks);
    check_count(what, &r->forward.reduce, e->forward - said, whole * g + loss,
                whole * g * width + loss * wide);
    check_count(what, &r->forward.gather, parted * calls_f, part * f, part * f * width);
    check_count(what, &r->forward.scatter, parted * calls_g, part * g, part * g * width);
    snprintf(what, sizeof what, "%s, %d ranks, backward", e->name, setup->ranks);
    int64_t once_more = strstr(e->name, "early") ? 0 : 1; /* f's input is gathered again */
    again a = again_of(e->name);
    int64_t sums = calls_f + a.g, sum = f + a.g * full->in_cols;
    int64_t gathers = calls_g + once_more * calls_f + a.f;
    int64_t gathered = part * (g + once_more * f + a.f * full->in_cols);
    check_count(what, &r->backward.reduce, parted ? 0 : sums, whole * sum, whole * sum * width);
    check_count(what, &r->backward.gather, parted * gathers, gathered, gathered * width);
    check_count(what, &r->backward.scatter, parted * sums, part * sum, part * sum * width);
    check_count("weight half", &r->weight.reduce, 0, 0, 0);
    check_count("weight half", &r->weight.gather, 0, 0, 0);
    check_count("weight half", &r->weight.scatter, 0, 0, 0);
    check_copies(e, full, setup, &r->copies);
    tp_result_free(r);
}

static void test_counts(void **state) {
    static const tpp_dtype types[] = {TPP_F64, TPP_F32, TPP_BF16};
    const expected *e = *state;
    tp_full *full = tp_full_inputs(tp_case_find(e->name), 3, 5, 2);
    for (int i = 0; i < 24; i++) {
        tp_setup setup = {0};
        setup.flags = i >= 12 ? TPP_ENV_SEQUENCE : 0;
        setup.ranks = i % 2 ? 4 : 2;
        setup.blocks = i % 4 < 2 ? 0 : 8;
        setup.dtype = types[i % 3];
        setup.halves = i % 12 >= 6;
        check_run(e, full, &setup);
    }
    tp_full_free(full);
}

/* Every case has a row. */
static void test_table(void **state) {
    (void)state;
    size_t i = 0;
    for (const tp_case *c = tp_cases; c->name; c++, i++)
        assert_string_equal(c->name, table[i].name);
    assert_int_equal(i, sizeof table / sizeof *table);
}

/* A transport of two ranks without a second one: what is reduced stays as it is. It and the product
 * write down what happens: G a product, S a collective starts, W it is over. */
static char notes[256];

static void note(char what) {
    size_t used = strlen(notes);
    if (used + 1 < sizeof notes) {
        notes[used] = what;
        notes[used + 1] = 0;
    }
}

static tpp_status noted_message(void *ctx, const tpp_comm_call *call, tpp_request *request) {
    (void)ctx;
    (void)call;
    (void)request;
    return TPP_ERR_UNSUPPORTED;
}

static tpp_status noted_collective(void *ctx, const tpp_comm_call *call, tpp_request *request) {
    (void)ctx;
    (void)request;
    if (call->out != call->in && call->count > 0)
        memcpy(call->out, call->in, (size_t)(call->count * tp_width(call->dtype)));
    note('S');
    return TPP_OK;
}

static tpp_status noted_test(void *ctx, tpp_request *request) {
    (void)ctx;
    (void)request;
    note('W');
    return TPP_OK;
}

static tpp_status noted_gemm(void *ctx, const tpp_gemm_call *call) {
    const tpp_gemm_ops *reference = ctx;
    note('G');
    return reference->gemm(reference->ctx, call);
}

static void run_noted(const tp_case *c, char *got, size_t bytes) {
    const tpp_gemm_ops *reference = tpp_gemm_builtin(TPP_GEMM_REFERENCE);
    tpp_gemm_ops gemm = {sizeof gemm, 0, (void *)(size_t)reference, noted_gemm};
    tpp_comm_ops ops = {0};
    tpp_comm *comm = NULL;
    ops.size = sizeof ops;
    ops.send = noted_message;
    ops.recv = noted_message;
    ops.test = noted_test;
    ops.collective = noted_collective;
    assert_int_equal(tpp_comm_create(&comm, &ops, NULL, 0, 2, 0, NULL), TPP_OK);
    tp_full *full = tp_full_inputs(c, 1, 3, 1);
    tp_setup setup = {0};
    tp_rank rank;
    setup.ranks = 2;
    setup.dtype = TPP_F32;
    setup.gemm = &gemm;
    assert_int_equal(tp_rank_open(&rank, c, full, &setup, comm, 0), TPP_OK);
    assert_int_equal(tpp_layer_forward(rank.layer, &rank.call), TPP_OK);
    notes[0] = 0;
    assert_int_equal(tpp_layer_backward(rank.layer, &rank.call), TPP_OK);
    snprintf(got, bytes, "%s", notes);
    tp_rank_close(&rank);
    tp_rank_free(&rank);
    tp_full_free(full);
    tpp_comm_destroy(comm);
}

/* Between start and end of operator f's sum lie the products of all weight gradients of
 * the layer. */
static void test_overlap(void **state) {
    static const struct {
        const char *name;
        int between;
    } layers[] = {{"linear column, no bias", 1}, {"mlp", 2},       {"mlp, swiglu", 2},
                  {"mlp, swiglu, separate", 3},  {"attention", 2}, {"attention, multi-query", 4}};
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        char got[sizeof notes];
        run_noted(tp_case_find(layers[i].name), got, sizeof got);
        const char *start = strchr(got, 'S');
        assert_non_null(start);
        const char *end = strchr(start, 'W');
        assert_non_null(end);
        assert_null(strchr(start + 1, 'S'));
        if (end - start - 1 != layers[i].between)
            fail_msg("%s: %s", layers[i].name, got);
        assert_int_equal(strspn(end, "W"), strlen(end));
    }
}

int main(void) {
    struct CMUnitTest tests[256] = {{0}};
    size_t count = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        tests[count++] =
            (struct CMUnitTest){table[i].name, test_counts, NULL, NULL, (void *)(size_t)&table[i]};
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_table);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_overlap);
    return _cmocka_run_group_tests("test_tp_comm", tests, count, NULL, NULL);
}
