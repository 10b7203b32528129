/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Custom layers: what a table must hold, what comes back from callbacks, who frees what, losses and
 * token ids. That they compute, split, halve and chain like others is in the case tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/tp_memory.h"
#include "support/tp_ranks.h"

enum { COLS = 3, TOKENS = 2 };

/* The ctx of the callbacks here: what they return, what they say, how often they were called. */
typedef struct script {
    tpp_status query, forward, input, weight;
    const char *say;
    int64_t bytes; /* what query tells, for all three */
    int destroyed;
} script;

static tpp_status play(const script *s, tpp_status status) {
    if (s->say)
        tpp_message_set(s->say);
    return status;
}

static tpp_status on_query(void *ctx, const tpp_custom_call *c, tpp_custom_needs *out) {
    const script *s = ctx;
    (void)c;
    out->saved_bytes = out->split_bytes = out->scratch_bytes = s->bytes;
    return play(s, s->query);
}

static tpp_status on_forward(void *ctx, const tpp_custom_call *c) {
    (void)c;
    return play(ctx, ((const script *)ctx)->forward);
}

static tpp_status on_input(void *ctx, const tpp_custom_call *c) {
    (void)c;
    return play(ctx, ((const script *)ctx)->input);
}

static tpp_status on_weight(void *ctx, const tpp_custom_call *c) {
    (void)c;
    return play(ctx, ((const script *)ctx)->weight);
}

static void on_destroy(void *ctx) {
    ((script *)ctx)->destroyed++;
}

static const tpp_custom_ops table = {sizeof table, 0,         on_query,   on_forward,
                                     on_input,     on_weight, on_destroy, NULL};

static tpp_custom_param param_of(const char *name) {
    return (tpp_custom_param){
        .size = sizeof(tpp_custom_param), .name = name, .rows = 2, .cols = 12};
}

/* A descriptor that is accepted, with two parameters. */
typedef struct sheet {
    tpp_layer_env env;
    tpp_custom_ops ops;
    tpp_custom_param params[2];
    tpp_custom_desc desc;
    script script;
} sheet;

static void sheet_open(sheet *s) {
    *s = (sheet){.env = {.size = sizeof s->env, .name = "mine."}, .ops = table};
    s->params[0] = param_of("weight");
    s->params[1] = param_of("bias");
    s->desc = (tpp_custom_desc){.size = sizeof s->desc,
                                .ops = &s->ops,
                                .ctx = &s->script,
                                .in_cols = COLS,
                                .out_cols = COLS,
                                .param_count = 2,
                                .params = s->params};
}

static void refuse(sheet *s, const char *says) {
    tpp_layer *layer = (tpp_layer *)(void *)s;
    tpp_message_set("");
    assert_int_equal(tpp_custom_create(&layer, &s->env, &s->desc), TPP_ERR_INVALID);
    assert_null(layer);
    if (!strstr(tpp_message(), says))
        fail_msg("\"%s\" does not say \"%s\"", tpp_message(), says);
    assert_int_equal(s->script.destroyed, 0);
    sheet_open(s);
}

static void bad_tables_are_refused(void **state) {
    sheet s;
    (void)state;
    sheet_open(&s);
    s.desc.ops = NULL;
    refuse(&s, "desc.ops is NULL");
    s.ops.forward = NULL;
    refuse(&s, "desc.ops.forward is NULL");
    s.ops.backward_input = NULL;
    refuse(&s, "desc.ops.backward_input is NULL; it must be a function unless desc.in_dtype");
    s.ops.backward_weight = NULL;
    refuse(&s, "desc.ops.backward_weight is NULL; it must be a function when");
    s.desc.in_cols = 0;
    refuse(&s, "desc.in_cols = 0");
    s.desc.out_cols = -1;
    refuse(&s, "desc.out_cols = -1");
    s.desc.in_dtype = TPP_F64;
    refuse(&s, "desc.in_dtype = 2");
    s.desc.param_count = -1;
    refuse(&s, "desc.param_count = -1");
    s.desc.params = NULL;
    refuse(&s, "desc.param_count = 2 with desc.params NULL");
    s.desc.flags = TPP_CUSTOM_ONE_ROW;
    refuse(&s, "TPP_CUSTOM_ONE_ROW without");
    assert_int_equal(tpp_custom_create(NULL, &s.env, &s.desc), TPP_ERR_INVALID);
    assert_int_equal(s.script.destroyed, 0);
}

