/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* What a call with a cache refuses, each with one sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/tp_memory.h"
#include <tpp/tpp.h>

enum { BATCH = 2, SEQ = 3, ROOM = 8, HIDDEN = 8, TOKENS = BATCH * SEQ };

typedef struct rig {
    tpp_layer *layer;
    tp_memory params, scratch, cache;
    tpp_serve_info info;
    tpp_call call;
    float in[TOKENS * HIDDEN], out[TOKENS * HIDDEN];
} rig;

static void assert_says(const char *part) {
    if (!strstr(tpp_message(), part))
        fail_msg("\"%s\" does not say \"%s\"", tpp_message(), part);
}

static tpp_layer *make_block(uint32_t flags) {
    tpp_layer_env env = {.size = sizeof env};
    tpp_block_desc d = {.size = sizeof d, .flags = flags, .hidden = HIDDEN, .heads = 2};
    tpp_layer *layer;
    assert_int_equal(tpp_block_create(&layer, &env, &d), TPP_OK);
    return layer;
}

static int open_rig(void **state) {
    static rig r;
    memset(&r, 0, sizeof r);
    r.layer = make_block(0);
    tpp_layer_info info = {.size = sizeof info};
    r.info.size = sizeof r.info;
    assert_int_equal(tpp_layer_query(r.layer, BATCH, SEQ, &info), TPP_OK);
    assert_int_equal(tpp_layer_serve_query(r.layer, BATCH, SEQ, ROOM, &r.info), TPP_OK);
    r.params = tp_memory_new(info.state_bytes, TP_ZERO);
    r.scratch = tp_memory_new(r.info.scratch_bytes, TP_NAN);
    r.cache = tp_memory_new(r.info.cache_bytes, TP_NAN);
    const tpp_mat in = {.data = r.in, .rows = TOKENS, .cols = HIDDEN, .dtype = TPP_F32};
    r.call = (tpp_call){.size = sizeof r.call,
                        .flags = TPP_CALL_NO_GRAD,
                        .batch = BATCH,
                        .seq = SEQ,
                        .in = in,
                        .out = in,
                        .params = r.params.data,
                        .scratch = r.scratch.data,
                        .scratch_bytes = r.scratch.bytes,
                        .cache = r.cache.data,
                        .cache_bytes = r.cache.bytes,
                        .cache_seq = ROOM};
    r.call.out.data = r.out;
    *state = &r;
    return 0;
}

static int close_rig(void **state) {
    rig *r = *state;
    tp_memory_free(&r->params);
    tp_memory_free(&r->scratch);
    tp_memory_free(&r->cache);
    tpp_layer_destroy(r->layer);
    return 0;
}

static void refuse(const rig *r, const tpp_call *call, tpp_status status, const char *says) {
    assert_int_equal(tpp_layer_forward(r->layer, call), status);
    assert_says(says);
}

static void test_full_cache(void **state) {
    const rig *r = *state;
    tpp_call call = r->call;
    int32_t past[BATCH] = {0, ROOM - SEQ}, lengths[BATCH] = {SEQ, SEQ};
    call.past = past;
    assert_int_equal(tpp_layer_forward(r->layer, &call), TPP_OK); /* to the last place */
    past[1]++;
    refuse(r, &call, TPP_ERR_TOO_SMALL, "sequence 1 has 6 tokens in it and brings 3");
    assert_says("call.cache_seq = 8");
    call.lengths = lengths;
    lengths[1] = 2, call.in.rows = call.out.rows = TOKENS - 1;
    assert_int_equal(tpp_layer_forward(r->layer, &call), TPP_OK);
    past[1] = ROOM + 1, lengths[1] = 0, call.in.rows = call.out.rows = SEQ;
    refuse(r, &call, TPP_ERR_TOO_SMALL, "has 9 tokens in it and brings 0"); /* though it rests */
    past[1] = ROOM;
    assert_int_equal(tpp_layer_forward(r->layer, &call), TPP_OK);
    past[1] = INT32_MAX;
    refuse(r, &call, TPP_ERR_TOO_SMALL, "2147483647");
    past[1] = -1;
    refuse(r, &call, TPP_ERR_INVALID, "call.past[1] = -1");
}

