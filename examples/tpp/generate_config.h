/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_GENERATE_CONFIG_H
#define TPP_PROGRAM_GENERATE_CONFIG_H

#include <tpp/tpp.h>

#include "options.h"
#include "pick.h"

enum { BYTES = 256 }; /* tokens that are text */

/* What `tpp generate` was asked to do. */
struct generate_config {
    const char *load, *model;
    struct option_list prompts;
    int32_t tokens, context, dtype, tp, pp, blocks;
    struct pick_rule rule;
    int32_t json, quiet, help;
    tpp_model_desc desc; /* from --model, or from what the weights tell */
};

extern const struct option_row generate_options[];

struct generate_config generate_config_default(void);

/* All but what needs the weights. Returns 0 or EXIT_USAGE, after one sentence. */
int generate_config_check(const struct generate_config *config);

#endif
