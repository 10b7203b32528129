/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/tp_again.h"
#include "support/tp_case.h"
#include "support/tp_custom.h"

/* Sizes are odd where the rules allow it: only what is split is a multiple of 8. */

static const tpp_linear_desc column = {sizeof column, 0, TPP_LINEAR_COLUMN, 0, 7, 24, 0};
static const tpp_linear_desc column_bare = {
    sizeof column_bare, TPP_LINEAR_NO_BIAS, TPP_LINEAR_COLUMN, 0, 1, 8, 0};
static const tpp_linear_desc row = {sizeof row, 0, TPP_LINEAR_ROW, 0, 24, 5, 0};
static const tpp_linear_desc row_bare = {
    sizeof row_bare, TPP_LINEAR_NO_BIAS, TPP_LINEAR_ROW, 0, 40, 1, 0};
static const tpp_linear_desc padded = {
    sizeof padded, TPP_LINEAR_PAD, TPP_LINEAR_COLUMN, 0, 9, 13, 0};

static const tpp_mlp_desc mlp = {sizeof mlp, 0, 11, 40, 0, 0, 0, 0};
static const tpp_mlp_desc mlp_erf = {sizeof mlp_erf, 0, 6, 0, TPP_ACT_GELU_ERF, 0, 0, 0};
static const tpp_mlp_desc mlp_bare = {
    sizeof mlp_bare, TPP_MLP_NO_BIAS, 3, 8, TPP_ACT_GELU_TANH, 0, 0, 0};

static const tpp_mlp_desc mlp_relu = {sizeof mlp_relu, 0, 5, 24, TPP_ACT_RELU, 0, 0, 0};
static const tpp_mlp_desc mlp_square = {sizeof mlp_square, 0, 5, 16, TPP_ACT_SQUARED_RELU, 0, 0, 0};
static const tpp_mlp_desc mlp_silu = {
    sizeof mlp_silu, TPP_MLP_NO_BIAS, 7, 24, TPP_ACT_SILU, 0, 0, 0};
static const tpp_mlp_desc swiglu = {sizeof swiglu, 0, 9, 40, TPP_ACT_SWIGLU, 0, 0, 0};
static const tpp_mlp_desc swiglu_bare = {
    sizeof swiglu_bare, TPP_MLP_NO_BIAS, 3, 8, TPP_ACT_SWIGLU, 0, 0, 0};
static const tpp_mlp_desc swiglu_separate = {
    sizeof swiglu_separate, TPP_MLP_SEPARATE_GATE, 9, 40, TPP_ACT_SWIGLU, 0, 0, 0};
static const tpp_mlp_desc geglu = {sizeof geglu, 0, 6, 0, TPP_ACT_GEGLU, 0, 0, 0};
static const tpp_mlp_desc geglu_separate = {
    sizeof geglu_separate, TPP_MLP_SEPARATE_GATE | TPP_MLP_NO_BIAS, 5, 16, TPP_ACT_GEGLU, 0, 0, 0};

/* Widths that no degree divides; more blocks than columns. */
static const tpp_linear_desc column_uneven = {
    sizeof column_uneven, 0, TPP_LINEAR_COLUMN, 0, 5, 13, 0};
static const tpp_linear_desc row_uneven = {sizeof row_uneven, 0, TPP_LINEAR_ROW, 0, 11, 4, 0};
static const tpp_mlp_desc mlp_uneven = {.size = sizeof mlp_uneven, .hidden = 5, .ffn = 13};
static const tpp_mlp_desc mlp_narrow = {
    .size = sizeof mlp_narrow, .hidden = 3, .ffn = 2, .act = TPP_ACT_RELU};
static const tpp_mlp_desc swiglu_uneven = {
    .size = sizeof swiglu_uneven, .hidden = 6, .ffn = 11, .act = TPP_ACT_SWIGLU};
static const tpp_mlp_desc geglu_uneven = {.size = sizeof geglu_uneven,
                                          .flags = TPP_MLP_SEPARATE_GATE,
                                          .hidden = 4,
                                          .ffn = 9,
                                          .act = TPP_ACT_GEGLU};

static const tpp_attention_desc attention = {.size = sizeof attention, .hidden = 24, .heads = 8};
static const tpp_attention_desc attention_wide = {
    .size = sizeof attention_wide, .hidden = 7, .heads = 8, .head_cols = 5};
