/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_TRAIN_MODEL_H
#define TPP_PROGRAM_TRAIN_MODEL_H

#include "train_config.h"

/* Fill config->desc from --model, or from the options that describe a model, and the sizes among
 * these from it. Returns 0, EXIT_USAGE or EXIT_FAILED, after one sentence. */
int train_model_make(struct train_config *config);

#endif
