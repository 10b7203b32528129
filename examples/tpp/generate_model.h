/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_GENERATE_MODEL_H
#define TPP_PROGRAM_GENERATE_MODEL_H

#include <tpp/io.h>

#include "generate_config.h"

/* Fill config->desc from --model, or from what the weights tell. Returns 0, EXIT_USAGE or
 * EXIT_FAILED, after one sentence. */
int generate_model(struct generate_config *config, const tpp_weights *weights);

#endif