static void test_memory(void **state) {
    const rig *r = *state;
    tpp_call call = r->call;
    call.cache_bytes--;
    refuse(r, &call, TPP_ERR_TOO_SMALL, "call.cache_bytes");
    call = r->call, call.cache = NULL;
    refuse(r, &call, TPP_ERR_INVALID, "call.cache is NULL");
    call = r->call, call.cache = (char *)r->cache.data + 8;
    refuse(r, &call, TPP_ERR_INVALID, "call.cache is not aligned");
    call = r->call, call.scratch_bytes--;
    refuse(r, &call, TPP_ERR_TOO_SMALL, "call.scratch_bytes");
    call = r->call, call.cache_seq = 0; /* else the tokens before these would not be seen */
    refuse(r, &call, TPP_ERR_INVALID, "call.cache is set and call.cache_seq = 0");
    call = r->call, call.cache_seq = -1;
    refuse(r, &call, TPP_ERR_INVALID, "cache_seq = -1");
    call = r->call, call.cache_seq = (int64_t)1 << 40;
    refuse(r, &call, TPP_ERR_INVALID, "cache_seq = 1099511627776");
    call = r->call, call.cache_seq = INT32_MAX;
    refuse(r, &call, TPP_ERR_TOO_SMALL, "call.cache_bytes");
}

static void test_gradients(void **state) {
    const rig *r = *state;
    tpp_call call = r->call;
    call.flags = 0;
    refuse(r, &call, TPP_ERR_INVALID, "call.cache without TPP_CALL_NO_GRAD");
    call.cache = NULL;
    refuse(r, &call, TPP_ERR_INVALID, "call.cache without TPP_CALL_NO_GRAD");
    call = r->call;
    call.grad_in = call.in, call.grad_out = call.out;
    call.grads = r->scratch.data;
    tpp_status (*const backwards[])(const tpp_layer *, const tpp_call *) = {
        tpp_layer_backward, tpp_layer_backward_input, tpp_layer_backward_weight};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(backwards[i](r->layer, &call), TPP_ERR_INVALID);
        assert_says("TPP_CALL_NO_GRAD");
    }
}

static void test_query(void **state) {
    const rig *r = *state;
    tpp_serve_info info = {.size = sizeof info};
    assert_int_equal(tpp_layer_serve_query(NULL, 1, 1, 1, &info), TPP_ERR_INVALID);
    assert_int_equal(tpp_layer_serve_query(r->layer, 1, 1, 1, NULL), TPP_ERR_INVALID);
    assert_int_equal(tpp_layer_serve_query(r->layer, -1, 1, 1, &info), TPP_ERR_INVALID);
    assert_says("batch = -1");
    assert_int_equal(tpp_layer_serve_query(r->layer, 1, 1, -1, &info), TPP_ERR_INVALID);
    assert_says("cache_seq = -1");
    assert_int_equal(tpp_layer_serve_query(r->layer, INT32_MAX, 1, INT32_MAX, &info),
                     TPP_ERR_OVERFLOW);
    info.size = 4;
    assert_int_equal(tpp_layer_serve_query(r->layer, 1, 1, 1, &info), TPP_ERR_INVALID);
}

/* Attention that sees later tokens serves without a cache alone. */
static void test_full_attention(void **state) {
    rig r = *(const rig *)*state;
    tpp_serve_info info = {.size = sizeof info};
    r.layer = make_block(TPP_BLOCK_FULL);
    assert_int_equal(tpp_layer_serve_query(r.layer, 1, 1, 1, &info), TPP_ERR_UNSUPPORTED);
    assert_says("TPP_ATTENTION_FULL");
    refuse(&r, &r.call, TPP_ERR_UNSUPPORTED, "cache_seq = 8");
    assert_int_equal(tpp_layer_serve_query(r.layer, BATCH, SEQ, 0, &info), TPP_OK);
    r.call.cache = NULL, r.call.cache_seq = 0;
    assert_int_equal(tpp_layer_forward(r.layer, &r.call), TPP_OK);
    tpp_layer_destroy(r.layer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_full_cache, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_memory, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_gradients, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_query, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_full_attention, open_rig, close_rig),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
