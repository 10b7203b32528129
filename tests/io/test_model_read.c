/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* config.json of known models, what absent fields mean, and the sentence about what is not read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tpp/io.h>
#include <tpp/mlp.h>
#include <tpp/norm.h>

#include "support/io_folder.h"

static tpp_model_desc read_known(const char *name) {
    char path[1024];
    tpp_model_desc m = {.size = sizeof m};
    const char *source = getenv("TPP_SOURCE_DIR");
    snprintf(path, sizeof path, "%s/tests/data/models/%s.json", source ? source : ".", name);
    if (tpp_model_read(&m, path) != TPP_OK)
        fail_msg("%s: %s", name, tpp_message());
    return m;
}

static tpp_model_desc read_text(void *folder, const char *text) {
    tpp_model_desc m = {.size = sizeof m};
    io_write(io_path(folder, "config.json"), text, (int64_t)strlen(text));
    if (tpp_model_read(&m, io_path(folder, "config.json")) != TPP_OK)
        fail_msg("%s: %s", text, tpp_message());
    return m;
}

/* What the publishers and their model cards state. */
static void test_published_numbers(void **state) {
    static const struct {
        const char *name;
        int64_t params;
    } known[] = {
        {"gpt2", 124439808},          {"llama_2_7b", 6738415616}, {"llama_3_8b", 8030261248},
        {"llama_3_2_1b", 1235814400}, {"mistral_7b", 7241732096}, {"qwen2_7b", 7615616512},
        {"qwen2_5_0_5b", 494032768},  {"qwen3_8b", 8190735360},   {"qwen3_0_6b", 596049920},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        tpp_model_desc m = read_known(known[i].name);
        int64_t params = 0;
        assert_int_equal(tpp_model_params(&m, &params), TPP_OK);
        if (params != known[i].params)
            fail_msg("%s has %lld parameters", known[i].name, (long long)params);
    }
}

static void test_fields(void **state) {
    const uint32_t llama = TPP_BLOCK_NO_BIAS | TPP_BLOCK_SEPARATE_GATE | TPP_BLOCK_SEPARATE_QKV;
    (void)state;
    tpp_model_desc m = read_known("llama_3_2_1b");
    assert_true(m.family == TPP_FAMILY_LLAMA && m.flags == TPP_MODEL_TIED);
    assert_true(m.vocab == 128256 && m.hidden == 2048 && m.ffn == 8192 && m.layers == 16);
    assert_true(m.heads == 32 && m.kv_heads == 8 && m.head_cols == 64 && m.positions == 0);
    assert_true(m.max_positions == 131072 && m.block_flags == llama);
    assert_true(m.act == TPP_ACT_SWIGLU && m.norm == TPP_NORM_RMS && m.window == 0);
    assert_true(m.epsilon == 1e-5 && m.init_std == 0.02 && m.rope_theta == 5e5);
    assert_true(m.rope_scaling == TPP_ROPE_LLAMA3 && m.rope_factor == 32);
    assert_true(m.rope_low_freq_factor == 1 && m.rope_high_freq_factor == 4);
    assert_true(m.rope_original_positions == 8192 && m.rope_cols == 0 && m.rope_flags == 0);

    m = read_known("gpt2");
    assert_true(m.family == TPP_FAMILY_GPT2 && m.flags == TPP_MODEL_TIED && m.block_flags == 0);
    assert_true(m.positions == 1024 && m.max_positions == 1024 && m.rope_theta == 0);
    assert_true(m.act == TPP_ACT_GELU_TANH && m.norm == TPP_NORM_LAYER && m.ffn == 3072);

    m = read_known("mistral_7b");
    assert_true(m.family == TPP_FAMILY_MISTRAL && m.window == 4096 && m.window_first == 0);
    assert_true(m.rope_theta == 10000 && m.kv_heads == 8 && m.block_flags == llama);

    m = read_known("qwen2_7b");
    assert_true(m.family == TPP_FAMILY_QWEN2 && m.block_flags == (llama | TPP_BLOCK_QKV_BIAS));
    assert_true(m.window == 0 && m.rope_theta == 1e6);

    m = read_known("qwen3_0_6b");
    assert_true(m.family == TPP_FAMILY_QWEN3 && m.block_flags == (llama | TPP_BLOCK_QK_NORM));
    assert_true(m.head_cols == 128 && m.rope_theta == 1e6 && m.flags == TPP_MODEL_TIED);
}

