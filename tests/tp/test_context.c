/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Context parallelism: sequences spread over ranks, by ring and by all-to-all, alone and with tensor
 * parallelism, against the unsplit reference; messages as the headers say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/tp_run.h"

static const tpp_rope_desc rope = {.size = sizeof rope, .theta = 100};
static const tpp_attention_desc plain = {.size = sizeof plain, .hidden = 16, .heads = 8};
static const tpp_attention_desc grouped = {
    .size = sizeof grouped, .hidden = 9, .heads = 16, .head_cols = 4, .kv_heads = 8, .rope = &rope};
static const tpp_attention_desc windowed = {
    .size = sizeof windowed, .hidden = 16, .heads = 8, .window = 5};
static const tpp_attention_desc unmasked = {
    .size = sizeof unmasked, .flags = TPP_ATTENTION_FULL, .hidden = 16, .heads = 8, .rope = &rope};
static const tpp_block_desc block = {.size = sizeof block,
                                     .flags = TPP_BLOCK_NO_BIAS | TPP_BLOCK_QK_NORM,
                                     .hidden = 16,
                                     .ffn = 16,
                                     .heads = 8,
                                     .head_cols = 4,
                                     .act = TPP_ACT_SWIGLU,
                                     .norm = TPP_NORM_RMS,
                                     .rope = &rope,
                                     .dropout = 0.5};
static const tp_gpt_desc gpt = {13, 16, 70, 8, 2, 0, 0, 0};

static const struct {
    tp_case c;
    int deals; /* has a descriptor that can ask for all-to-all */
} cases[] = {
    {{"attention", &tp_kind_attention, &plain}, 1},
    {{"attention, grouped", &tp_kind_attention, &grouped}, 1},
    {{"attention, window", &tp_kind_attention, &windowed}, 1},
    {{"attention, full", &tp_kind_attention, &unmasked}, 1},
    {{"block", &tp_kind_block, &block}, 0},
    {{"gpt", &tp_kind_gpt, &gpt}, 0},
};

enum { RANKS = 8 };

/* One rank: its layer, and its gradients for the main thread. */
typedef struct rank {
    int32_t params;
    tpp_shard shard[TP_PARAMS];
    int64_t offset[TP_PARAMS];
    int32_t number[TP_PARAMS]; /* in full->param */
    tp_memory grads;
    tpp_comm_count forward, backward; /* messages over the context group */
} rank;

typedef struct job {
    const tp_case *c;
    const tp_full *full;
    int32_t tp, cp;
    tpp_dtype dtype;
    int halves;
    uint32_t flags; /* of env */
    tp_result *result;
    rank ranks[RANKS];
} job;

/* Row `row` of rank `who`'s part in the unsplit call. */
static int64_t whole_row(const job *j, int32_t who, int64_t row) {
    int64_t seq = j->full->seq / j->cp;
    return row / seq * j->full->seq + tpp_context_index(j->cp, who, seq, row % seq);
}

static void load_rows(const job *j, int32_t who, tpp_mat *m, const ref_real *full) {
    for (int64_t i = 0; i < m->rows * m->cols; i++)
        tp_store(m->dtype, m->data, i,
                 full[whole_row(j, who, i / m->cols) * m->cols + i % m->cols]);
}

static void give_rows(const job *j, int32_t who, const tpp_mat *m, void *full) {
    int64_t bytes = m->cols * tp_width(m->dtype);
    for (int64_t r = 0; r < m->rows; r++)
        memcpy((char *)full + whole_row(j, who, r) * bytes, (char *)m->data + r * bytes,
               (size_t)bytes);
}

static tpp_status load_params(job *j, rank *r, const tpp_layer *layer, char *params) {
    tpp_param_info p = {.size = sizeof p};
    for (r->params = 0; r->params < j->full->params; r->params++) {
        int32_t n = 0;
        TP_TRY(tpp_layer_param(layer, r->params, &p));
        while (strcmp(j->full->param[n].name, p.name) != 0)
            n++;
        int64_t count = j->full->param[n].rows * j->full->param[n].cols;
        double *all = calloc((size_t)count, sizeof *all);
        TP_NEED(all);
        for (int64_t i = 0; i < count; i++)
            tp_store(j->dtype, all, i, j->full->param[n].value[i]);
        TP_TRY(tpp_shard_split(&p.shard, all, params + p.offset, j->dtype));
        free(all);
        r->shard[r->params] = p.shard;
        r->offset[r->params] = p.grad_offset;
        r->number[r->params] = n;
    }
    return TPP_OK;
}

