/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_GPT_H
#define TPP_PROGRAM_GPT_H

#include <tpp/tpp.h>

#include "train_config.h"

/* The layers of one virtual stage, as one chain: the embedding in front of the first stage, the
 * blocks dealt out evenly, the last norm, the output head and the loss at the end of the last stage.
 * Tied tables are copies on first and last stage, also where these are one: the same bits under
 * every split.
 *
 * comm: the tensor-parallel group, NULL for one rank. Parameters are named as in
 * model.h: "h.3.attn.qkv.weight". */
tpp_status gpt_stage_create(tpp_layer **out, const struct train_config *config, tpp_comm *comm,
                            int32_t stages, int32_t stage);

/* Number of transformer blocks of a stage. */
int32_t gpt_stage_blocks(const struct train_config *config, int32_t stages, int32_t stage);

#endif