/* Nothing but the family: each default. */
static void test_defaults(void **state) {
    static const struct {
        const char *family;
        int64_t vocab, hidden, ffn, positions, window;
        int32_t layers, heads, kv_heads, head_cols;
        uint32_t flags;
    } known[] = {
        {"gpt2", 50257, 768, 3072, 1024, 0, 12, 12, 0, 0, TPP_MODEL_TIED},
        {"llama", 32000, 4096, 11008, 2048, 0, 32, 32, 32, 0, 0},
        {"mistral", 32000, 4096, 14336, 131072, 4096, 32, 32, 8, 0, 0},
        {"qwen2", 151936, 4096, 22016, 32768, 0, 32, 32, 32, 0, 0},
        {"qwen3", 151936, 4096, 22016, 32768, 0, 32, 32, 32, 128, 0},
    };
    char text[64];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        snprintf(text, sizeof text, "{\"model_type\": \"%s\"}", known[i].family);
        tpp_model_desc m = read_text(*state, text);
        assert_true(m.vocab == known[i].vocab && m.hidden == known[i].hidden);
        assert_true(m.ffn == known[i].ffn && m.max_positions == known[i].positions);
        assert_true(m.window == known[i].window && m.layers == known[i].layers);
        assert_true(m.heads == known[i].heads && m.kv_heads == known[i].kv_heads);
        assert_true(m.head_cols == known[i].head_cols && m.flags == known[i].flags);
        assert_true(m.epsilon == (i == 0 ? 1e-5 : 1e-6) && m.init_std == 0.02);
        assert_true(m.rope_theta == (i == 0 ? 0 : 10000));
    }
}

static void test_variants(void **state) {
    tpp_model_desc m = read_text(*state, "{\"model_type\": \"llama\", \"attention_bias\": true, "
                                         "\"mlp_bias\": true, \"tie_word_embeddings\": true}");
    assert_true(m.block_flags & TPP_BLOCK_QKV_BIAS && m.block_flags & TPP_BLOCK_OUT_BIAS);
    assert_true(m.block_flags & TPP_BLOCK_MLP_BIAS && m.flags == TPP_MODEL_TIED);
    m = read_text(*state, "{\"architectures\": [\"Qwen2Model\"], \"use_sliding_window\": true, "
                          "\"max_window_layers\": 20, \"sliding_window\": 64}");
    assert_true(m.family == TPP_FAMILY_QWEN2 && m.window == 64 && m.window_first == 20);
    m = read_text(*state, "{\"model_type\": \"qwen2\", \"use_sliding_window\": true, "
                          "\"max_window_layers\": 32}");
    assert_true(m.window == 0 && m.window_first == 0);
    m = read_text(*state, "{\"model_type\": \"qwen3\", \"num_hidden_layers\": 3, "
                          "\"use_sliding_window\": true, \"sliding_window\": 9, \"layer_types\": "
                          "[\"full_attention\", \"sliding_attention\", \"sliding_attention\"]}");
    assert_true(m.window == 9 && m.window_first == 1);
    m = read_text(*state, "{\"model_type\": \"mistral\", \"sliding_window\": null, "
                          "\"num_key_value_heads\": null, \"head_dim\": null}");
    assert_true(m.window == 0 && m.kv_heads == 32 && m.head_cols == 0);
    m = read_text(*state, "{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\", "
                          "\"factor\": 4}, \"partial_rotary_factor\": 0.5}");
    assert_true(m.rope_scaling == TPP_ROPE_LINEAR && m.rope_factor == 4 && m.rope_cols == 64);
    m = read_text(*state, "{\"model_type\": \"llama\", \"rope_theta\": 7, \"rope_parameters\": "
                          "{\"rope_type\": \"default\", \"rope_theta\": 1e4, "
                          "\"partial_rotary_factor\": 0.25}}");
    assert_true(m.rope_scaling == TPP_ROPE_PLAIN && m.rope_theta == 1e4 && m.rope_cols == 32);
    m = read_text(*state, "{\"model_type\": \"gpt2\", \"n_inner\": 5, \"activation_function\": "
                          "\"relu\", \"tie_word_embeddings\": false}");
    assert_true(m.ffn == 5 && m.act == TPP_ACT_RELU && m.flags == 0);
    m = read_text(*state, "{\"model_type\": \"llama\", \"hidden_act\": \"gelu_pytorch_tanh\"}");
    assert_true(m.act == TPP_ACT_GEGLU);
}