static tpp_mat matrix(tp_memory *memory, int64_t rows, int64_t cols, tpp_dtype dtype) {
    *memory = tp_memory_new(rows * cols * tp_width(dtype), TP_NAN);
    return (tpp_mat){.data = memory->data, .rows = rows, .cols = cols, .dtype = dtype};
}

/* What was counted is what the layer tells of itself. */
static tpp_status check_cost(const tpp_layer *layer, tpp_cost_call call, int64_t batch, int64_t seq,
                             tpp_comm_kind kind, const tpp_comm_count *counted) {
    tpp_layer_cost cost = {.size = sizeof cost};
    TP_TRY(tpp_layer_cost_query(layer, call, batch, seq, &cost));
    TP_NEED(cost.context[kind].calls == counted->calls);
    TP_NEED(cost.context[kind].elements == counted->elements);
    TP_NEED(cost.context[kind].bytes == counted->bytes);
    return TPP_OK;
}

static tpp_status run_layer(job *j, rank *r, const tpp_layer *layer, int32_t who, int32_t lane,
                            tpp_comm *traced) {
    const tp_full *f = j->full;
    tpp_layer_info info = {.size = sizeof info};
    int64_t seq = f->seq / j->cp, tokens = f->batch * seq;
    tpp_comm_count summed;
    tp_memory m[8];
    TP_TRY(tpp_layer_query(layer, f->batch, seq, &info));
    tpp_call call = {.size = sizeof call, .batch = f->batch, .seq = seq};
    call.in = matrix(&m[0], tokens, info.in_cols, info.in_dtype);
    call.out = matrix(&m[1], tokens, info.out_cols, info.out_dtype);
    call.grad_out = matrix(&m[2], tokens, info.out_cols, info.out_dtype);
    call.grad_in = matrix(&m[3], tokens, info.in_cols, info.in_dtype);
    call.saved_bytes = info.saved_bytes + (j->halves ? info.split_bytes : 0);
    call.scratch_bytes = info.scratch_bytes;
    m[4] = tp_memory_new(call.saved_bytes, TP_NAN),
    m[5] = tp_memory_new(call.scratch_bytes, TP_NAN);
    m[6] = tp_memory_new(info.state_bytes, TP_NAN), m[7] = tp_memory_new(tokens * 4, TP_NAN);
    r->grads = tp_memory_new(info.grad_bytes, TP_NAN);
    memset(r->grads.data, 0, (size_t)info.grad_bytes);
    call.saved = m[4].data, call.scratch = m[5].data;
    call.dropout_seed = f->dropout_seed;
    call.params = m[6].data, call.grads = r->grads.data;
    TP_TRY(load_params(j, r, layer, m[6].data));
    for (int64_t i = 0; i < tokens && f->ids; i++)
        ((int32_t *)m[0].data)[i] = f->ids[whole_row(j, who, i)];
    for (int64_t i = 0; i < tokens && f->targets; i++)
        ((int32_t *)m[7].data)[i] = f->targets[whole_row(j, who, i)];
    call.targets = f->targets ? m[7].data : NULL;
    if (!f->ids)
        load_rows(j, who, &call.in, f->in);
    load_rows(j, who, &call.grad_out, f->grad_out);
    TP_TRY(tpp_layer_forward(layer, &call));
    TP_TRY(tpp_comm_traced_get(traced, TPP_COMM_SEND, &r->forward));
    TP_TRY(check_cost(layer, TPP_COST_FORWARD, f->batch, seq, TPP_COMM_SEND, &r->forward));
    TP_TRY(tpp_comm_traced_reset(traced));
    tp_memory_fill(&m[5], TP_NAN);
    if (j->halves)
        TP_TRY(tpp_layer_backward_input(layer, &call));
    TP_TRY(j->halves ? tpp_layer_backward_weight(layer, &call) : tpp_layer_backward(layer, &call));
    TP_TRY(tpp_comm_traced_get(traced, TPP_COMM_SEND, &r->backward));
    TP_TRY(check_cost(layer, j->halves ? TPP_COST_INPUT : TPP_COST_BACKWARD, f->batch, seq,
                      TPP_COMM_SEND, &r->backward));
    tp_memory scratch = tp_memory_new(info.copies_bytes, TP_NAN);
    TP_TRY(tpp_layer_sum_copies(layer, r->grads.data, scratch.data, scratch.bytes));
    TP_TRY(tpp_layer_sum_context(layer, r->grads.data));
    TP_TRY(tpp_comm_traced_get(traced, TPP_COMM_ALL_REDUCE, &summed));
    TP_TRY(check_cost(layer, TPP_COST_CONTEXT, f->batch, seq, TPP_COMM_ALL_REDUCE, &summed));
    tp_memory_free(&scratch);
    if (lane == 0) { /* ranks of a tensor-parallel group have the same rows */
        give_rows(j, who, &call.out, j->result->out);
        if (!f->ids)
            give_rows(j, who, &call.grad_in, j->result->grad_in);
    }
    for (int i = 0; i < 8; i++) {
        TP_NEED(tp_memory_intact(&m[i]));
        tp_memory_free(&m[i]);
    }
    return TPP_OK;
}