static void bad_parameters_are_refused(void **state) {
    sheet s;
    (void)state;
    sheet_open(&s);
    s.params[1].name = "weight";
    refuse(&s, "desc.params[1].name \"weight\" is also that of desc.params[0]");
    s.params[1].name = "";
    refuse(&s, "desc.params[1].name has 0 characters");
    s.params[1].name = NULL;
    refuse(&s, "desc.params[1].name has 0 characters");
    s.params[0].name = "a name of thirty-two characters.";
    refuse(&s, "desc.params[0].name has 32 characters; accepted: 1 .. 31");
    s.params[1].rows = 0;
    refuse(&s, "desc.params[1].rows = 0");
    s.params[1].cols = -5;
    refuse(&s, "desc.params[1].cols = -5");
    s.params[1].axis = 3;
    refuse(&s, "desc.params[1].axis = 3");
    s.params[1].axis = TPP_AXIS_COLS, s.params[1].sections = 5;
    refuse(&s, "desc.params[1].sections = 5 does not divide the 12 columns");
    s.params[1].axis = TPP_AXIS_ROWS, s.env.blocks = 4;
    refuse(&s, "a section of desc.params[1] = 2 is not a multiple of blocks = 4; valid: 1, 2");
    s.params[1].init = 3;
    refuse(&s, "desc.params[1].init = 3");
    s.params[1].init_std = -1;
    refuse(&s, "desc.params[1].init_std = -1");
    s.params[1].size = 0;
    refuse(&s, "desc.params[1].size = 0");
}

/* Three sections of 4 columns over 4 blocks; the second rank of two; with padding. */
static void parameters_are_split_as_described(void **state) {
    sheet s;
    tpp_layer *layer;
    tpp_param_info p = {.size = sizeof p};
    (void)state;
    sheet_open(&s);
    s.env.comm = tp_comm_stub(1, 2);
    s.env.blocks = 4;
    s.env.flags = TPP_ENV_UNEVEN;
    s.params[0].axis = TPP_AXIS_COLS, s.params[0].sections = 3;
    s.params[1].axis = TPP_AXIS_ROWS, s.params[1].flags = TPP_PARAM_NO_DECAY;
    assert_int_equal(tpp_custom_create(&layer, &s.env, &s.desc), TPP_OK);
    assert_int_equal(tpp_layer_param(layer, 0, &p), TPP_OK);
    assert_string_equal(p.name, "mine.weight");
    assert_int_equal(p.local_rows, 2);
    assert_int_equal(p.local_cols, 6);
    assert_int_equal(tpp_shard_index(&p.shard, 0), 2); /* block 2: column 2 of section 0, of 1 .. */
    assert_int_equal(tpp_shard_index(&p.shard, 1), 6);
    assert_int_equal(p.flags, 0);
    assert_int_equal(tpp_layer_param(layer, 1, &p), TPP_OK);
    assert_int_equal(p.shard.rows, 4); /* 2 rows, and 2 of padding: those of this rank */
    assert_int_equal(p.shard.valid, 2);
    assert_int_equal(p.local_rows, 2);
    assert_int_equal(p.flags, TPP_PARAM_NO_DECAY);
    tpp_layer_destroy(layer);
    assert_int_equal(s.script.destroyed, 1);
    tpp_comm_destroy(s.env.comm);
}

/* Memory of a call, enough for a layer of the sheet alone or in a chain of three. */
typedef struct desk {
    _Alignas(64) char params[1024], grads[1024], saved[4096], scratch[4096];
    float x[TOKENS * COLS], y[TOKENS * COLS];
    tpp_call call;
} desk;

static void desk_open(desk *d) {
    memset(d, 0, sizeof *d);
    tpp_mat x = {.data = d->x, .rows = TOKENS, .cols = COLS, .dtype = TPP_F32}, y = x;
    y.data = d->y;
    d->call = (tpp_call){.size = sizeof d->call,
                         .batch = 1,
                         .seq = TOKENS,
                         .in = x,
                         .out = y,
                         .grad_out = y,
                         .grad_in = x,
                         .params = d->params,
                         .grads = d->grads,
                         .saved = d->saved,
                         .saved_bytes = sizeof d->saved,
                         .scratch = d->scratch,
                         .scratch_bytes = sizeof d->scratch};
}

