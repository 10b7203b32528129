/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Calls that are wrong: every field of tpp_call is looked at before anything is written, and the
 * message names it; ids and targets out of range are the same typed error under every split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/tp_run.h"

typedef tpp_status (*run_fn)(const tpp_layer *layer, const tpp_call *call);

static void assert_says(const char *part) {
    if (!strstr(tpp_message(), part))
        fail_msg("\"%s\" does not say \"%s\"", tpp_message(), part);
}

static void refuse(const tp_rank *r, run_fn run, const tpp_call *call, tpp_status status,
                   const char *field) {
    tpp_message_set("");
    tpp_status got = run(r->layer, call);
    if (got != status)
        fail_msg("%s: got %s, want %s (%s)", field, tpp_status_name(got), tpp_status_name(status),
                 tpp_message());
    assert_says(field);
}

/* A matrix of the call at `offset` with each of its fields wrong. */
static void refuse_matrix(const tp_rank *r, run_fn run, size_t offset, const char *name) {
    tpp_call call = r->call;
    tpp_mat *m = (tpp_mat *)(void *)((char *)&call + offset);
    const tpp_mat good = *m;
    m->rows = good.rows + 1;
    refuse(r, run, &call, TPP_ERR_INVALID, name);
    *m = good, m->rows = -1;
    refuse(r, run, &call, TPP_ERR_INVALID, name);
    *m = good, m->cols = good.cols + 1;
    refuse(r, run, &call, TPP_ERR_INVALID, name);
    *m = good, m->cols = good.cols - 1;
    refuse(r, run, &call, TPP_ERR_INVALID, name);
    *m = good, m->dtype = good.dtype == TPP_F32 ? TPP_F64 : TPP_F32;
    refuse(r, run, &call, TPP_ERR_INVALID, name);
    *m = good, m->dtype = 0;
    refuse(r, run, &call, TPP_ERR_INVALID, name);
    *m = good, m->data = NULL;
    refuse(r, run, &call, TPP_ERR_INVALID, name);
    *m = good, m->stride = good.cols + 1; /* strided views are refused, not misread */
    refuse(r, run, &call, TPP_ERR_INVALID, name);
    *m = good, m->stride = -good.cols;
    refuse(r, run, &call, TPP_ERR_INVALID, name);
    *m = good, m->stride = good.cols;
}

#define MATRIX(run, field) refuse_matrix(&r, run, offsetof(tpp_call, field), "call." #field)

/* A pointer or count of the call. */
#define REFUSE(run, field, value)                                                                  \
    do {                                                                                           \
        tpp_call call_ = r.call;                                                                   \
        call_.field = (value);                                                                     \
        refuse(&r, run, &call_, TPP_ERR_INVALID, #field);                                          \
    } while (0)

static void check_case(const tp_case *c, tpp_dtype dtype) {
    tp_full *full = tp_full_inputs(c, 2, 3, 1);
    tp_setup setup = {0};
    tp_rank r;
    setup.ranks = 1;
    setup.blocks = 2;
    setup.dtype = dtype;
    setup.halves = 1;
    assert_int_equal(tp_rank_open(&r, c, full, &setup, NULL, 0), TPP_OK);
    MATRIX(tpp_layer_forward, in);
    MATRIX(tpp_layer_forward, out);
    MATRIX(tpp_layer_backward, in);
    MATRIX(tpp_layer_backward, grad_out);
    MATRIX(tpp_layer_backward_weight, in);
    MATRIX(tpp_layer_backward_weight, grad_out);
    if (!full->ids) {
        MATRIX(tpp_layer_backward, grad_in);
        MATRIX(tpp_layer_backward_input, grad_in);
    }
    REFUSE(tpp_layer_forward, batch, -1);
    REFUSE(tpp_layer_backward, seq, -1);
    tpp_call call = r.call;
    call.batch = 3;
    refuse(&r, tpp_layer_forward, &call, TPP_ERR_INVALID, "call.in");
    if (r.info.state_bytes > 0) {
        REFUSE(tpp_layer_forward, params, NULL);
        REFUSE(tpp_layer_forward, params, (const char *)r.call.params + 8);
        REFUSE(tpp_layer_backward, params, NULL);
        REFUSE(tpp_layer_backward, grads, NULL);
        REFUSE(tpp_layer_backward_weight, grads, (char *)r.call.grads + 32);
    }
    if (r.info.saved_bytes > 0) {
        REFUSE(tpp_layer_forward, saved, NULL);
        REFUSE(tpp_layer_backward, saved, (char *)r.call.saved + 1);
        REFUSE(tpp_layer_backward_input, saved, NULL);
    }
    if (r.info.scratch_bytes > 0) {
        REFUSE(tpp_layer_forward, scratch, NULL);
        REFUSE(tpp_layer_backward, scratch, (char *)r.call.scratch + 16);
    }
    if (full->targets) {
        REFUSE(tpp_layer_forward, targets, NULL);
        REFUSE(tpp_layer_backward, targets, NULL);
    }
    assert_int_equal(tp_rank_verify(&r), TPP_OK);
    tp_rank_close(&r);
    tp_rank_free(&r);
    tp_full_free(full);
}

static void test_fields(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        check_case(c, TPP_F32);
        check_case(c, TPP_F64);
    }
}

