/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Weights through the C door: names of every family, parts of ranks with padding, what is refused.
 * That the numbers are those of Hugging Face's forward is tests/cli/test_weights_families.py's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tpp/io.h>

#include "support/io_folder.h"

static tpp_weight_info name_of(tpp_family family, const char *param) {
    tpp_weight_info info = {.size = sizeof info};
    if (tpp_weight_query(family, param, &info) != TPP_OK)
        fail_msg("%s", tpp_message());
    return info;
}

static void test_names(void **state) {
    static const struct {
        tpp_family family;
        const char *ours, *theirs;
        int32_t dims, turned;
    } known[] = {
        {TPP_FAMILY_GPT2, "h.11.attn.qkv.weight", "transformer.h.11.attn.c_attn.weight", 2, 0},
        {TPP_FAMILY_GPT2, "embed.positions.weight", "transformer.wpe.weight", 2, 0},
        {TPP_FAMILY_GPT2, "ln_f.bias", "transformer.ln_f.bias", 1, 0},
        {TPP_FAMILY_GPT2, "lm_head.weight", "lm_head.weight", 2, 0},
        {TPP_FAMILY_LLAMA, "embed.tokens.weight", "model.embed_tokens.weight", 2, 0},
        {TPP_FAMILY_LLAMA, "h.0.attn.q.weight", "model.layers.0.self_attn.q_proj.weight", 2, 1},
        {TPP_FAMILY_MISTRAL, "h.31.mlp.down.weight", "model.layers.31.mlp.down_proj.weight", 2, 1},
        {TPP_FAMILY_QWEN2, "h.5.attn.v.bias", "model.layers.5.self_attn.v_proj.bias", 1, 0},
        {TPP_FAMILY_QWEN3, "h.5.attn.k_norm.weight", "model.layers.5.self_attn.k_norm.weight", 1,
         0},
        {TPP_FAMILY_QWEN3, "h.5.ln_2.weight", "model.layers.5.post_attention_layernorm.weight", 1,
         0},
        {TPP_FAMILY_QWEN3, "ln_f.weight", "model.norm.weight", 1, 0},
        {TPP_FAMILY_QWEN3, "lm_head.weight", "lm_head.weight", 2, 0},
        /* what a family has not */
        {TPP_FAMILY_GPT2, "h.2.attn.q.weight", "transformer.h.2.attn.q.weight", 2, 0},
        {TPP_FAMILY_GPT2, "h.2.attn.q.bias", "transformer.h.2.attn.q.bias", 1, 0},
        {TPP_FAMILY_LLAMA, "other.weight", "model.other.weight", 2, 0},
        {TPP_FAMILY_LLAMA, "h.weight", "model.h.weight", 2, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        tpp_weight_info info = name_of(known[i].family, known[i].ours);
        assert_string_equal(info.name, known[i].theirs);
        assert_true(info.dims == known[i].dims && info.turned == known[i].turned);
    }
}

/* [13, 6] of the numbers 0, 1, .. as a head's table in a file of the given name. */
enum { VOCAB = 13, HIDDEN = 6 };
static void write_head(const char *path, const char *name, tpp_dtype dtype, int32_t rows) {
    float numbers[VOCAB * HIDDEN];
    int32_t whole[VOCAB * HIDDEN] = {0};
    for (int i = 0; i < VOCAB * HIDDEN; i++)
        numbers[i] = (float)i;
    tpp_safetensors_writer *w = NULL;
    tpp_tensor_desc d = {.size = sizeof d, .name = name, .dtype = dtype};
    d.data = dtype == TPP_I32 ? (const void *)whole : numbers;
    d.rows = rows, d.cols = HIDDEN;
    assert_int_equal(tpp_safetensors_writer_create(&w, path), TPP_OK);
    assert_int_equal(tpp_safetensors_writer_set_metadata(w, "format", "pt"), TPP_OK);
    assert_int_equal(tpp_safetensors_writer_add(w, &d), TPP_OK);
    assert_int_equal(tpp_safetensors_writer_finish(w), TPP_OK);
    tpp_safetensors_writer_destroy(w);
}

/* A head on one rank of 4 blocks: 13 rows are padded to 16. */
static tpp_layer *head(void) {
    tpp_layer_env env = {.size = sizeof env, .dtype = TPP_F64, .blocks = 4, .name = "lm_head."};
    tpp_head_desc d = {.size = sizeof d, .hidden = HIDDEN, .vocab = VOCAB};
    tpp_layer *layer = NULL;
    assert_int_equal(tpp_head_create(&layer, &env, &d), TPP_OK);
    return layer;
}

static tpp_weights *opened(const char *path) {
    tpp_weights *weights = NULL;
    if (tpp_weights_create(&weights, path) != TPP_OK)
        fail_msg("%s", tpp_message());
    return weights;
}

static void test_padding_is_zero(void **state) {
    _Alignas(64) double params[16 * HIDDEN + 64];
    tpp_layer *layer = head();
    memset(params, 0xff, sizeof params);
    write_head(io_path(*state, "w"), "lm_head.weight", TPP_F32, VOCAB);
    tpp_weights *weights = opened(io_path(*state, "w"));
    assert_string_equal(tpp_weights_metadata_get(weights, "format"), "pt");
    assert_null(tpp_weights_metadata_get(NULL, "format"));
    assert_int_equal(tpp_weights_load(weights, TPP_FAMILY_LLAMA, layer, TPP_F64, params), TPP_OK);
    for (int i = 0; i < 16 * HIDDEN; i++)
        assert_true(params[i] == (i < VOCAB * HIDDEN ? i : 0));
    const tpp_layer *layers[] = {layer};
    assert_int_equal(tpp_weights_check(weights, TPP_FAMILY_LLAMA, layers, 1), TPP_OK);
    assert_int_equal(tpp_weights_check(weights, TPP_FAMILY_LLAMA, layers, 0), TPP_ERR_FORMAT);
    assert_non_null(strstr(tpp_message(), "lm_head.weight"));
    tpp_weights_destroy(weights);
    tpp_layer_destroy(layer);
}

static void refuse(tpp_status got, tpp_status want, const char *says) {
    if (got != want || !strstr(tpp_message(), says))
        fail_msg("%d: %s", got, tpp_message());
}

static void test_refused(void **state) {
    _Alignas(64) double params[16 * HIDDEN + 64];
    tpp_weight_info name = {.size = sizeof name};
    tpp_tensor_info info = {.size = sizeof info};
    tpp_weights *weights = NULL;
    tpp_layer *layer = head();
    char text[300];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    refuse(tpp_weight_query(5, "x", &name), TPP_ERR_INVALID, "family = 5");
    refuse(tpp_weight_query(-1, "x", &name), TPP_ERR_INVALID, "family = -1");
    refuse(tpp_weight_query(0, NULL, &name), TPP_ERR_INVALID, "param");
    refuse(tpp_weight_query(0, text, &name), TPP_ERR_INVALID, "too long");
    refuse(tpp_weight_query(0, "x", NULL), TPP_ERR_INVALID, "out");

    refuse(tpp_weights_create(NULL, "x"), TPP_ERR_INVALID, "out");
    refuse(tpp_weights_create(&weights, NULL), TPP_ERR_INVALID, "path");
    refuse(tpp_weights_create(&weights, io_path(*state, "none")), TPP_ERR_IO, "none");
    refuse(tpp_weights_create(&weights, *state), TPP_ERR_IO, "has neither");
    assert_null(weights);

    write_head(io_path(*state, "w"), "lm_head.weight", TPP_F32, VOCAB - 1);
    weights = opened(io_path(*state, "w"));
    refuse(tpp_weights_load(weights, 1, layer, TPP_F64, params), TPP_ERR_FORMAT, "[12, 6]");
    refuse(tpp_weights_load(weights, 1, layer, TPP_I32, params), TPP_ERR_INVALID, "dtype = 16");
    refuse(tpp_weights_load(weights, 1, layer, TPP_F64, NULL), TPP_ERR_INVALID, "params");
    refuse(tpp_weights_load(weights, 1, NULL, TPP_F64, params), TPP_ERR_INVALID, "NULL");
    refuse(tpp_weights_load(NULL, 1, layer, TPP_F64, params), TPP_ERR_INVALID, "weights");
    refuse(tpp_weights_find(weights, 1, "ln_f.weight", &info), TPP_ERR_RANGE, "model.norm.weight");
    refuse(tpp_weights_find(NULL, 1, "ln_f.weight", &info), TPP_ERR_INVALID, "weights");
    refuse(tpp_weights_check(weights, 1, NULL, 1), TPP_ERR_INVALID, "layers");
    tpp_weights_destroy(weights);
    write_head(io_path(*state, "w"), "lm_head.weight", TPP_I32, VOCAB);
    weights = opened(io_path(*state, "w"));
    refuse(tpp_weights_load(weights, 1, layer, TPP_F64, params), TPP_ERR_UNSUPPORTED, "I32");
    tpp_weights_destroy(weights);
    tpp_weights_destroy(NULL);
    tpp_layer_destroy(layer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test_setup_teardown(test_padding_is_zero, io_folder_make, io_folder_remove),
        cmocka_unit_test_setup_teardown(test_refused, io_folder_make, io_folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