/* Every call that a failing callback is part of gives its status and this sentence. */
static void check_calls(const tpp_layer *layer, const script *s, tpp_status status,
                        const char *sentence) {
    desk d;
    desk_open(&d);
    const struct {
        tpp_status (*run)(const tpp_layer *layer, const tpp_call *call);
        bool concerned;
    } calls[] = {{tpp_layer_forward, s->query || s->forward},
                 {tpp_layer_backward, s->query || s->input || s->weight},
                 {tpp_layer_backward_input, s->query || s->input},
                 {tpp_layer_backward_weight, s->query || s->weight}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        tpp_message_set("before");
        assert_int_equal(calls[i].run(layer, &d.call), calls[i].concerned ? status : TPP_OK);
        assert_string_equal(tpp_message(), calls[i].concerned ? sentence : "before");
    }
    tpp_layer_info info = {.size = sizeof info};
    assert_int_equal(tpp_layer_query(layer, 1, TOKENS, &info), s->query ? status : TPP_OK);
}

static void check_failures(const tpp_layer *layer, script *s) {
    tpp_status *const which[] = {&s->query, &s->forward, &s->input, &s->weight};
    const char *const names[] = {"query", "forward", "backward_input", "backward_weight"};
    char sentence[160];
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        *which[i] = TPP_ERR_USER - 7;
        s->say = "my own sentence";
        check_calls(layer, s, TPP_ERR_USER - 7, s->say);
        s->say = NULL;
        snprintf(sentence, sizeof sentence,
                 "%s of the custom layer \"mine.\" returned -1007 (TPP_ERR_USER) without a message",
                 names[i]);
        check_calls(layer, s, TPP_ERR_USER - 7, sentence);
        *which[i] = 5;
        snprintf(sentence, sizeof sentence,
                 "%s of the custom layer \"mine.\" returned 5; it must return TPP_OK or a negative "
                 "status",
                 names[i]);
        check_calls(layer, s, TPP_ERR_INVALID, sentence);
        *which[i] = TPP_OK;
    }
    s->bytes = -3;
    tpp_layer_info info = {.size = sizeof info};
    assert_int_equal(tpp_layer_query(layer, 1, TOKENS, &info), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "saved_bytes = -3"));
    s->bytes = INT64_MAX - 3;
    assert_int_equal(tpp_layer_query(layer, 1, TOKENS, &info), TPP_ERR_OVERFLOW);
    s->bytes = 0;
    check_calls(layer, s, TPP_OK, "");
}

static void failures_come_back_unchanged(void **state) {
    sheet s;
    tpp_layer *layers[3], *chain;
    (void)state;
    sheet_open(&s);
    assert_int_equal(tpp_custom_create(&layers[1], &s.env, &s.desc), TPP_OK);
    check_failures(layers[1], &s.script);
    tpp_norm_desc norm = {.size = sizeof norm, .cols = COLS};
    assert_int_equal(tpp_norm_create(&layers[0], &s.env, &norm), TPP_OK);
    assert_int_equal(tpp_norm_create(&layers[2], &s.env, &norm), TPP_OK);
    assert_int_equal(tpp_chain_create(&chain, &s.env, layers, 3), TPP_OK);
    check_failures(chain, &s.script);
    assert_int_equal(s.script.destroyed, 0);
    tpp_layer_destroy(chain);
    assert_int_equal(s.script.destroyed, 1);
}

/* Pieces are aligned whatever their sizes are, and refused when too small, with the whole need. */
static void odd_sizes_are_rounded_up(void **state) {
    sheet s;
    tpp_layer *layer;
    tpp_layer_info info = {.size = sizeof info};
    desk d;
    (void)state;
    sheet_open(&s);
    desk_open(&d);
    s.script.bytes = 65;
    assert_int_equal(tpp_custom_create(&layer, &s.env, &s.desc), TPP_OK);
    assert_int_equal(tpp_layer_query(layer, 1, TOKENS, &info), TPP_OK);
    assert_int_equal(info.saved_bytes, 128);
    assert_int_equal(info.split_bytes, 128);
    assert_int_equal(info.scratch_bytes, 256); /* a whole backward has its split there */
    d.call.scratch_bytes = 255;
    assert_int_equal(tpp_layer_forward(layer, &d.call), TPP_ERR_TOO_SMALL);
    assert_non_null(strstr(tpp_message(), "256"));
    tpp_layer_destroy(layer);
}

/* --- a loss: the sum of (x - target)^2 --------------------------------------------------------- */

static tpp_status loss_forward(void *ctx, const tpp_custom_call *c) {
    const float *x = c->call->in.data;
    float sum = 0;
    (void)ctx;
    for (int64_t i = 0; i < c->call->in.rows * c->call->in.cols; i++) {
        float far = x[i] - (float)c->call->targets[i / c->call->in.cols];
        sum += far * far;
    }
    *(float *)c->call->out.data = sum;
    return TPP_OK;
}

