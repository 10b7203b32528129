/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Models as numbers: their parts hold exactly the parameters that are counted, every block once;
 * two parts after one another give the bits of the whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tpp/tpp.h>

static tpp_model_desc small(tpp_family family) {
    tpp_model_desc m = {.size = sizeof m};
    m.vocab = 13, m.hidden = 16, m.ffn = 20;
    m.layers = 3, m.heads = 4, m.max_positions = 9;
    assert_int_equal(tpp_model_family_set(&m, family), TPP_OK);
    return m;
}

/* Every family, and what their files can vary. */
enum { MODELS = 13 };
static tpp_model_desc model_at(int i) {
    tpp_model_desc m = small(i % 5);
    if (i == 5 || i == 6)
        m.flags = TPP_MODEL_TIED;
    if (i == 6)
        m.kv_heads = 2, m.head_cols = 6, m.window = 3, m.window_first = 1;
    if (i == 7)
        m.block_flags |= TPP_BLOCK_QKV_BIAS | TPP_BLOCK_OUT_BIAS | TPP_BLOCK_MLP_BIAS;
    if (i == 8)
        m.act = TPP_ACT_RELU, m.ffn = 0, m.block_flags &= ~(uint32_t)TPP_BLOCK_SEPARATE_GATE;
    if (i == 9)
        m.norm = TPP_NORM_LAYER, m.kv_heads = 1;
    if (i == 10)
        m.block_flags |= TPP_BLOCK_NO_BIAS, m.act = TPP_ACT_GEGLU;
    if (i == 11 || i == 12)
        m.block_flags |= TPP_BLOCK_PARALLEL | (i == 12 ? TPP_BLOCK_TWO_NORMS : 0);
    return m;
}

static tpp_layer *part_of(const tpp_model_desc *m, int32_t first, int32_t count, uint32_t flags,
                          const tpp_loss_desc *loss) {
    tpp_layer_env env = {.size = sizeof env, .dtype = TPP_F64, .blocks = 1};
    tpp_model_part_desc d = {.size = sizeof d, .flags = flags, .model = m};
    d.first = first, d.count = count, d.loss = loss;
    tpp_layer *layer = NULL;
    if (tpp_model_part_create(&layer, &env, &d) != TPP_OK)
        fail_msg("%s", tpp_message());
    return layer;
}

/* Numbers of a layer, copies of other layers' left out. */
static int64_t numbers_of(const tpp_layer *layer) {
    tpp_layer_info info = {.size = sizeof info};
    int64_t sum = 0;
    assert_int_equal(tpp_layer_query(layer, 1, 1, &info), TPP_OK);
    for (int32_t i = 0; i < info.params; i++) {
        tpp_param_info p = {.size = sizeof p};
        assert_int_equal(tpp_layer_param(layer, i, &p), TPP_OK);
        if (!(p.flags & TPP_PARAM_COPY))
            sum += p.shard.rows * p.shard.cols;
    }
    return sum;
}

static void test_params(void **state) {
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        tpp_model_desc m = model_at(i);
        int64_t counted = 0, sum = 0;
        assert_int_equal(tpp_model_params(&m, &counted), TPP_OK);
        tpp_layer *whole = part_of(&m, 0, m.layers, TPP_MODEL_PART_ONE_TABLE, NULL);
        assert_int_equal(numbers_of(whole), counted);
        tpp_layer_destroy(whole);
        for (int32_t first = 0; first < m.layers; first++) {
            tpp_layer *part = part_of(&m, first, 1, 0, NULL);
            sum += numbers_of(part);
            tpp_layer_destroy(part);
        }
        assert_int_equal(sum, counted);
    }
}

enum { BATCH = 2, SEQ = 5, TOKENS = BATCH * SEQ };
static const int32_t ids[TOKENS] = {0, 12, 3, 3, 7, 1, 11, 2, 9, 4};
static const int32_t targets[TOKENS] = {12, 3, 3, 7, 5, 11, 2, 9, 4, 6};

/* A forward; `in` NULL: the ids. */
static void forward(const tpp_layer *layer, const double *in, double *out) {
    tpp_layer_info info = {.size = sizeof info};
    assert_int_equal(tpp_layer_query(layer, BATCH, SEQ, &info), TPP_OK);
    tpp_call call = {.size = sizeof call, .batch = BATCH, .seq = SEQ, .targets = targets};
    union {
        const void *given;
        void *data;
    } from = {in ? (const void *)in : ids};
    call.in.data = from.data;
    call.in.rows = TOKENS, call.in.cols = info.in_cols, call.in.dtype = info.in_dtype;
    call.out.data = out;
    call.out.rows = info.out_rows, call.out.cols = info.out_cols;
    call.out.dtype = info.out_dtype;
    void *params = aligned_alloc(64, (size_t)info.state_bytes);
    call.saved_bytes = (info.saved_bytes + 63) / 64 * 64;
    call.scratch_bytes = (info.scratch_bytes + 63) / 64 * 64;
    call.saved = aligned_alloc(64, (size_t)call.saved_bytes + 64);
    call.scratch = aligned_alloc(64, (size_t)call.scratch_bytes + 64);
    call.params = params;
    assert_int_equal(tpp_layer_init(layer, params, 5), TPP_OK);
    if (tpp_layer_forward(layer, &call) != TPP_OK)
        fail_msg("%s", tpp_message());
    free(params);
    free(call.saved);
    free(call.scratch);
}