static void test_sized(void **state) {
    static const run_fn runs[] = {tpp_layer_forward, tpp_layer_backward, tpp_layer_backward_input,
                                  tpp_layer_backward_weight};
    struct {
        tpp_call call;
        unsigned char more[16];
    } longer;
    tp_full *full = tp_full_new(tp_case_find("mlp"), 1, 2, 1);
    tp_setup setup = {0};
    tp_rank r;
    (void)state;
    setup.ranks = 1;
    setup.dtype = TPP_F32;
    setup.halves = 1;
    assert_int_equal(tp_rank_open(&r, tp_case_find("mlp"), full, &setup, NULL, 0), TPP_OK);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        memset(&longer, 0, sizeof longer);
        longer.call = r.call;
        longer.call.size = 4;
        refuse(&r, runs[i], &longer.call, TPP_ERR_INVALID, "call");
        longer.call.size = sizeof longer;
        assert_int_equal(runs[i](r.layer, &longer.call), TPP_OK);
        longer.more[15] = 1;
        refuse(&r, runs[i], &longer.call, TPP_ERR_TOO_NEW, "call");
        longer.call.size = sizeof longer.call;
        longer.call.flags = 2;
        refuse(&r, runs[i], &longer.call, TPP_ERR_TOO_NEW, "flags");
        refuse(&r, runs[i], NULL, TPP_ERR_INVALID, "call");
        assert_int_equal(runs[i](NULL, &r.call), TPP_ERR_INVALID);
        assert_says("layer");
    }
    tp_rank_close(&r);
    tp_rank_free(&r);
    tp_full_free(full);
}

/* Query and param: sizes of the output struct, index, NULL. */
static void test_facts(void **state) {
    tpp_layer_env env = {0};
    tpp_layer *layer = NULL;
    tpp_layer_info info = {0};
    tpp_param_info p = {0};
    const tp_case *c = tp_case_find("mlp");
    (void)state;
    env.size = sizeof env;
    assert_int_equal(c->kind->create(&layer, &env, c->desc), TPP_OK);
    assert_int_equal(tpp_layer_query(layer, 1, 1, &info), TPP_ERR_INVALID);
    assert_says("size");
    assert_int_equal(tpp_layer_query(layer, 1, 1, NULL), TPP_ERR_INVALID);
    info.size = sizeof info;
    assert_int_equal(tpp_layer_query(NULL, 1, 1, &info), TPP_ERR_INVALID);
    assert_int_equal(tpp_layer_query(layer, 1, 1, &info), TPP_OK);
    assert_int_equal(info.size, sizeof info);
    memset(&info, 0x2a, sizeof info); /* an older program's shorter struct: no byte behind it */
    info.size = offsetof(tpp_layer_info, params);
    assert_int_equal(tpp_layer_query(layer, 1, 1, &info), TPP_OK);
    assert_int_equal(info.params, 0x2a2a2a2a);
    assert_int_equal(tpp_layer_param(layer, 0, &p), TPP_ERR_INVALID);
    p.size = sizeof p;
    assert_int_equal(tpp_layer_param(layer, 4, &p), TPP_ERR_INVALID);
    assert_says("4");
    assert_int_equal(tpp_layer_param(layer, -1, &p), TPP_ERR_INVALID);
    assert_int_equal(tpp_layer_param(NULL, 0, &p), TPP_ERR_INVALID);
    assert_int_equal(tpp_layer_param(layer, 0, NULL), TPP_ERR_INVALID);
    assert_int_equal(tpp_layer_param(layer, 0, &p), TPP_OK);
    tpp_layer_destroy(layer);
}

