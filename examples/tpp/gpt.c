/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "gpt.h"

int32_t gpt_stage_blocks(const struct train_config *config, int32_t stages, int32_t stage) {
    int32_t first = 0;
    int32_t count = 0;
    tpp_schedule_partition(config->layers, stages, stage, &first, &count);
    return count;
}

tpp_status gpt_stage_create(tpp_layer **out, const struct train_config *config, tpp_comm *comm,
                            int32_t stages, int32_t stage) {
    tpp_layer_env env = {0};
    env.size = sizeof env;
    env.flags = config->sequence ? TPP_ENV_SEQUENCE : 0;
    env.comm = comm;
    env.dtype = config->dtype;
    env.blocks = config->blocks;
    tpp_loss_desc loss = {0};
    loss.size = sizeof loss;
    loss.smoothing = config->smoothing;
    tpp_model_part_desc part = {0};
    part.size = sizeof part;
    part.model = &config->desc;
    part.loss = &loss;
    part.recompute = config->recompute;
    part.dropout = config->dropout;
    tpp_status status =
        tpp_schedule_partition(config->layers, stages, stage, &part.first, &part.count);
    return status == TPP_OK ? tpp_model_part_create(out, &env, &part) : status;
}
