/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "cost/cost_model.h"

#include <stdio.h>
#include <string.h>

enum {
    GPT = TPP_COST_TIED,
    LLAMA = TPP_COST_GATED | TPP_COST_NO_BIAS | TPP_COST_RMS_NORM,
};

typedef struct preset {
    const char *name;
    uint32_t flags;
    int32_t layers, heads, kv_heads, experts, experts_per_token;
    int64_t vocab, hidden, ffn, positions;
} preset;

static const preset presets[] = {
    {"gpt2", GPT, 12, 12, 0, 0, 0, 50257, 768, 0, 1024},
    {"gpt2-medium", GPT, 24, 16, 0, 0, 0, 50257, 1024, 0, 1024},
    {"gpt2-large", GPT, 36, 20, 0, 0, 0, 50257, 1280, 0, 1024},
    {"gpt2-xl", GPT, 48, 25, 0, 0, 0, 50257, 1600, 0, 1024},
    {"gpt3-175b", GPT, 96, 96, 0, 0, 0, 51200, 12288, 0, 2048},
    {"gpt-22b", GPT, 48, 64, 0, 0, 0, 51200, 6144, 0, 2048},
    {"gpt-530b", GPT, 105, 128, 0, 0, 0, 51200, 20480, 0, 2048},
    {"gpt-1t", GPT, 128, 160, 0, 0, 0, 51200, 25600, 0, 2048},
    {"llama2-7b", LLAMA, 32, 32, 0, 0, 0, 32000, 4096, 11008, 0},
    {"llama2-13b", LLAMA, 40, 40, 0, 0, 0, 32000, 5120, 13824, 0},
    {"llama2-70b", LLAMA, 80, 64, 8, 0, 0, 32000, 8192, 28672, 0},
    {"llama3-8b", LLAMA, 32, 32, 8, 0, 0, 128256, 4096, 14336, 0},
    {"llama3-70b", LLAMA, 80, 64, 8, 0, 0, 128256, 8192, 28672, 0},
    {"llama3-405b", LLAMA, 126, 128, 8, 0, 0, 128256, 16384, 53248, 0},
    {"mixtral-8x7b", LLAMA, 32, 32, 8, 8, 2, 32000, 4096, 14336, 0},
};

enum { PRESETS = sizeof presets / sizeof *presets };

static const preset *find(const char *name) {
    for (int32_t i = 0; i < PRESETS; i++) {
        if (strcmp(name, presets[i].name) == 0)
            return &presets[i];
    }
    return NULL;
}

static tpp_status refuse(const char *name) {
    char names[400];
    int used = 0;
    for (int32_t i = 0; i < PRESETS; i++)
        used += snprintf(names + used, sizeof names - (size_t)used, "%s%s", i > 0 ? ", " : "",
                         presets[i].name);
    return tpp__fail(TPP_ERR_INVALID, "name = \"%.60s\" is no model that is known; accepted: %s",
                     name, names);
}

tpp_status tpp_cost_model_preset(tpp_cost_model *out, const char *name) {
    if (!name)
        return tpp__fail(TPP_ERR_INVALID, "name is NULL; it must be a model's name");
    const preset *p = find(name);
    if (!p)
        return refuse(name);
    const tpp_cost_model m = {.size = sizeof m,
                              .flags = p->flags,
                              .vocab = p->vocab,
                              .hidden = p->hidden,
                              .ffn = p->ffn,
                              .positions = p->positions,
                              .layers = p->layers,
                              .heads = p->heads,
                              .kv_heads = p->kv_heads,
                              .experts = p->experts,
                              .experts_per_token = p->experts_per_token};
    return tpp__sized_write(out, &m, sizeof m, "out");
}

const char *tpp_cost_model_preset_name(int32_t index) {
    return index >= 0 && index < PRESETS ? presets[index].name : NULL;
}