/* A batch with one id (or target) replaced; every rank answers for itself. */
typedef struct spoiled {
    const tp_case *c;
    int32_t ranks;
    int32_t id;
    int target; /* 1: it is a target */
    int too_long;
} spoiled;

static tpp_status run_spoiled(tpp_comm *comm, int32_t rank, void *arg) {
    const spoiled *s = arg;
    tp_setup setup = {0};
    tp_rank r;
    tp_full *full = tp_full_inputs(s->c, 1, s->too_long ? 71 : 3, 4);
    setup.ranks = s->ranks;
    setup.dtype = TPP_F64;
    TP_TRY(tp_rank_open(&r, s->c, full, &setup, comm, rank));
    if (!s->too_long)
        ((int32_t *)(s->target ? r.targets.data : r.in.data))[1] = s->id;
    tp_rank_seal(&r);
    tpp_status status = tpp_layer_forward(r.layer, &r.call);
    tp_counts sent;
    TP_TRY(tp_rank_count(&r, &sent));
    TP_NEED(status < 0);
    TP_NEED(sent.reduce.calls == 0 || s->c->kind == &tp_kind_gpt);
    TP_TRY(tp_rank_verify(&r));
    char message[512];
    snprintf(message, sizeof message, "%s", tpp_message());
    tp_rank_close(&r);
    tp_rank_free(&r);
    tp_full_free(full);
    tpp_message_set(message);
    return status;
}

static void check_spoiled(const char *name, int32_t id, int target, int too_long, tpp_status want,
                          const char *says) {
    for (int32_t ranks = 1; ranks <= 4; ranks *= 2) {
        spoiled s = {tp_case_find(name), ranks, id, target, too_long};
        tpp_status status[4];
        char messages[4][512];
        tp_ranks_try(ranks, run_spoiled, &s, status, messages[0]);
        for (int32_t i = 0; i < ranks; i++) {
            if (status[i] != want || !strstr(messages[i], says))
                fail_msg("%s with %d, rank %d of %d: %s, \"%s\"", name, id, i, ranks,
                         tpp_status_name(status[i]), messages[i]);
        }
    }
}

static void test_range(void **state) {
    (void)state;
    check_spoiled("embedding", 13, 0, 0, TPP_ERR_RANGE, "13");
    check_spoiled("embedding", 15, 0, 0, TPP_ERR_RANGE, "15"); /* a padded row */
    check_spoiled("embedding", -1, 0, 0, TPP_ERR_RANGE, "-1");
    check_spoiled("embedding", INT32_MAX, 0, 0, TPP_ERR_RANGE, "2147483647");
    check_spoiled("embedding", INT32_MIN, 0, 0, TPP_ERR_RANGE, "-2147483648");
    check_spoiled("embedding", 0, 0, 1, TPP_ERR_INVALID, "71");
    check_spoiled("loss", 29, 1, 0, TPP_ERR_RANGE, "29");
    check_spoiled("loss", 31, 1, 0, TPP_ERR_RANGE, "31");
    check_spoiled("loss", -1, 1, 0, TPP_ERR_RANGE, "-1");
    check_spoiled("loss", INT32_MIN, 1, 0, TPP_ERR_RANGE, "-2147483648");
    check_spoiled("loss, ignore", -1, 1, 0, TPP_ERR_RANGE, "-1"); /* -100 is ignored */
    check_spoiled("loss, ignore", 21, 1, 0, TPP_ERR_RANGE, "21");
    check_spoiled("head, fused in steps", 29, 1, 0, TPP_ERR_RANGE, "29");
    check_spoiled("head, fused in steps", -1, 1, 0, TPP_ERR_RANGE, "-1");
    check_spoiled("gpt", 13, 0, 0, TPP_ERR_RANGE, "13");
    check_spoiled("gpt", -1, 1, 0, TPP_ERR_RANGE, "-1");
    check_spoiled("gpt", 0, 0, 1, TPP_ERR_INVALID, "71");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_sized),
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
