/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "weight_sizes.h"

#include <string.h>

void weight_sizes(struct weight_size out[WEIGHT_SIZES], const struct train_config *config) {
    const struct weight_size sizes[WEIGHT_SIZES] = {
        {"layers", "--layers", config->layers}, {"hidden", "--hidden", config->hidden},
        {"heads", "--heads", config->heads},    {"seq", "--seq", config->seq},
        {"vocab", "the vocabulary", VOCAB},
    };
    memcpy(out, sizes, sizeof sizes);
}