static tpp_status run_rank(tpp_comm *world, int32_t number, void *arg) {
    job *j = arg;
    int32_t who = number / j->tp, lane = number % j->tp;
    tpp_comm *tensor, *context, *traced;
    tpp_layer *layer;
    TP_TRY(tpp_comm_split(world, &tensor, who, lane));
    TP_TRY(tpp_comm_split(world, &context, lane, who));
    TP_TRY(tpp_comm_traced_create(&traced, context, NULL));
    tpp_layer_env env = {.size = sizeof env, .comm = tensor, .dtype = j->dtype, .context = traced};
    env.flags = j->flags;
    TP_TRY(j->c->kind->create(&layer, &env, j->c->desc));
    TP_TRY(run_layer(j, &j->ranks[number], layer, who, lane, traced));
    tpp_layer_destroy(layer);
    tpp_comm_destroy(traced);
    tpp_comm_destroy(context);
    tpp_comm_destroy(tensor);
    return TPP_OK;
}

static void new_result(job *j) {
    const tp_full *f = j->full;
    tp_result *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->dtype = r->out_dtype = r->grad_dtype = j->dtype;
    r->params = f->params;
    r->tokens = r->out_rows = f->tokens;
    r->in_cols = f->in_cols;
    r->out_cols = f->out_cols;
    int64_t width = tp_width(j->dtype);
    r->out = calloc((size_t)(f->tokens * f->out_cols), (size_t)width);
    r->grad_in = f->ids ? NULL : calloc((size_t)(f->tokens * f->in_cols), (size_t)width);
    for (int32_t n = 0; n < f->params; n++) {
        r->count[n] = f->param[n].rows * f->param[n].cols;
        r->grad[n] = calloc((size_t)r->count[n], (size_t)width);
        snprintf(r->name[n], sizeof r->name[n], "grad of %.36s", f->param[n].name);
    }
    j->result = r;
}

/* Every rank of the context group has all of the sum. */
static void gather_grads(job *j) {
    for (int32_t who = 0; who < j->tp * j->cp; who++) {
        rank *r = &j->ranks[who];
        const rank *first = &j->ranks[who % j->tp];
        for (int32_t i = 0; i < r->params; i++) {
            const char *part = (const char *)r->grads.data + r->offset[i];
            int64_t bytes =
                tpp_shard_rows(&r->shard[i]) * tpp_shard_cols(&r->shard[i]) * tp_width(j->dtype);
            assert_same_bits("context ranks", part, (const char *)first->grads.data + r->offset[i],
                             (uint64_t)bytes);
            assert_int_equal(
                tpp_shard_join(&r->shard[i], part, j->result->grad[r->number[i]], j->dtype),
                TPP_OK);
        }
    }
    for (int32_t who = 0; who < j->tp * j->cp; who++)
        tp_memory_free(&j->ranks[who].grads);
}

