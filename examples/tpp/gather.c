/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "gather.h"

#include <stdlib.h>
#include <string.h>

#include "reserve.h"

static tpp_param_info describe(const struct piece *piece, int32_t param) {
    tpp_param_info info = {0};
    info.size = sizeof info;
    tpp_layer_param(piece->layer, param - piece->first, &info);
    return info;
}

int64_t gather_width(const struct team *team) {
    return train_config_width(team->config);
}

static void shape(struct full_param *full, const struct team *team, const tpp_param_info *info) {
    full->name = info->name;
    full->copy = (info->flags & TPP_PARAM_COPY) != 0;
    full->rows = info->shard.axis == TPP_AXIS_ROWS ? info->shard.valid : info->shard.rows;
    full->cols = info->shard.axis == TPP_AXIS_COLS ? info->shard.valid : info->shard.cols;
    full->bytes = full->rows * full->cols * gather_width(team);
}

struct full_param gather_param(const struct team *team, int32_t param) {
    struct full_param full = {.lanes_agree = 1};
    for (int32_t lane = 0; lane < team->layout.tp; lane++) {
        const struct piece *piece = team_piece(team, param, lane);
        tpp_param_info info = describe(piece, param);
        const char *local = (const char *)piece->params + info.offset;
        if (lane == 0) {
            shape(&full, team, &info);
            full.data = reserve(full.bytes, 1);
        } else if (info.shard.axis == TPP_AXIS_NONE) {
            full.lanes_agree &= memcmp(full.data, local, (size_t)full.bytes) == 0;
            continue;
        }
        tpp_shard_join(&info.shard, local, full.data, team->config->dtype);
    }
    return full;
}

struct full_param gather_shape(const struct team *team, int32_t param) {
    struct full_param full = {.lanes_agree = 1};
    tpp_param_info info = describe(team_piece(team, param, 0), param);
    shape(&full, team, &info);
    return full;
}

void gather_free(struct full_param *full) {
    free(full->data);
    memset(full, 0, sizeof *full);
}