static const tpp_attention_desc attention_bare = {
    .size = sizeof attention_bare, .flags = TPP_ATTENTION_NO_BIAS, .hidden = 16, .heads = 16};
static const tpp_attention_desc grouped = {
    .size = sizeof grouped, .hidden = 9, .heads = 8, .head_cols = 6, .kv_heads = 4};
static const tpp_attention_desc grouped_bare = {.size = sizeof grouped_bare,
                                                .flags = TPP_ATTENTION_NO_BIAS,
                                                .hidden = 16,
                                                .heads = 16,
                                                .kv_heads = 8};
static const tpp_attention_desc multi_query = {
    .size = sizeof multi_query, .hidden = 24, .heads = 8, .kv_heads = 1};

static const tpp_rope_desc rope = {.size = sizeof rope};
static const tpp_rope_desc rope_partial = {
    .size = sizeof rope_partial, .flags = TPP_ROPE_INTERLEAVED, .theta = 50, .cols = 4};
static const tpp_rope_desc rope_linear = {
    .size = sizeof rope_linear, .scaling = TPP_ROPE_LINEAR, .factor = 4};
static const tpp_rope_desc rope_llama3 = {.size = sizeof rope_llama3,
                                          .theta = 500,
                                          .scaling = TPP_ROPE_LLAMA3,
                                          .factor = 8,
                                          .low_freq_factor = 1,
                                          .high_freq_factor = 4,
                                          .original_positions = 32};
static const tpp_attention_desc turned = {
    .size = sizeof turned, .hidden = 16, .heads = 8, .head_cols = 4, .rope = &rope};
static const tpp_attention_desc turned_partly = {.size = sizeof turned_partly,
                                                 .hidden = 5,
                                                 .heads = 8,
                                                 .head_cols = 7,
                                                 .kv_heads = 2,
                                                 .rope = &rope_partial};
static const tpp_attention_desc turned_slowly = {.size = sizeof turned_slowly,
                                                 .flags = TPP_ATTENTION_SEPARATE_QKV,
                                                 .hidden = 9,
                                                 .heads = 8,
                                                 .head_cols = 2,
                                                 .rope = &rope_linear};
static const tpp_attention_desc window = {
    .size = sizeof window, .hidden = 16, .heads = 8, .window = 3};
static const tpp_attention_desc full = {
    .size = sizeof full, .flags = TPP_ATTENTION_FULL, .hidden = 16, .heads = 8};
static const tpp_attention_desc qwen = {.size = sizeof qwen,
                                        .flags = TPP_ATTENTION_NO_BIAS | TPP_ATTENTION_QKV_BIAS |
                                                 TPP_ATTENTION_QK_NORM,
                                        .hidden = 12,
                                        .heads = 16,
                                        .head_cols = 6,
                                        .kv_heads = 4,
                                        .rope = &rope_llama3,
                                        .window = 40,
                                        .norm_epsilon = 0.01};
static const tpp_attention_desc qk_norm = {.size = sizeof qk_norm,
                                           .flags = TPP_ATTENTION_QK_NORM,
                                           .hidden = 7,
                                           .heads = 8,
                                           .head_cols = 5};

static const tpp_norm_desc norm = {sizeof norm, 0, 37, 0, 0, 0};
static const tpp_norm_desc norm_bare = {sizeof norm_bare, TPP_NORM_NO_BIAS, 1, 0.5, 0, 0};
static const tpp_norm_desc norm_rms = {sizeof norm_rms, 0, 37, 0, TPP_NORM_RMS, 0};

static const tpp_embedding_desc embedding = {sizeof embedding, 0, 13, 9, 70, 0};
static const tpp_embedding_desc embedding_bare = {sizeof embedding_bare, 0, 3, 1, 0, 0};

static const tpp_loss_desc loss = {.size = sizeof loss, .vocab = 29};
static const tpp_loss_desc loss_tiny = {.size = sizeof loss_tiny, .vocab = 1};
static const tpp_loss_desc loss_ignore = {
    .size = sizeof loss_ignore, .flags = TPP_LOSS_IGNORE, .vocab = 21, .ignore = -100};
static const tpp_loss_desc loss_smooth = {
    .size = sizeof loss_smooth, .vocab = 29, .smoothing = 0.125};
