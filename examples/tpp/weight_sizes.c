/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "weight_sizes.h"

#include <inttypes.h>
#include <string.h>

static struct weight_size number(const char *key, const char *option, int64_t value) {
    struct weight_size size = {key, option, ""};
    snprintf(size.value, sizeof size.value, "%" PRId64, value);
    return size;
}

static struct weight_size name(const char *key, const char *option, const char *value) {
    struct weight_size size = {key, option, ""};
    snprintf(size.value, sizeof size.value, "%s", value);
    return size;
}

void weight_sizes(struct weight_size out[WEIGHT_SIZES], const struct train_config *config) {
    const tpp_model_desc *m = &config->desc;
    out[0] = number("layers", "--layers", config->layers);
    out[1] = number("hidden", "--hidden", config->hidden);
    out[2] = number("heads", "--heads", config->heads);
    out[3] = number("kv_heads", "--kv-heads", config->kv_heads);
    out[4] = number("seq", "--seq", m->positions);
    out[5] = number("vocab", "the vocabulary", m->vocab);
    out[6] = name("act", "--act", option_choice_name(act_choices, m->act));
    out[7] = name("norm", "--norm", option_choice_name(norm_choices, m->norm));
    out[8] = (struct weight_size){"rope", "--rope", ""};
    if (m->rope_theta > 0) {
        snprintf(out[8].value, sizeof out[8].value, "%.17g", m->rope_theta);
        out[4].value[0] = 0; /* any length */
    }
    out[9] = name("family", "--family", option_choice_name(family_choices, m->family));
    out[10] = number("window", "--window", m->window);
    if (m->window == 0) {
        out[10].value[0] = 0;
    }
}