static void check_with(const tp_case *c, const tp_full *f, int32_t tp, int32_t cp, tpp_dtype dtype,
                       uint32_t flags, rank *out) {
    job j = {.c = c, .full = f, .tp = tp, .cp = cp, .dtype = dtype, .flags = flags};
    j.halves = (tp + cp) % 2;
    new_result(&j);
    tp_ranks_run(tp * cp, run_rank, &j);
    if (out)
        *out = j.ranks[0];
    gather_grads(&j);
    tp_check(j.result, f, dtype == TPP_F64 ? 1e-13 : 1e-5);
    tp_result_free(j.result);
}

/* A whole model also with sequence parallelism, which cuts each rank's share once more. */
static void check(const tp_case *c, const tp_full *f, int32_t tp, int32_t cp, tpp_dtype dtype,
                  rank *out) {
    check_with(c, f, tp, cp, dtype, 0, out);
    if (f->ids)
        check_with(c, f, tp, cp, dtype, TPP_ENV_SEQUENCE, out);
}

static void against_reference(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int32_t cp = 1; cp <= 4; cp *= 2) {
            tp_full *f = tp_full_new(&cases[i].c, 2, 2 * cp * 3, 5);
            for (int32_t tp = 1; tp <= 2; tp++) {
                check(&cases[i].c, f, tp, cp, TPP_F64, NULL);
                check(&cases[i].c, f, tp, cp, TPP_F32, NULL);
            }
            tp_full_free(f);
        }
        tp_full *f = tp_full_new(&cases[i].c, 1, 12, 6); /* three ranks */
        check(&cases[i].c, f, 1, 3, TPP_F64, NULL);
        tp_full_free(f);
    }
}

static void by_all_to_all(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!cases[i].deals)
            continue;
        tpp_attention_desc d = *(const tpp_attention_desc *)cases[i].c.desc;
        d.context = TPP_CONTEXT_ALL_TO_ALL;
        tp_case c = {cases[i].c.name, &tp_kind_attention, &d};
        for (int32_t cp = 2; cp <= 4; cp *= 2) {
            tp_full *f = tp_full_new(&c, 2, 2 * cp * 3, 5);
            for (int32_t tp = 1; tp <= 2; tp++) {
                check(&c, f, tp, cp, TPP_F64, NULL);
                check(&c, f, tp, cp, TPP_F32, NULL);
            }
            tp_full_free(f);
        }
    }
}

/* 2 sequences of 24 tokens over 4 context ranks: 12 tokens each; Q of 64 columns, K and V of 32. */
static void messages(void **state) {
    tpp_attention_desc d = grouped;
    tp_case c = {"grouped", &tp_kind_attention, &d};
    rank r;
    (void)state;
    tp_full *f = tp_full_new(&c, 2, 24, 3);
    int64_t k = 12 * 32, q = 12 * 64;
    check(&c, f, 1, 4, TPP_F64, &r);
    assert_int_equal(r.forward.calls, 3);
    assert_int_equal(r.forward.elements, 3 * 2 * k);
    assert_int_equal(r.backward.calls, 7);
    assert_int_equal(r.backward.elements, 7 * 2 * k);
    d.context = TPP_CONTEXT_ALL_TO_ALL;
    check(&c, f, 1, 4, TPP_F64, &r);
    assert_int_equal(r.forward.calls, 6);
    assert_int_equal(r.forward.elements, 3 * (q + 2 * k) / 4 + 3 * q / 4);
    assert_int_equal(r.backward.calls, 6);
    assert_int_equal(r.backward.elements, 3 * (3 * q + 2 * k) / 4 + 3 * (q + 2 * k) / 4);
    tp_full_free(f);
}

