/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "io_support.h"
#include "weight_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Names as transformers gives them. A matrix of the Llama kind is stored [out, in]: ours turned. */

typedef struct row {
    const char *ours, *theirs;
    int32_t dims, turned;
} row;

/* GPT-2's matrices inside a block are stored as ours, [in, out] (its Conv1D). */
static const row gpt2_block[] = {
    {"ln_1.weight", "ln_1.weight", 1, 0},
    {"ln_1.bias", "ln_1.bias", 1, 0},
    {"attn.qkv.weight", "attn.c_attn.weight", 2, 0},
    {"attn.qkv.bias", "attn.c_attn.bias", 1, 0},
    {"attn.out.weight", "attn.c_proj.weight", 2, 0},
    {"attn.out.bias", "attn.c_proj.bias", 1, 0},
    {"ln_2.weight", "ln_2.weight", 1, 0},
    {"ln_2.bias", "ln_2.bias", 1, 0},
    {"mlp.up.weight", "mlp.c_fc.weight", 2, 0},
    {"mlp.up.bias", "mlp.c_fc.bias", 1, 0},
    {"mlp.down.weight", "mlp.c_proj.weight", 2, 0},
    {"mlp.down.bias", "mlp.c_proj.bias", 1, 0},
    {NULL, NULL, 2, 0},
};

static const row gpt2_model[] = {
    {"embed.tokens.weight", "wte.weight", 2, 0},
    {"embed.positions.weight", "wpe.weight", 2, 0},
    {"ln_f.weight", "ln_f.weight", 1, 0},
    {"ln_f.bias", "ln_f.bias", 1, 0},
    {NULL, NULL, 2, 0},
};

static const row llama_block[] = {
    {"ln_1.weight", "input_layernorm.weight", 1, 0},
    {"ln_1.bias", "input_layernorm.bias", 1, 0},
    {"attn.q.weight", "self_attn.q_proj.weight", 2, 1},
    {"attn.k.weight", "self_attn.k_proj.weight", 2, 1},
    {"attn.v.weight", "self_attn.v_proj.weight", 2, 1},
    {"attn.q.bias", "self_attn.q_proj.bias", 1, 0},
    {"attn.k.bias", "self_attn.k_proj.bias", 1, 0},
    {"attn.v.bias", "self_attn.v_proj.bias", 1, 0},
    {"attn.q_norm.weight", "self_attn.q_norm.weight", 1, 0},
    {"attn.k_norm.weight", "self_attn.k_norm.weight", 1, 0},
    {"attn.out.weight", "self_attn.o_proj.weight", 2, 1},
    {"attn.out.bias", "self_attn.o_proj.bias", 1, 0},
    {"ln_2.weight", "post_attention_layernorm.weight", 1, 0},
    {"ln_2.bias", "post_attention_layernorm.bias", 1, 0},
    {"mlp.gate.weight", "mlp.gate_proj.weight", 2, 1},
    {"mlp.gate.bias", "mlp.gate_proj.bias", 1, 0},
    {"mlp.up.weight", "mlp.up_proj.weight", 2, 1},
    {"mlp.up.bias", "mlp.up_proj.bias", 1, 0},
    {"mlp.down.weight", "mlp.down_proj.weight", 2, 1},
    {"mlp.down.bias", "mlp.down_proj.bias", 1, 0},
    {NULL, NULL, 2, 0},
};

static const row llama_model[] = {
    {"embed.tokens.weight", "embed_tokens.weight", 2, 0},
    {"embed.positions.weight", "embed_positions.weight", 2, 0},
    {"ln_f.weight", "norm.weight", 1, 0},
    {"ln_f.bias", "norm.bias", 1, 0},
    {NULL, NULL, 2, 0},
};

/* Everything but the head stands behind `root`; blocks behind `blocks` as well. */
static const struct naming {
    const row *of_block, *of_model;
    const char *root, *blocks;
} namings[] = {
    [TPP_FAMILY_GPT2] = {gpt2_block, gpt2_model, "transformer.", "h."},
    [TPP_FAMILY_LLAMA] = {llama_block, llama_model, "model.", "layers."},
    [TPP_FAMILY_MISTRAL] = {llama_block, llama_model, "model.", "layers."},
    [TPP_FAMILY_QWEN2] = {llama_block, llama_model, "model.", "layers."},
    [TPP_FAMILY_QWEN3] = {llama_block, llama_model, "model.", "layers."},
};

static const char HEAD[] = "lm_head.weight";

/* The row of a name; the one at the end when there is none. */
static const row *find(const row *rows, const char *ours) {
    while (rows->ours && strcmp(rows->ours, ours) != 0)
        rows++;
    return rows;
}

/* Length of "h.12.", 0 when the name does not begin so. */
static int block_length(const char *name) {
    int digits = 0;
    if (strncmp(name, "h.", 2) != 0)
        return 0;
    while (isdigit((unsigned char)name[2 + digits]))
        digits++;
    return digits > 0 && name[2 + digits] == '.' ? 2 + digits + 1 : 0;
}

/* A vector by its name, also where the family has no such parameter. */
static int32_t dims_of(const row *r, const char *ours) {
    size_t length = strlen(ours);
    return r->ours ? r->dims : length > 5 && strcmp(ours + length - 5, ".bias") == 0 ? 1 : 2;
}

tpp_status tpp_weight_query(tpp_family family, const char *param, tpp_weight_info *out) {
    tpp_weight_info info = {0};
    if (!param)
        return tpp__io_fail(TPP_ERR_INVALID, "param is NULL");
    if (family < TPP_FAMILY_GPT2 || family > TPP_FAMILY_QWEN3)
        return tpp__io_fail(TPP_ERR_INVALID,
                            "family = %d is not accepted; accepted: 0 (GPT-2), 1 (Llama), 2 "
                            "(Mistral), 3 (Qwen2), 4 (Qwen3)",
                            family);
    const struct naming *naming = &namings[family];
    int block = block_length(param);
    const char *rest = param + block;
    const row *r = find(block ? naming->of_block : naming->of_model, rest);
    const char *root = strcmp(param, HEAD) == 0 ? "" : naming->root;
    int length =
        snprintf(info.name, sizeof info.name, "%s%s%.*s%s", root, block ? naming->blocks : "",
                 block ? block - 2 : 0, param + 2, r->theirs ? r->theirs : rest);
    if (length >= (int)sizeof info.name)
        return tpp__io_fail(TPP_ERR_INVALID, "param = %.40s.. is too long", param);
    info.dims = dims_of(r, rest);
    info.turned = r->turned;
    return tpp__io_sized_write(out, &info, sizeof info, "out");
}

const char *tpp__weight_bare(tpp_family family, const char *name) {
    size_t length = strlen(namings[family].root);
    return strncmp(name, namings[family].root, length) == 0 ? name + length : name;
}

static bool ends(const char *name, const char *end) {
    size_t length = strlen(name), of_end = strlen(end);
    return length >= of_end && strcmp(name + length - of_end, end) == 0;
}

bool tpp__weight_is_buffer(tpp_family family, const char *name) {
    if (family == TPP_FAMILY_GPT2)
        return ends(name, ".attn.bias") || ends(name, ".attn.masked_bias");
    return ends(name, ".rotary_emb.inv_freq");
}