static tpp_status loss_input(void *ctx, const tpp_custom_call *c) {
    const float *x = c->call->in.data, slope = *(const float *)c->call->grad_out.data;
    float *dx = c->call->grad_in.data;
    (void)ctx;
    for (int64_t i = 0; i < c->call->in.rows * c->call->in.cols; i++)
        dx[i] = 2 * slope * (x[i] - (float)c->call->targets[i / c->call->in.cols]);
    return TPP_OK;
}

static void losses_take_targets_and_give_one_row(void **state) {
    static const int32_t targets[TOKENS] = {1, 2};
    const tpp_custom_ops ops = {
        .size = sizeof ops, .forward = loss_forward, .backward_input = loss_input};
    sheet s;
    tpp_layer *layer;
    tpp_layer_info info = {.size = sizeof info};
    desk d;
    (void)state;
    sheet_open(&s);
    desk_open(&d);
    s.desc.ops = &ops;
    s.desc.param_count = 0;
    s.desc.out_cols = 1;
    s.desc.flags = TPP_CUSTOM_TARGETS | TPP_CUSTOM_ONE_ROW;
    assert_int_equal(tpp_custom_create(&layer, &s.env, &s.desc), TPP_OK);
    assert_int_equal(tpp_layer_query(layer, 1, TOKENS, &info), TPP_OK);
    assert_true(info.targets == 1 && info.out_rows == 1 && info.out_cols == 1);
    assert_true(info.saved_bytes == 0 && info.scratch_bytes == 0 && info.params == 0);
    d.call.out.rows = d.call.out.cols = d.call.grad_out.rows = d.call.grad_out.cols = 1;
    assert_int_equal(tpp_layer_forward(layer, &d.call), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "call.targets is NULL"));
    d.call.targets = targets;
    d.x[0] = 3; /* 4 + 1 + 1 + 3 * 4 */
    assert_int_equal(tpp_layer_forward(layer, &d.call), TPP_OK);
    assert_true(d.y[0] == 18);
    d.y[0] = 0.5F;
    assert_int_equal(tpp_layer_backward(layer, &d.call), TPP_OK);
    assert_true(d.x[0] == 2 && d.x[1] == -1 && d.x[5] == -2);
    tpp_layer_destroy(layer);
    s.env.dtype = TPP_BF16;
    assert_int_equal(tpp_custom_create(&layer, &s.env, &s.desc), TPP_OK);
    assert_int_equal(tpp_layer_query(layer, 1, TOKENS, &info), TPP_OK);
    assert_int_equal(info.out_dtype, TPP_F32);
    tpp_layer_destroy(layer);
}

/* --- token ids: y = (id, 2 id, 3 id) ------------------------------------------------------------ */

static tpp_status ids_forward(void *ctx, const tpp_custom_call *c) {
    const int32_t *ids = c->call->in.data;
    float *y = c->call->out.data;
    (void)ctx;
    for (int64_t i = 0; i < c->call->out.rows * COLS; i++)
        y[i] = (float)(ids[i / COLS] * (i % COLS + 1));
    return TPP_OK;
}

static void ids_have_no_gradient(void **state) {
    static int32_t ids[TOKENS] = {4, 7};
    const tpp_custom_ops ops = {.size = sizeof ops, .forward = ids_forward};
    sheet s;
    tpp_layer *layer;
    desk d;
    (void)state;
    sheet_open(&s);
    desk_open(&d);
    s.desc.ops = &ops;
    s.desc.param_count = 0;
    s.desc.in_cols = 1;
    s.desc.in_dtype = TPP_I32;
    assert_int_equal(tpp_custom_create(&layer, &s.env, &s.desc), TPP_OK);
    d.call.in = (tpp_mat){.data = ids, .rows = TOKENS, .cols = 1, .dtype = TPP_I32};
    d.call.grad_in = (tpp_mat){0};
    assert_int_equal(tpp_layer_forward(layer, &d.call), TPP_OK);
    assert_true(d.y[2] == 12 && d.y[4] == 14);
    assert_int_equal(tpp_layer_backward(layer, &d.call), TPP_OK);
    tpp_layer_destroy(layer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_tables_are_refused),
        cmocka_unit_test(bad_parameters_are_refused),
        cmocka_unit_test(parameters_are_split_as_described),
        cmocka_unit_test(failures_come_back_unchanged),
        cmocka_unit_test(odd_sizes_are_rounded_up),
        cmocka_unit_test(losses_take_targets_and_give_one_row),
        cmocka_unit_test(ids_have_no_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