static const tpp_loss_desc loss_others = {.size = sizeof loss_others,
                                          .flags = TPP_LOSS_SMOOTH_OTHERS,
                                          .vocab = 13,
                                          .smoothing = 0.25,
                                          .z_loss = 0.0625};
static const tpp_loss_desc loss_sum = {.size = sizeof loss_sum,
                                       .flags = TPP_LOSS_IGNORE, /* of a class */
                                       .vocab = 13,
                                       .ignore = 3,
                                       .reduction = TPP_LOSS_SUM};
static const tpp_loss_desc loss_mean = {.size = sizeof loss_mean,
                                        .flags = TPP_LOSS_IGNORE,
                                        .vocab = 29,
                                        .ignore = INT32_MIN,
                                        .reduction = TPP_LOSS_MEAN,
                                        .smoothing = 0.125,
                                        .z_loss = 0.03125};

static const tpp_head_desc head = {.size = sizeof head, .hidden = 9, .vocab = 13};
static const tpp_head_desc head_fused = {
    .size = sizeof head_fused, .hidden = 7, .vocab = 29, .loss = &loss};
static const tpp_head_desc head_steps = {
    .size = sizeof head_steps, .hidden = 5, .vocab = 29, .loss = &loss, .block = 3};
static const tpp_head_desc head_options = {
    .size = sizeof head_options, .hidden = 6, .vocab = 29, .loss = &loss_mean, .block = 4};
static const tpp_head_desc head_early = {.size = sizeof head_early,
                                         .flags = TPP_HEAD_EARLY,
                                         .hidden = 5,
                                         .vocab = 13,
                                         .loss = &loss_sum};
static const tpp_head_desc head_early_options = {.size = sizeof head_early_options,
                                                 .flags = TPP_HEAD_EARLY,
                                                 .hidden = 6,
                                                 .vocab = 29,
                                                 .loss = &loss_mean,
                                                 .block = 4};

static const tpp_block_desc block = {.size = sizeof block, .hidden = 24, .ffn = 40, .heads = 8};
static const tpp_block_desc block_erf = {
    .size = sizeof block_erf, .hidden = 16, .heads = 16, .act = TPP_ACT_GELU_ERF, .epsilon = 0.125};
static const tpp_block_desc block_grouped = {
    .size = sizeof block_grouped, .hidden = 24, .ffn = 16, .heads = 8, .kv_heads = 2};
static const tpp_block_desc block_llama = {.size = sizeof block_llama,
                                           .flags = TPP_BLOCK_NO_BIAS,
                                           .hidden = 16,
                                           .ffn = 24,
                                           .heads = 8,
                                           .act = TPP_ACT_SWIGLU,
                                           .norm = TPP_NORM_RMS};
static const tpp_block_desc block_separate = {.size = sizeof block_separate,
                                              .flags = TPP_BLOCK_SEPARATE_GATE,
                                              .hidden = 8,
                                              .ffn = 16,
                                              .heads = 8,
                                              .act = TPP_ACT_GEGLU};

static const tpp_block_desc block_llama3 = {.size = sizeof block_llama3,
                                            .flags = TPP_BLOCK_NO_BIAS | TPP_BLOCK_SEPARATE_GATE |
                                                     TPP_BLOCK_SEPARATE_QKV,
                                            .hidden = 16,
                                            .ffn = 24,
                                            .heads = 8,
                                            .act = TPP_ACT_SWIGLU,
                                            .norm = TPP_NORM_RMS,
                                            .kv_heads = 2,
                                            .rope = &rope_llama3};
static const tpp_block_desc block_qwen3 = {.size = sizeof block_qwen3,
                                           .flags = TPP_BLOCK_NO_BIAS | TPP_BLOCK_QKV_BIAS |
                                                    TPP_BLOCK_QK_NORM | TPP_BLOCK_MLP_BIAS,
                                           .hidden = 12,
                                           .ffn = 16,
                                           .heads = 8,
                                           .act = TPP_ACT_SWIGLU,
                                           .epsilon = 1e-3,
                                           .norm = TPP_NORM_RMS,
                                           .kv_heads = 8,
                                           .rope = &rope,
                                           .window = 4,
                                           .head_cols = 6};
static const tpp_block_desc block_full = {.size = sizeof block_full,
                                          .flags = TPP_BLOCK_NO_BIAS | TPP_BLOCK_QKV_BIAS |
                                                   TPP_BLOCK_OUT_BIAS | TPP_BLOCK_FULL,
                                          .hidden = 8,
                                          .ffn = 8,
                                          .heads = 8};

