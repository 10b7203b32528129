/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "generate_config.h"

#include <inttypes.h>

#include "say.h"
#include "train_config.h"

#define OPTIONS struct generate_config
#include "option_rows.h"

const struct option_row generate_options[] = {
    HEADING("Model and text"),
    PATH("load", load, "the weights (safetensors), such as tpp train --save writes; required"),
    PATH("model", model,
         "config.json of weights that come from elsewhere; its first 256 tokens must be bytes"),
    {OPTION_LIST, "prompt", "TEXT",
     "how the text begins, at least a byte; required; given several times, texts are made side by "
     "side",
     AT(prompts), 0, 0, NULL},
    INT("tokens", tokens, 1, 1000000, "bytes to add to each prompt"),
    INT("context", context, 1, 1 << 20,
        "bytes that the model sees at most; when they are full, it goes on from the last half "
        "(default the learned positions, or prompt and tokens)"),
    {OPTION_CHOICE, "dtype", "NAME", "float32, float64 or bfloat16", AT(dtype), 0, 0,
     dtype_choices},

    HEADING("Choice of the next byte"),
    REAL("temperature", rule.temperature, 0, 100,
         "0: always the likeliest; 1: as the model has it; more: bolder"),
    INT("top-k", rule.top_k, 0, 1 << 20, "only among so many of the likeliest; 0: all"),
    REAL("top-p", rule.top_p, 0, 1, "only among the fewest that together have this probability"),
    {OPTION_SEED, "seed", "N", "start of the random numbers", AT(rule.seed), 0, 0, NULL},

    HEADING("Split over ranks"),
    INT("tp", tp, 1, 256, "tensor-parallel ranks: every layer is cut into so many pieces"),
    INT("pp", pp, 1, 256, "pipeline ranks: the layers are dealt out to so many"),
    INT("blocks", blocks, 0, 1024,
        "a power of two: every --tp and --pp that it allows gives the same text; 0: fastest"),

    HEADING("Output"),
    FLAG("json", json, "print one JSON object at the end on stdout, with tokens and times"),
    FLAG("quiet", quiet, "no times on stderr"),
    FLAG("help", help, "this text"),
    {OPTION_FLAG, NULL, NULL, NULL, 0, 0, 0, NULL},
};

struct generate_config generate_config_default(void) {
    return (struct generate_config){
        .tokens = 200,
        .dtype = TPP_F32,
        .rule = {.top_p = 1, .seed = 1},
        .tp = 1,
        .pp = 1,
    };
}

static int check_choice(const struct pick_rule *rule) {
    if (rule->top_p <= 0) {
        return usage_error("--top-p %g keeps nothing; accepted: more than 0, up to 1", rule->top_p);
    }
    if (rule->temperature == 0 && (rule->top_k > 1 || rule->top_p < 1)) {
        return usage_error("--top-k and --top-p choose among several; that needs a --temperature "
                           "above 0, such as 1");
    }
    return 0;
}

int generate_config_check(const struct generate_config *c) {
    if (!c->load) {
        return usage_error("--load FILE is missing: the weights, such as tpp train --save writes");
    }
    if (c->prompts.count == 0) {
        return usage_error("--prompt TEXT is missing: how the text begins, at least a byte");
    }
    for (int32_t i = 0; i < c->prompts.count; i++) {
        if (!c->prompts.texts[i][0]) {
            return usage_error("--prompt is empty; a model goes on from at least a byte");
        }
    }
    if (c->blocks & (c->blocks - 1)) {
        return usage_error("--blocks %" PRId32
                           " is not a power of two; accepted: 0, 1, 2, 4, 8, ..., 1024",
                           c->blocks);
    }
    if ((int64_t)c->tp * c->pp > 256) {
        return usage_error("--tp %" PRId32 " times --pp %" PRId32 " is %" PRId64
                           " ranks; accepted: at most 256",
                           c->tp, c->pp, (int64_t)c->tp * c->pp);
    }
    return check_choice(&c->rule);
}