/* Each as {what is wrong, what the sentence must hold}. */
static void test_refused(void **state) {
    static const struct {
        const char *text, *status;
        const char *parts[3];
    } wrong[] = {
        {"{\"model_type\": \"mixtral\"}",
         "unsupported",
         {"config.json: model_type = \"mixtral\"", "accepted: \"gpt2\", \"llama\"", "\"qwen3\""}},
        {"{}", "unsupported", {"model_type = nothing", "accepted: \"gpt2\"", "\"mistral\""}},
        {"{\"model_type\": \"llama\", \"architectures\": [\"LlamaForSequenceClassification\"]}",
         "unsupported",
         {"architectures = [\"LlamaForSequenceClass", "accepted: [\"LlamaForCausalLM\"]", ""}},
        {"{\"model_type\": \"llama\", \"hidden_act\": \"relu\"}",
         "unsupported",
         {"hidden_act = \"relu\"", "accepted: \"silu\"", "\"gelu_pytorch_tanh\""}},
        {"{\"model_type\": \"llama\", \"hidden_size\": 0}",
         "unsupported",
         {"hidden_size = 0", "whole numbers 1 .. 2147483647", ""}},
        {"{\"model_type\": \"llama\", \"hidden_size\": 4096.5}",
         "unsupported",
         {"hidden_size = 4096.5", "whole numbers", ""}},
        {"{\"model_type\": \"llama\", \"hidden_size\": \"wide\"}",
         "unsupported",
         {"hidden_size = \"wide\"", "whole numbers", ""}},
        {"{\"model_type\": \"llama\", \"num_hidden_layers\": 99999999999}",
         "unsupported",
         {"num_hidden_layers = 99999999999", "2147483647", ""}},
        {"{\"model_type\": \"llama\", \"rms_norm_eps\": -1e-5}",
         "unsupported",
         {"rms_norm_eps = -1", "numbers above 0", ""}},
        {"{\"model_type\": \"llama\", \"attention_bias\": 1}",
         "unsupported",
         {"attention_bias = 1", "true, false", ""}},
        {"{\"model_type\": 4}", "unsupported", {"model_type = 4", "a text", ""}},
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"yarn\"}}",
         "unsupported",
         {"rope_scaling.rope_type = \"yarn\"", "\"default\", \"linear\", \"llama3\"", ""}},
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"dynamic\"}}",
         "unsupported",
         {"rope_scaling.type = \"dynamic\"", "\"linear\"", ""}},
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\"}}",
         "unsupported",
         {"rope_scaling.factor = nothing", "1 or more", ""}},
        {"{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": "
         "8, \"low_freq_factor\": 4, \"high_freq_factor\": 4, "
         "\"original_max_position_embeddings\": 64}}",
         "unsupported",
         {"rope_parameters.high_freq_factor = 4", "above low_freq_factor", ""}},
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8}}",
         "unsupported",
         {"rope_scaling.low_freq_factor = nothing", "above 0", ""}},
        {"{\"model_type\": \"llama\", \"rope_scaling\": 4}",
         "unsupported",
         {"rope_scaling = 4", "null, or one object", ""}},
        {"{\"model_type\": \"llama\", \"partial_rotary_factor\": 1.5}",
         "unsupported",
         {"partial_rotary_factor = 1.5", "even number", ""}},
        {"{\"model_type\": \"qwen3\", \"num_hidden_layers\": 2, \"layer_types\": "
         "[\"sliding_attention\", \"full_attention\"]}",
         "unsupported",
         {"layer_types = [\"sliding_attention\"", "\"full_attention\" then", ""}},
        {"{\"model_type\": \"gpt2\", \"scale_attn_by_inverse_layer_idx\": true}",
         "unsupported",
         {"scale_attn_by_inverse_layer_idx = true", "accepted: false", ""}},
        {"{\"model_type\": \"llama\", \"num_attention_heads\": 12, \"num_key_value_heads\": 5, "
         "\"head_dim\": 64}",
         "invalid",
         {"config.json: model.kv_heads = 5", "model.heads = 12", "1, 2, 3, 4, 6, 12"}},
        {"{\"model_type\": \"llama\", \"num_attention_heads\": 5}",
         "invalid",
         {"model.heads = 5", "model.hidden = 4096", "head_cols"}},
        {"{\"model_type\": \"llama\"", "format", {"config.json is no JSON", "line 1", ""}},
        {"{\"model_type\": \"llama\", \"model_type\": \"gpt2\"}",
         "format",
         {"is no JSON", "duplicate", ""}},
        {"[1]", "format", {"holds no JSON object", "", ""}},
        {"", "format", {"is no JSON", "", ""}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tpp_model_desc m = {.size = sizeof m, .heads = 77};
        io_write(io_path(*state, "config.json"), wrong[i].text, (int64_t)strlen(wrong[i].text));
        tpp_status status = tpp_model_read(&m, io_path(*state, "config.json"));
        tpp_status wanted = wrong[i].status[0] == 'u'   ? TPP_ERR_UNSUPPORTED
                            : wrong[i].status[0] == 'i' ? TPP_ERR_INVALID
                                                        : TPP_ERR_FORMAT;
        if (status != wanted)
            fail_msg("%s: %s, %s", wrong[i].text, tpp_status_name(status), tpp_message());
        for (int p = 0; p < 3; p++) {
            if (wrong[i].parts[p] && !strstr(tpp_message(), wrong[i].parts[p]))
                fail_msg("%s: %s", wrong[i].text, tpp_message());
        }
        assert_int_equal(m.heads, 77);
    }
    tpp_model_desc m = {.size = sizeof m};
    assert_int_equal(tpp_model_read(&m, io_path(*state, "none.json")), TPP_ERR_IO);
    assert_non_null(strstr(tpp_message(), "none.json"));
    assert_int_equal(tpp_model_read(&m, NULL), TPP_ERR_INVALID);
    io_write(io_path(*state, "config.json"), "{\"model_type\": \"gpt2\"}", 22);
    assert_int_equal(tpp_model_read(NULL, io_path(*state, "config.json")), TPP_ERR_INVALID);
}