static const tpp_block_desc block_dropout = {
    .size = sizeof block_dropout, .hidden = 24, .ffn = 16, .heads = 8, .dropout = 0.25};

static const tpp_block_desc block_parallel = {.size = sizeof block_parallel,
                                              .flags = TPP_BLOCK_PARALLEL,
                                              .hidden = 16,
                                              .ffn = 24,
                                              .heads = 8};
static const tpp_block_desc block_neox = {.size = sizeof block_neox,
                                          .flags = TPP_BLOCK_PARALLEL | TPP_BLOCK_TWO_NORMS,
                                          .hidden = 16,
                                          .heads = 8,
                                          .rope = &rope_partial,
                                          .head_cols = 6};
static const tpp_block_desc block_palm = {.size = sizeof block_palm,
                                          .flags = TPP_BLOCK_PARALLEL | TPP_BLOCK_NO_BIAS |
                                                   TPP_BLOCK_SEPARATE_GATE,
                                          .hidden = 24,
                                          .ffn = 16,
                                          .heads = 8,
                                          .act = TPP_ACT_SWIGLU,
                                          .norm = TPP_NORM_RMS,
                                          .kv_heads = 4,
                                          .dropout = 0.5};

static const tpp_dropout_desc dropout = {.size = sizeof dropout, .cols = 11, .rate = 0.3};

static const tp_gpt_desc gpt = {13, 16, 70, 8, 2, 0, 0, 0};
static const tp_gpt_desc gpt_grouped = {13, 16, 70, 8, 2, 2, 0, 0};
static const tp_gpt_desc gpt_tied = {13, 16, 70, 8, 2, 0, TP_HEAD_PLAIN | TP_HEAD_TIED, 0};
static const tp_gpt_desc gpt_fused = {13, 16, 70, 8, 2, 0, TP_HEAD_FUSED | TP_HEAD_TIED, 5};

static const tp_custom gate = {5, 0, 0};
static const tp_custom gate_split = {24, 1, 0};
static const tp_custom sum = {24, 0, 0};

/* Computed again in backward. */
static const tpp_block_desc block_selective = {.size = sizeof block_selective,
                                               .hidden = 24,
                                               .ffn = 16,
                                               .heads = 8,
                                               .kv_heads = 2,
                                               .dropout = 0.25,
                                               .recompute = TPP_RECOMPUTE_SELECTIVE};
static const tpp_block_desc block_again = {.size = sizeof block_again,
                                           .flags = TPP_BLOCK_NO_BIAS,
                                           .hidden = 16,
                                           .ffn = 24,
                                           .heads = 8,
                                           .act = TPP_ACT_SWIGLU,
                                           .norm = TPP_NORM_RMS,
                                           .dropout = 0.5,
                                           .recompute = TPP_RECOMPUTE_FULL};
static const tp_case swiglu_once = {"", &tp_kind_mlp, &swiglu};
static const tp_case attention_once = {"", &tp_kind_attention, &grouped};
static const tp_case norm_once = {"", &tp_kind_norm, &norm};

