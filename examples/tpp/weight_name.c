/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "weight_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct row {
    const char *ours, *theirs;
    int dims, turned;
};

/* GPT-2's matrices inside a block are stored as ours, [in, out] (its Conv1D). */
static const struct row of_block[] = {
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

static const struct row of_model[] = {
    {"embed.tokens.weight", "transformer.wte.weight", 2, 0},
    {"embed.positions.weight", "transformer.wpe.weight", 2, 0},
    {"ln_f.weight", "transformer.ln_f.weight", 1, 0},
    {"ln_f.bias", "transformer.ln_f.bias", 1, 0},
    {"lm_head.weight", "lm_head.weight", 2, 1},
    {NULL, NULL, 2, 0},
};

/* The row of a name; the one at the end when there is none. */
static const struct row *find(const struct row *rows, const char *ours) {
    while (rows->ours && strcmp(rows->ours, ours) != 0) {
        rows++;
    }
    return rows;
}

struct weight_name weight_name(const char *ours) {
    struct weight_name name;
    int digits = 0;
    if (strncmp(ours, "h.", 2) == 0) {
        while (isdigit((unsigned char)ours[2 + digits])) {
            digits++;
        }
    }
    int in_block = digits > 0 && ours[2 + digits] == '.';
    const char *rest = in_block ? ours + 2 + digits + 1 : ours;
    const struct row *row = find(in_block ? of_block : of_model, rest);
    if (in_block) {
        snprintf(name.text, sizeof name.text, "transformer.h.%.*s.%s", digits, ours + 2,
                 row->theirs ? row->theirs : rest);
    } else {
        snprintf(name.text, sizeof name.text, "%s", row->theirs ? row->theirs : rest);
    }
    name.dims = row->dims;
    name.turned = row->turned;
    return name;
}
