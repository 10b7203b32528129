/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* K/V heads fewer than ranks: every number of heads is right or refused at creation (O13); the
 * gradients of a copied head are the sum over its copies, on every rank that holds one (O14). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/tp_run.h"

static void assert_says(const char *part) {
    if (!strstr(tpp_message(), part))
        fail_msg("\"%s\" does not say \"%s\"", tpp_message(), part);
}

static tpp_attention_desc heads_of(int32_t heads, int32_t kv_heads) {
    return (tpp_attention_desc){
        .size = sizeof(tpp_attention_desc),
        .hidden = 3,
        .heads = heads,
        .head_cols = 2,
        .kv_heads = kv_heads,
    };
}

static tpp_status create_on(const tpp_attention_desc *d, int32_t rank, int32_t ranks) {
    tpp_layer_env env = {0};
    tpp_layer *layer = NULL;
    env.size = sizeof env;
    env.comm = tp_comm_stub(rank, ranks);
    tpp_status status = tpp_attention_create(&layer, &env, d);
    assert_true((layer != NULL) == (status == TPP_OK));
    tpp_layer_destroy(layer);
    tpp_comm_destroy(env.comm);
    return status;
}

/* Forward, backward and the sum of copies on `ranks` ranks equal the unsplit result. */
static void check_heads(const tpp_attention_desc *d, int32_t ranks, int32_t blocks, int64_t seq) {
    const tp_case c = {"heads", &tp_kind_attention, d};
    tp_full *full = tp_full_new(&c, 1, seq, (uint64_t)(d->heads * 17 + ranks));
    tp_setup setup = {0};
    setup.ranks = ranks;
    setup.blocks = blocks;
    setup.dtype = TPP_F64;
    tp_result *result = tp_run(&c, full, &setup);
    tp_check(result, full, 1e-13);
    tp_result_free(result);
    tp_full_free(full);
}

static void test_all_heads(void **state) {
    (void)state;
    for (int32_t heads = 1; heads <= 16; heads++) {
        for (int32_t kv = 1; kv <= heads; kv++) {
            tpp_attention_desc d = heads_of(heads, kv);
            for (int32_t ranks = 1; heads % kv == 0 && ranks <= 16; ranks++) {
                int fits = heads % ranks == 0 && (kv % ranks == 0 || ranks % kv == 0);
                for (int32_t r = 0; r < ranks; r++)
                    assert_int_equal(create_on(&d, r, ranks), fits ? TPP_OK : TPP_ERR_INVALID);
                if (fits)
                    check_heads(&d, ranks, 0, 3);
            }
        }
    }
}

/* The two of O13. */
static void test_smallest(void **state) {
    tpp_attention_desc right = heads_of(8, 2), wrong = heads_of(6, 2);
    (void)state;
    check_heads(&right, 4, 0, 5);
    check_heads(&right, 2, 8, 5);
    assert_int_equal(create_on(&wrong, 1, 4), TPP_ERR_INVALID);
    assert_says("desc.heads = 6");
    assert_says("desc.kv_heads = 2");
    assert_says("tp = 4");
    assert_says("allow: 1, 2, 6");
}

/* What a rank holds of the reference's gradient of one parameter, before and after the sum. */
typedef struct pair {
    const tp_case *c;
    const tp_full *full;
    tp_setup setup;
} pair;

static double off(const tp_rank *r, int32_t n) {
    const tpp_shard *s = &r->shard[n];
    const double *got = (const double *)(void *)((char *)r->grads.data + r->offset[n]);
    int64_t cols = tpp_shard_cols(s);
    double worst = 0;
    for (int64_t i = 0; i < tpp_shard_rows(s) * cols; i++) {
        int64_t at = i / cols * s->cols + tpp_shard_index(s, i % cols);
        double far = got[i] - (double)r->full->param[n].grad[at];
        worst = far > worst ? far : -far > worst ? -far : worst;
    }
    return worst;
}