const tp_case tp_cases[] = {
    {"linear column", &tp_kind_linear, &column},
    {"linear column, no bias", &tp_kind_linear, &column_bare},
    {"linear column, padded", &tp_kind_linear, &padded},
    {"linear row", &tp_kind_linear, &row},
    {"linear row, no bias", &tp_kind_linear, &row_bare},
    {"mlp", &tp_kind_mlp, &mlp},
    {"mlp, erf", &tp_kind_mlp, &mlp_erf},
    {"mlp, no bias", &tp_kind_mlp, &mlp_bare},
    {"mlp, relu", &tp_kind_mlp, &mlp_relu},
    {"mlp, squared relu", &tp_kind_mlp, &mlp_square},
    {"mlp, silu", &tp_kind_mlp, &mlp_silu},
    {"mlp, swiglu", &tp_kind_mlp, &swiglu},
    {"mlp, swiglu, no bias", &tp_kind_mlp, &swiglu_bare},
    {"mlp, swiglu, separate", &tp_kind_mlp, &swiglu_separate},
    {"mlp, geglu", &tp_kind_mlp, &geglu},
    {"mlp, geglu, separate", &tp_kind_mlp, &geglu_separate},
    {"linear column, uneven", &tp_kind_linear_uneven, &column_uneven},
    {"linear row, uneven", &tp_kind_linear_uneven, &row_uneven},
    {"mlp, uneven", &tp_kind_mlp_uneven, &mlp_uneven},
    {"mlp, narrower than the blocks", &tp_kind_mlp_uneven, &mlp_narrow},
    {"mlp, swiglu, uneven", &tp_kind_mlp_uneven, &swiglu_uneven},
    {"mlp, geglu, separate, uneven", &tp_kind_mlp_uneven, &geglu_uneven},
    {"attention", &tp_kind_attention, &attention},
    {"attention, wide heads", &tp_kind_attention, &attention_wide},
    {"attention, no bias", &tp_kind_attention, &attention_bare},
    {"attention, grouped", &tp_kind_attention, &grouped},
    {"attention, grouped, no bias", &tp_kind_attention, &grouped_bare},
    {"attention, multi-query", &tp_kind_attention, &multi_query},
    {"attention, rotary", &tp_kind_attention, &turned},
    {"attention, rotary, partial", &tp_kind_attention, &turned_partly},
    {"attention, rotary, linear", &tp_kind_attention, &turned_slowly},
    {"attention, window", &tp_kind_attention, &window},
    {"attention, full", &tp_kind_attention, &full},
    {"attention, qk-norm", &tp_kind_attention, &qk_norm},
    {"attention, qwen", &tp_kind_attention, &qwen},
    {"norm", &tp_kind_norm, &norm},
    {"norm, no bias", &tp_kind_norm, &norm_bare},
    {"norm, rms", &tp_kind_norm, &norm_rms},
    {"embedding", &tp_kind_embedding, &embedding},
    {"embedding, no positions", &tp_kind_embedding, &embedding_bare},
    {"loss", &tp_kind_loss, &loss},
    {"loss, one class", &tp_kind_loss, &loss_tiny},
    {"loss, ignore", &tp_kind_loss, &loss_ignore},
    {"loss, smoothing", &tp_kind_loss, &loss_smooth},
    {"loss, smoothing others, z-loss", &tp_kind_loss_weighted, &loss_others},
    {"loss, sum, ignore a class", &tp_kind_loss, &loss_sum},
    {"loss, weighted mean, all options", &tp_kind_loss_weighted, &loss_mean},
    {"head", &tp_kind_head, &head},
    {"head, fused", &tp_kind_head, &head_fused},
    {"head, fused in steps", &tp_kind_head, &head_steps},
    {"head, fused in steps, all options", &tp_kind_head_weighted, &head_options},
    {"head, early", &tp_kind_head, &head_early},
    {"head, early, weighted", &tp_kind_head_weighted, &head_early_options},
    {"block", &tp_kind_block, &block},
    {"block, erf", &tp_kind_block, &block_erf},
    {"block, llama", &tp_kind_block, &block_llama},
    {"block, separate gate", &tp_kind_block, &block_separate},
    {"block, grouped", &tp_kind_block, &block_grouped},
    {"block, llama 3", &tp_kind_block, &block_llama3},
    {"block, qwen 3", &tp_kind_block, &block_qwen3},
    {"block, full", &tp_kind_block, &block_full},
    {"block, dropout", &tp_kind_block, &block_dropout},
    {"block, parallel", &tp_kind_block, &block_parallel},
    {"block, parallel, two norms", &tp_kind_block, &block_neox},
    {"block, parallel, all options", &tp_kind_block, &block_palm},
    {"dropout", &tp_kind_dropout, &dropout},
    {"gpt", &tp_kind_gpt, &gpt},
    {"gpt, grouped", &tp_kind_gpt, &gpt_grouped},
    {"gpt, tied", &tp_kind_gpt, &gpt_tied},
    {"gpt, tied, fused in steps", &tp_kind_gpt, &gpt_fused},
    {"custom gate", &tp_kind_custom_gate, &gate},
    {"custom gate, split", &tp_kind_custom_gate, &gate_split},
    {"custom sum", &tp_kind_custom_sum, &sum},
    {"block, recompute selective", &tp_kind_block, &block_selective},
    {"block, recompute full", &tp_kind_block, &block_again},
    {"mlp, recomputed", &tp_kind_again, &swiglu_once},
    {"attention, recomputed", &tp_kind_again, &attention_once},
    {"norm, recomputed", &tp_kind_again, &norm_once},
    {0},
};