/* Two chunks a rank, mirrored: every token once. */
static void which_tokens(void **state) {
    (void)state;
    assert_int_equal(tpp_context_index(2, 0, 4, 0), 0);
    assert_int_equal(tpp_context_index(2, 0, 4, 2), 6);
    assert_int_equal(tpp_context_index(2, 1, 4, 0), 2);
    assert_int_equal(tpp_context_index(2, 1, 4, 3), 5);
    for (int32_t size = 1; size <= 7; size++) {
        for (int64_t seq = 0; seq <= 6; seq += 2) {
            int seen[42] = {0};
            for (int64_t i = 0; i < size * seq; i++)
                seen[tpp_context_index(size, (int32_t)(i / seq), seq, i % seq)]++;
            for (int64_t i = 0; i < size * seq; i++)
                assert_int_equal(seen[i], 1);
        }
    }
    assert_int_equal(tpp_context_index(2, 2, 4, 0), -1);
    assert_int_equal(tpp_context_index(2, 0, 4, 4), -1);
    assert_int_equal(tpp_context_index(2, 0, 3, 0), -1);
    const int64_t most = INT64_MAX / 4; /* a rank's share; a number that is odd */
    assert_int_equal(tpp_context_index(4, 0, most - 1, most - 2), 4 * (most - 1) - 1);
    assert_int_equal(tpp_context_index(4, 0, most + 1, most), -1);
}

/* Causal work is the same for every rank of the ring, and in sum that of one rank. */
static void work_is_shared(void **state) {
    (void)state;
    for (tpp_context_kind kind = TPP_CONTEXT_RING; kind <= TPP_CONTEXT_ALL_TO_ALL; kind++) {
        tpp_attention_desc d = plain;
        tpp_layer_cost whole = {.size = sizeof whole}, part = {.size = sizeof part};
        double sum = 0;
        d.context = kind;
        for (int32_t r = -1; r < 4; r++) {
            tpp_comm *context = r < 0 ? NULL : tp_comm_stub(r, 4);
            tpp_layer_env env = {.size = sizeof env, .context = context};
            tpp_layer *layer;
            assert_int_equal(tpp_attention_create(&layer, &env, &d), TPP_OK);
            assert_int_equal(tpp_layer_cost_query(layer, TPP_COST_BACKWARD, 2, r < 0 ? 400 : 100,
                                                  r < 0 ? &whole : &part),
                             TPP_OK);
            tpp_layer_destroy(layer);
            tpp_comm_destroy(context);
            if (r < 0)
                continue;
            assert_near(part.attention_flops, whole.attention_flops / 4, 0);
            assert_near(part.attention_flops_full, whole.attention_flops_full / 4, 0);
            sum += part.attention_flops;
        }
        assert_near(sum, whole.attention_flops, 0);
    }
}

static void refused(void **state) {
    tpp_comm *context = tp_comm_stub(0, 3);
    tpp_layer_env env = {.size = sizeof env, .context = context};
    tpp_attention_desc d = plain;
    tpp_layer *layer;
    (void)state;
    d.context = TPP_CONTEXT_ALL_TO_ALL;
    assert_int_equal(tpp_attention_create(&layer, &env, &d), TPP_ERR_INVALID);
    assert_string_equal(tpp_message(),
                        "desc.context = 1 (all-to-all) over 3 ranks of env.context needs heads and "
                        "kv_heads on a rank (8 and 8) that are multiples of it; use desc.context = "
                        "0 (ring)");
    d.context = 2;
    assert_int_equal(tpp_attention_create(&layer, &env, &d), TPP_ERR_INVALID);
    assert_string_equal(tpp_message(),
                        "desc.context = 2 is not accepted; accepted: 0 (ring), 1 (all-to-all)");
    d.context = TPP_CONTEXT_RING;
    assert_int_equal(tpp_attention_create(&layer, &env, &d), TPP_OK);
    tpp_call call = {.size = sizeof call, .batch = 1, .seq = 3};
    assert_int_equal(tpp_layer_forward(layer, &call), TPP_ERR_INVALID);
    assert_string_equal(tpp_message(),
                        "call.seq = 3 is odd; over the 3 ranks of env.context each holds two "
                        "chunks of a sequence, so it must be even");
    int32_t lengths[] = {2};
    call.seq = 4, call.lengths = lengths;
    assert_int_equal(tpp_layer_forward(layer, &call), TPP_ERR_UNSUPPORTED);
    tpp_layer_destroy(layer);
    env.comm = context; /* ranks cannot have both different shards and different tokens */
    assert_int_equal(tpp_attention_create(&layer, &env, &d), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "env.context is env.comm"));
    tpp_comm_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_reference), cmocka_unit_test(by_all_to_all),
        cmocka_unit_test(messages),          cmocka_unit_test(which_tokens),
        cmocka_unit_test(refused),           cmocka_unit_test(work_is_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
