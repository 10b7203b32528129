/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Tied embeddings: one table for two layers of a chain, and copies of it on several stages, whose
 * gradients are summed. Case tables hold the chain against the reference (test_tp_reference.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/comm_user.h"
#include "support/tp_run.h"
#include <tpp/optim.h>

enum { VOCAB = 5, HIDDEN = 2, TOKENS = 6, ROOM = 4096, NUMBERS = VOCAB * HIDDEN };

static const int32_t ids[TOKENS] = {0, 3, 3, 1, 4, 0}, targets[TOKENS] = {3, 3, 1, 4, 0, 2};

/* One tied group on a rank: its embedding, its head with the loss, or both; memory of both. */
typedef struct group {
    tpp_layer *embedding, *head;
    _Alignas(64) char params[2][ROOM], grads[2][ROOM], saved[ROOM], scratch[ROOM];
    double hidden[TOKENS * HIDDEN], slope[TOKENS * HIDDEN], loss;
} group;

static tpp_layer_env env_of(const char *name, tpp_comm *comm, int32_t blocks) {
    return (tpp_layer_env){.size = sizeof(tpp_layer_env),
                           .dtype = TPP_F64,
                           .name = name,
                           .comm = comm,
                           .blocks = blocks};
}

static tpp_status group_open(group *g, const char *name, tpp_comm *comm, int32_t blocks) {
    static const tpp_loss_desc loss = {
        .size = sizeof loss, .vocab = VOCAB, .reduction = TPP_LOSS_MEAN};
    const tpp_embedding_desc embedding = {
        .size = sizeof embedding, .flags = TPP_EMBEDDING_TIED, .vocab = VOCAB, .hidden = HIDDEN};
    const tpp_head_desc head = {.size = sizeof head,
                                .flags = TPP_HEAD_COPY,
                                .hidden = HIDDEN,
                                .vocab = VOCAB,
                                .loss = &loss,
                                .block = 4};
    tpp_layer_env env = env_of(name, comm, blocks);
    memset(g, 0, sizeof *g);
    TP_TRY(tpp_embedding_create(&g->embedding, &env, &embedding));
    TP_TRY(tpp_head_create(&g->head, &env, &head));
    TP_TRY(tpp_layer_init(g->embedding, g->params[0], 7));
    TP_TRY(tpp_layer_init(g->head, g->params[1], 7));
    return TPP_OK;
}

static void group_close(group *g) {
    tpp_layer_destroy(g->embedding);
    tpp_layer_destroy(g->head);
}

static tpp_mat view(const void *data, int64_t rows, int64_t cols, tpp_dtype dtype) {
    tpp_mat m = {.rows = rows, .cols = cols, .dtype = dtype};
    memcpy(&m.data, &data, sizeof data);
    return m;
}

static tpp_call call_of(group *g, int which) {
    static const double one = 1;
    tpp_call call = {.size = sizeof call, .batch = 1, .seq = TOKENS};
    call.params = g->params[which];
    call.grads = g->grads[which];
    call.saved = g->saved;
    call.scratch = g->scratch;
    call.saved_bytes = call.scratch_bytes = ROOM;
    call.targets = targets;
    tpp_mat hidden = view(g->hidden, TOKENS, HIDDEN, TPP_F64);
    tpp_mat slope = view(g->slope, TOKENS, HIDDEN, TPP_F64);
    call.in = which ? hidden : view(ids, TOKENS, 1, TPP_I32);
    call.out = which ? view(&g->loss, 1, 1, TPP_F64) : hidden;
    call.grad_out = which ? view(&one, 1, 1, TPP_F64) : slope;
    call.grad_in = slope;
    return call;
}

/* Forward and backward of both; each gradient holds what its own layer gave. */
static tpp_status group_step(group *g) {
    tpp_call in = call_of(g, 0), out = call_of(g, 1);
    TP_TRY(tpp_layer_forward(g->embedding, &in));
    TP_TRY(tpp_layer_forward(g->head, &out));
    TP_TRY(tpp_layer_backward(g->head, &out));
    TP_TRY(tpp_layer_backward(g->embedding, &in));
    return TPP_OK;
}

/* The gradient of the whole table from one chain in which the head uses the embedding's. */
static void one_chain(double grad[NUMBERS], double *loss_out) {
    static group g;
    static const tpp_loss_desc loss = {
        .size = sizeof loss, .vocab = VOCAB, .reduction = TPP_LOSS_MEAN};
    const tpp_embedding_desc embedding = {
        .size = sizeof embedding, .vocab = VOCAB, .hidden = HIDDEN};
    tpp_head_desc head = {
        .size = sizeof head, .hidden = HIDDEN, .vocab = VOCAB, .loss = &loss, .block = 4};
    tpp_layer_env env = env_of("a.", NULL, 0);
    tpp_layer *parts[2], *inner, *chain;
    memset(&g, 0, sizeof g);
    assert_int_equal(tpp_embedding_create(&parts[0], &env, &embedding), TPP_OK);
    head.tied = parts[0];
    assert_int_equal(tpp_head_create(&parts[1], &env, &head), TPP_OK);
    assert_int_equal(tpp_chain_create(&inner, &env, &parts[1], 1), TPP_OK);
    parts[1] = inner; /* the table is one level up */
    assert_int_equal(tpp_chain_create(&chain, &env, parts, 2), TPP_OK);
    tpp_layer_info info = {.size = sizeof info};
    assert_int_equal(tpp_layer_query(chain, 1, TOKENS, &info), TPP_OK);
    assert_int_equal(info.params, 1);
    assert_int_equal(info.tied_bytes, 0);
    assert_int_equal(tpp_layer_init(chain, g.params[0], 7), TPP_OK);
    tpp_call call = call_of(&g, 0), end = call_of(&g, 1);
    call.out = end.out, call.grad_out = end.grad_out;
    assert_int_equal(tpp_layer_forward(chain, &call), TPP_OK);
    assert_int_equal(tpp_layer_backward(chain, &call), TPP_OK);
    memcpy(grad, g.grads[0], sizeof(double) * NUMBERS);
    *loss_out = g.loss;
    tpp_layer_destroy(chain);
}

static double want[NUMBERS], want_loss;

static int make_want(void **state) {
    (void)state;
    one_chain(want, &want_loss);
    return 0;
}

/* Both stages on one rank: the sum is made once, into both. It is that of the chain. */
static void test_one_rank(void **state) {
    static group g;
    _Alignas(64) static char scratch[ROOM];
    (void)state;
    assert_int_equal(group_open(&g, "a.", NULL, 0), TPP_OK);
    assert_memory_equal(g.params[0], g.params[1], sizeof(double) * NUMBERS);
    assert_int_equal(group_step(&g), TPP_OK);
    const tpp_layer *layers[] = {g.embedding, g.head};
    void *grads[] = {g.grads[0], g.grads[1]};
    assert_int_equal(tpp_layer_sum_tied(layers, grads, 2, NULL, scratch, ROOM), TPP_OK);
    assert_same_bits("copies", g.grads[0], g.grads[1], sizeof(double) * NUMBERS);
    assert_close_f64("sum", (const double *)(const void *)g.grads[0], want, NUMBERS, 1e-15);
    assert_near(g.loss, want_loss, 1e-15);
    double squares[2];
    assert_int_equal(tpp_layer_grad_squares(g.embedding, g.grads[0], &squares[0]), TPP_OK);
    assert_int_equal(tpp_layer_grad_squares(g.head, g.grads[1], &squares[1]), TPP_OK);
    assert_true(squares[0] > 0);
    assert_true(squares[1] == 0); /* a norm counts the table once */
    group_close(&g);
}

/* Two pipeline ranks, over a transport without buffers (a local message goes from buffer to buffer
 * when both sides are there) that has no collectives of its own. Two groups, which the ranks list in
 * opposite order. */
static double both[2][2][NUMBERS]; /* [rank, group] */

static tpp_status two_groups(tpp_comm *comm, int32_t rank, void *arg) {
    group *g = aligned_alloc(64, 2 * sizeof *g);
    _Alignas(64) char scratch[1024];
    tpp_comm *plain = NULL, *traced = NULL;
    tpp_comm_count count;
    (void)arg;
    TP_NEED(g != NULL);
    TP_TRY(comm_user_create(&plain, comm, 5));
    TP_TRY(tpp_comm_traced_create(&traced, plain, NULL));
    TP_TRY(group_open(&g[0], "a.", NULL, 0));
    TP_TRY(group_open(&g[1], "b.", NULL, 0));
    for (int i = 0; i < 2; i++)
        TP_TRY(group_step(&g[i]));
    const tpp_layer *layers[2];
    void *grads[2];
    for (int i = 0; i < 2; i++) {
        group *own = &g[rank == 0 ? i : 1 - i];
        layers[i] = rank == 0 ? own->embedding : own->head;
        grads[i] = own->grads[rank];
    }
    TP_TRY(tpp_layer_sum_tied(layers, grads, 2, traced, scratch, sizeof scratch));
    TP_TRY(tpp_comm_traced_get(traced, TPP_COMM_ALL_REDUCE, &count));
    TP_NEED(count.calls == 1 && count.elements == 2 * NUMBERS);
    for (int i = 0; i < 2; i++) {
        memcpy(both[rank][i], g[i].grads[rank], sizeof both[rank][i]);
        group_close(&g[i]);
    }
    tpp_comm_destroy(traced);
    tpp_comm_destroy(plain);
    free(g);
    return TPP_OK;
}

static void test_two_groups(void **state) {
    (void)state;
    tp_ranks_run(2, two_groups, NULL);
    assert_same_bits("copies", both[0], both[1], sizeof both[0]);
    assert_close_f64("first group", both[0][0], want, NUMBERS, 1e-15);
    assert_memory_not_equal(both[0][0], both[0][1], sizeof both[0][0]); /* other numbers */
}

/* tp 2 x pp 2: rank = 2 * stage + part. With fixed blocks the same bits as on one rank. */
static double parts[4][4 * HIDDEN]; /* 5 rows are padded to 8: 4 on each */

static tpp_status split_stages(tpp_comm *comm, int32_t rank, void *arg) {
    group *g = aligned_alloc(64, sizeof *g);
    _Alignas(64) char scratch[1024];
    tpp_comm *tensor = NULL, *ends = NULL;
    int32_t stage = rank / 2, part = rank % 2;
    (void)arg;
    TP_NEED(g != NULL);
    TP_TRY(tpp_comm_split(comm, &tensor, stage, rank));
    TP_TRY(tpp_comm_split(comm, &ends, part, rank));
    TP_TRY(group_open(g, "a.", tensor, 4));
    TP_TRY(group_step(g)); /* stage 0 also makes what only stage 1 needs, and the other way round */
    const tpp_layer *layer = stage == 0 ? g->embedding : g->head;
    void *grads = g->grads[stage];
    TP_TRY(tpp_layer_sum_tied(&layer, &grads, 1, ends, scratch, sizeof scratch));
    memcpy(parts[rank], grads, sizeof(double) * 4 * HIDDEN);
    group_close(g);
    tpp_comm_destroy(tensor);
    tpp_comm_destroy(ends);
    free(g);
    return TPP_OK;
}

static void test_split_stages(void **state) {
    static group g;
    _Alignas(64) static char scratch[ROOM];
    (void)state;
    tp_ranks_run(4, split_stages, NULL);
    assert_int_equal(group_open(&g, "a.", NULL, 4), TPP_OK);
    assert_int_equal(group_step(&g), TPP_OK);
    const tpp_layer *layers[] = {g.head, g.embedding};
    void *grads[] = {g.grads[1], g.grads[0]};
    assert_int_equal(tpp_layer_sum_tied(layers, grads, 2, NULL, scratch, ROOM), TPP_OK);
    const size_t bytes = sizeof parts[0];
    for (size_t part = 0; part < 2; part++)
        for (size_t stage = 0; stage < 2; stage++)
            assert_same_bits("part", parts[2 * stage + part], g.grads[0] + part * bytes, bytes);
    group_close(&g);
}

static void expect(tpp_status got, tpp_status status, const char *says) {
    if (got != status || !strstr(tpp_message(), says))
        fail_msg("%s, \"%s\"; want %s, \"%s\"", tpp_status_name(got), tpp_message(),
                 tpp_status_name(status), says);
}

static void test_sum_door(void **state) {
    static group g, other;
    _Alignas(64) static char scratch[ROOM];
    (void)state;
    assert_int_equal(group_open(&g, "a.", NULL, 0), TPP_OK);
    const tpp_layer *layers[] = {g.embedding, g.head};
    void *grads[] = {g.grads[0], g.grads[1]}, *none[] = {g.grads[0], NULL};
    tpp_layer_info info = {.size = sizeof info};
    assert_int_equal(tpp_layer_query(g.head, 0, 0, &info), TPP_OK);
    int64_t need = 2 * info.tied_bytes;
    assert_in_range(need, 2 * sizeof(double) * NUMBERS, 2 * sizeof(double) * NUMBERS + 2 * 64);
    char text[32];
    snprintf(text, sizeof text, "needs %lld", (long long)need);
    assert_int_equal(tpp_layer_sum_tied(layers, grads, 2, NULL, scratch, need), TPP_OK);
    expect(tpp_layer_sum_tied(layers, grads, 2, NULL, scratch, need - 1), TPP_ERR_TOO_SMALL, text);
    expect(tpp_layer_sum_tied(layers, grads, 2, NULL, NULL, need), TPP_ERR_INVALID, "scratch");
    expect(tpp_layer_sum_tied(layers, grads, 2, NULL, scratch + 8, need), TPP_ERR_INVALID,
           "aligned");
    expect(tpp_layer_sum_tied(layers, none, 2, NULL, scratch, need), TPP_ERR_INVALID, "grads[1]");
    expect(tpp_layer_sum_tied(layers, NULL, 2, NULL, scratch, need), TPP_ERR_INVALID, "grads");
    expect(tpp_layer_sum_tied(layers, grads, -1, NULL, scratch, need), TPP_ERR_INVALID, "-1");
    assert_int_equal(tpp_layer_sum_tied(NULL, NULL, 0, NULL, NULL, 0), TPP_OK);
    /* the same name with another shape */
    assert_int_equal(group_open(&other, "b.", NULL, 0), TPP_OK);
    tpp_layer_destroy(other.head);
    const tpp_head_desc wide = {
        .size = sizeof wide, .flags = TPP_HEAD_COPY, .hidden = HIDDEN + 1, .vocab = VOCAB};
    tpp_layer_env env = env_of("a.", NULL, 0);
    assert_int_equal(tpp_head_create(&other.head, &env, &wide), TPP_OK);
    layers[1] = other.head;
    expect(tpp_layer_sum_tied(layers, grads, 2, NULL, scratch, ROOM), TPP_ERR_INVALID,
           "a.tokens.weight");
    group_close(&g);
    group_close(&other);
}

static void refuse_head(const tpp_layer_env *env, tpp_head_desc *d, const tpp_layer *tied,
                        const char *says) {
    tpp_layer *layer;
    d->tied = tied;
    expect(tpp_head_create(&layer, env, d), TPP_ERR_INVALID, says);
    assert_null(layer);
}

static void test_tie_door(void **state) {
    static group g;
    const tpp_embedding_desc embedding = {
        .size = sizeof embedding, .vocab = VOCAB, .hidden = HIDDEN};
    tpp_head_desc d = {.size = sizeof d, .hidden = HIDDEN, .vocab = VOCAB};
    tpp_layer_env env = env_of("a.", NULL, 0), blocks = env_of("a.", NULL, 2);
    tpp_layer *tables[2], *heads[2], *chain;
    (void)state;
    memset(&g, 0, sizeof g);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tpp_embedding_create(&tables[i], &env, &embedding), TPP_OK);
    d.hidden = 3;
    refuse_head(&env, &d, tables[0], "desc.hidden = 3");
    d.hidden = HIDDEN, d.vocab = 6;
    refuse_head(&env, &d, tables[0], "desc.vocab = 6");
    d.vocab = VOCAB;
    refuse_head(&blocks, &d, tables[0], "blocks");
    d.flags = TPP_HEAD_COPY;
    refuse_head(&env, &d, tables[0], "TPP_HEAD_COPY");
    d.flags = 0;
    for (int i = 0; i < 2; i++) {
        d.tied = tables[i];
        assert_int_equal(tpp_head_create(&heads[i], &env, &d), TPP_OK);
    }
    refuse_head(&env, &d, heads[0], "desc.tied");
    tpp_loss_desc loss = {.size = sizeof loss, .vocab = VOCAB + 1};
    d.loss = &loss;
    refuse_head(&env, &d, NULL, "desc.loss.vocab = 6");
    tpp_call call = call_of(&g, 0);
    expect(tpp_layer_forward(heads[0], &call), TPP_ERR_INVALID, "tied");
    /* without the embedding: made, but not called */
    assert_int_equal(tpp_chain_create(&chain, &env, &heads[0], 1), TPP_OK);
    expect(tpp_layer_forward(chain, &call), TPP_ERR_INVALID, "tied");
    expect(tpp_layer_backward(chain, &call), TPP_ERR_INVALID, "tied");
    tpp_layer_destroy(chain);
    tpp_layer_destroy(heads[1]);
    tpp_layer_destroy(tables[0]);
    tpp_layer_destroy(tables[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank),     cmocka_unit_test(test_two_groups),
        cmocka_unit_test(test_split_stages), cmocka_unit_test(test_sum_door),
        cmocka_unit_test(test_tie_door),
    };
    return cmocka_run_group_tests(tests, make_want, NULL);
}