/* Written and read again: every field the same. */
static void test_written(void **state) {
    static const char *const known[] = {"gpt2",         "llama_2_7b", "llama_3_2_1b", "mistral_7b",
                                        "qwen2_5_0_5b", "qwen3_8b",   "qwen3_0_6b"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        tpp_model_desc m = read_known(known[i]), back = {.size = sizeof back};
        if (tpp_model_write(&m, io_path(*state, "again.json")) != TPP_OK)
            fail_msg("%s: %s", known[i], tpp_message());
        assert_int_equal(tpp_model_read(&back, io_path(*state, "again.json")), TPP_OK);
        m.kv_heads = m.kv_heads ? m.kv_heads : m.heads;
        m.head_cols = m.head_cols ? m.head_cols : (int32_t)(m.hidden / m.heads);
        back.kv_heads = back.kv_heads ? back.kv_heads : back.heads;
        back.head_cols = back.head_cols ? back.head_cols : (int32_t)(back.hidden / back.heads);
        assert_memory_equal(&back, &m, sizeof m);
    }
}

static void test_what_cannot_be_written(void **state) {
    const struct {
        size_t offset;
        int32_t value;
        const char *field;
    } wrong[] = {
        {offsetof(tpp_model_desc, norm), TPP_NORM_LAYER, "model.norm"},
        {offsetof(tpp_model_desc, rope_flags), TPP_ROPE_INTERLEAVED, "model.rope_flags"},
        {offsetof(tpp_model_desc, block_flags), 0, "model.block_flags"},
        {offsetof(tpp_model_desc, positions), 9, "model.positions"},
        {offsetof(tpp_model_desc, window), 9, "model.window"},
        {offsetof(tpp_model_desc, act), TPP_ACT_RELU, "model.act"},
    };
    const char *path = io_path(*state, "never.json");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tpp_model_desc m = read_known("llama_2_7b");
        memcpy((char *)&m + wrong[i].offset, &wrong[i].value, sizeof wrong[i].value);
        assert_int_equal(tpp_model_write(&m, path), TPP_ERR_UNSUPPORTED);
        if (!strstr(tpp_message(), wrong[i].field) || !strstr(tpp_message(), "\"llama\""))
            fail_msg("%s: %s", wrong[i].field, tpp_message());
    }
    tpp_model_desc m = read_known("llama_2_7b");
    assert_int_equal(tpp_model_write(&m, NULL), TPP_ERR_INVALID);
    assert_int_equal(tpp_model_write(NULL, path), TPP_ERR_INVALID);
    assert_int_equal(tpp_model_write(&m, "/does/not/exist/c.json"), TPP_ERR_IO);
    m.family = 7;
    assert_int_equal(tpp_model_write(&m, path), TPP_ERR_INVALID);
    assert_int_equal(io_files(*state), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_numbers),
        cmocka_unit_test(test_fields),
        cmocka_unit_test_setup_teardown(test_defaults, io_folder_make, io_folder_remove),
        cmocka_unit_test_setup_teardown(test_variants, io_folder_make, io_folder_remove),
        cmocka_unit_test_setup_teardown(test_written, io_folder_make, io_folder_remove),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_written, io_folder_make,
                                        io_folder_remove),
        cmocka_unit_test_setup_teardown(test_refused, io_folder_make, io_folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