static tpp_status sum_rank(tpp_comm *comm, int32_t rank, void *arg) {
    const pair *p = arg;
    tp_rank r;
    TP_TRY(tp_rank_open(&r, p->c, p->full, &p->setup, comm, rank));
    TP_TRY(tpp_layer_forward(r.layer, &r.call));
    TP_TRY(tpp_layer_backward(r.layer, &r.call));
    for (int32_t n = 0; n < p->full->params; n++)
        TP_NEED(r.shard[n].copies == 0 || off(&r, n) > 1e-3);
    TP_TRY(tp_rank_sum_copies(&r));
    for (int32_t n = 0; n < p->full->params; n++)
        TP_NEED(r.shard[n].copies == 0 || off(&r, n) < 1e-13);
    TP_TRY(tp_rank_verify(&r));
    tp_rank_close(&r);
    tp_rank_free(&r);
    return TPP_OK;
}

/* O14: dW_K and dW_V on every rank that holds the head; with 2 K/V heads on 4 ranks the sum stays
 * within the pair. */
static void test_gradients(void **state) {
    static const int32_t cases[][3] = {{4, 1, 2}, {4, 2, 4}, {8, 2, 8}, {4, 1, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tpp_attention_desc d = heads_of(cases[i][0], cases[i][1]);
        d.flags = TPP_ATTENTION_NO_BIAS; /* the gradient of k.bias is 0 */
        const tp_case c = {"heads", &tp_kind_attention, &d};
        tp_full *full = tp_full_new(&c, 1, 3, 5);
        pair p = {&c, full, {0}};
        p.setup.ranks = cases[i][2];
        p.setup.blocks = cases[i][2] == 1 ? 4 : 0; /* copies inside one rank */
        p.setup.dtype = TPP_F64;
        tp_ranks_run(p.setup.ranks, sum_rank, &p);
        tp_full_free(full);
    }
}

/* Without copies nothing is looked at; with them everything is checked. */
static void test_door(void **state) {
    tp_setup setup = {.ranks = 1, .blocks = 4, .dtype = TPP_F32};
    tp_rank r;
    (void)state;
    assert_int_equal(tpp_layer_sum_copies(NULL, NULL, NULL, 0), TPP_ERR_INVALID);
    assert_says("layer");
    tp_full *plain = tp_full_inputs(tp_case_find("attention"), 1, 2, 1);
    assert_int_equal(tp_rank_open(&r, tp_case_find("attention"), plain, &setup, NULL, 0), TPP_OK);
    assert_int_equal(r.info.copies_bytes, 0);
    assert_int_equal(tpp_layer_sum_copies(r.layer, NULL, NULL, 0), TPP_OK);
    tp_rank_close(&r);
    tp_rank_free(&r);
    tp_full_free(plain);
    const tp_case *c = tp_case_find("attention, multi-query");
    tp_full *full = tp_full_inputs(c, 1, 2, 1);
    assert_int_equal(tp_rank_open(&r, c, full, &setup, NULL, 0), TPP_OK);
    int64_t need = r.info.copies_bytes;
    assert_in_range(need, 2 * (24 + 1) * 3 * 4, 2 * (24 + 1) * 3 * 4 + 4 * 64);
    tp_memory m = tp_memory_new(need, TP_NAN);
    void *grads = r.grads.data;
    assert_int_equal(tpp_layer_sum_copies(r.layer, NULL, m.data, need), TPP_ERR_INVALID);
    assert_says("grads");
    assert_int_equal(tpp_layer_sum_copies(r.layer, grads, NULL, need), TPP_ERR_INVALID);
    assert_says("scratch");
    assert_int_equal(tpp_layer_sum_copies(r.layer, grads, (char *)m.data + 8, need),
                     TPP_ERR_INVALID);
    assert_says("aligned");
    assert_int_equal(tpp_layer_sum_copies(r.layer, grads, m.data, need - 1), TPP_ERR_TOO_SMALL);
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)need);
    assert_says(text);
    assert_int_equal(tpp_layer_sum_copies(r.layer, grads, m.data, need), TPP_OK);
    assert_true(tp_memory_intact(&m));
    tp_memory_free(&m);
    tp_rank_close(&r);
    tp_rank_free(&r);
    tp_full_free(full);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_heads),
        cmocka_unit_test(test_smallest),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_door),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