static void test_parts_are_the_whole(void **state) {
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        tpp_model_desc m = model_at(i);
        tpp_loss_desc loss = {.size = sizeof loss};
        double whole[TOKENS * 13], cut[TOKENS * 13], between[TOKENS * 16];
        for (int with_loss = 0; with_loss < 2; with_loss++) {
            const tpp_loss_desc *end = with_loss ? &loss : NULL;
            size_t bytes = sizeof(double) * TOKENS * (with_loss ? 1 : 13);
            tpp_layer *all = part_of(&m, 0, 3, TPP_MODEL_PART_ONE_TABLE, end);
            forward(all, NULL, whole);
            tpp_layer_destroy(all);
            for (int32_t at = 1; at < 3; at++) {
                tpp_layer *first = part_of(&m, 0, at, 0, NULL);
                tpp_layer *second = part_of(&m, at, 3 - at, 0, end);
                forward(first, NULL, between);
                forward(second, between, cut);
                assert_memory_equal(cut, whole, bytes);
                tpp_layer_destroy(first);
                tpp_layer_destroy(second);
            }
            tpp_layer *copies = part_of(&m, 0, 3, 0, end);
            forward(copies, NULL, cut);
            assert_memory_equal(cut, whole, bytes);
            tpp_layer_destroy(copies);
        }
    }
}

static void test_window_first(void **state) {
    (void)state;
    tpp_model_desc m = small(TPP_FAMILY_LLAMA), all = m;
    double none[TOKENS * 13], some[TOKENS * 13], every[TOKENS * 13], late[TOKENS * 13];
    double *out[] = {none, some, every, late};
    for (int i = 0; i < 4; i++) {
        m = all;
        m.window = i == 0 ? 0 : 2;
        m.window_first = i == 1 ? 2 : i == 3 ? 3 : 0;
        tpp_layer *layer = part_of(&m, 0, 3, 0, NULL);
        forward(layer, NULL, out[i]);
        tpp_layer_destroy(layer);
    }
    assert_memory_equal(none, late, sizeof none);
    assert_memory_not_equal(none, some, sizeof none);
    assert_memory_not_equal(some, every, sizeof none);
}

static void test_refused(void **state) {
    (void)state;
    int64_t numbers;
    tpp_model_desc good = small(TPP_FAMILY_LLAMA), m;
    const struct {
        size_t offset;
        int64_t value;
        int wide;
        const char *part;
    } wrong[] = {
        {offsetof(tpp_model_desc, vocab), 0, 1, "model.vocab = 0 is not accepted; accepted: 1 or"},
        {offsetof(tpp_model_desc, hidden), -1, 1, "model.hidden = -1"},
        {offsetof(tpp_model_desc, layers), 0, 0, "model.layers = 0"},
        {offsetof(tpp_model_desc, heads), 5, 0, "model.heads = 5 does not divide"},
        {offsetof(tpp_model_desc, kv_heads), 3, 0, "model.kv_heads = 3"},
        {offsetof(tpp_model_desc, window), -2, 1, "model.window = -2"},
        {offsetof(tpp_model_desc, ffn), -2, 1, "model.ffn = -2"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        m = good;
        int32_t narrow = (int32_t)wrong[i].value;
        memcpy((char *)&m + wrong[i].offset,
               wrong[i].wide ? (const void *)&wrong[i].value : (const void *)&narrow,
               wrong[i].wide ? 8 : 4);
        assert_int_equal(tpp_model_params(&m, &numbers), TPP_ERR_INVALID);
        if (!strstr(tpp_message(), wrong[i].part))
            fail_msg("%s", tpp_message());
    }
    m = good;
    m.vocab = INT64_MAX / 2;
    assert_int_equal(tpp_model_params(&m, &numbers), TPP_ERR_OVERFLOW);
    assert_int_equal(tpp_model_params(&good, NULL), TPP_ERR_INVALID);
    assert_int_equal(tpp_model_params(NULL, &numbers), TPP_ERR_INVALID);
    assert_int_equal(tpp_model_family_set(&m, 5), TPP_ERR_INVALID);
    assert_int_equal(tpp_model_family_set(NULL, 1), TPP_ERR_INVALID);
    m.flags = 2;
    assert_int_equal(tpp_model_params(&m, &numbers), TPP_ERR_TOO_NEW);

    tpp_layer *layer = NULL;
    tpp_layer_env env = {.size = sizeof env};
    tpp_model_part_desc d = {.size = sizeof d, .model = &good};
    const int32_t ranges[][2] = {{-1, 1}, {3, 1}, {0, 4}, {1, 3}, {1, 0}, {2, -1}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        d.first = ranges[i][0], d.count = ranges[i][1];
        assert_int_equal(tpp_model_part_create(&layer, &env, &d), TPP_ERR_INVALID);
        assert_null(layer);
        assert_non_null(strstr(tpp_message(), "accepted: "));
    }
    d.first = 0, d.count = 3;
    assert_int_equal(tpp_model_part_create(NULL, &env, &d), TPP_ERR_INVALID);
    assert_int_equal(tpp_model_part_create(&layer, NULL, &d), TPP_ERR_INVALID);
    good.block_flags = 1u << 31;
    assert_int_equal(tpp_model_part_create(&layer, &env, &d), TPP_ERR_TOO_NEW);
    d.model = NULL;
    assert_int_equal(tpp_model_part_create(&layer, &env, &d), TPP_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params),
        cmocka_unit_test(test_parts_are_the_whole),
        cmocka_unit_test(test_window_first),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
