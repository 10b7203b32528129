/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/layer_impl.h"

#include <string.h>
#include <tpp/convert.h>

uint64_t tpp__name_key(const char *name) {
    uint64_t hash = 14695981039346656037u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 1099511628211u;
    return hash;
}

static double value_of(const tpp__param *param, uint64_t seed, uint64_t key, int64_t row,
                       int64_t col) {
    const tpp_shard *shard = &param->shard;
    bool rows = shard->axis == TPP_AXIS_ROWS, cols = shard->axis == TPP_AXIS_COLS;
    int64_t full_row = rows ? tpp_shard_index(shard, row) : row;
    int64_t full_col = cols ? tpp_shard_index(shard, col) : col;
    if ((rows && full_row >= shard->valid) || (cols && full_col >= shard->valid))
        return 0;
    if (param->init != TPP_INIT_NORMAL)
        return param->init == TPP_INIT_ONE ? 1 : 0;
    uint64_t index = (uint64_t)(full_row * (cols ? shard->valid : shard->cols) + full_col);
    return param->std * tpp__kern_random_normal(seed, key, index);
}

tpp_status tpp_layer_init(const tpp_layer *layer, void *params, uint64_t seed) {
    if (!layer || (!params && layer->param_count > 0))
        return tpp__fail(TPP_ERR_INVALID, "%s is NULL", layer ? "params" : "layer");
    if ((uintptr_t)params % TPP__ALIGN != 0)
        return tpp__fail(TPP_ERR_INVALID, "params is not aligned to %d bytes", TPP__ALIGN);
    if (layer->param_count > 0)
        memset(params, 0, (size_t)layer->state_bytes);
    for (int32_t i = 0; i < layer->param_count; i++) {
        const tpp__param *param = &layer->params[i];
        int64_t rows = tpp_shard_rows(&param->shard), cols = tpp_shard_cols(&param->shard);
        uint64_t key = tpp__name_key(param->name);
        char *to = (char *)params + param->offset;
        for (int64_t e = 0; e < rows * cols; e++) {
            double value = value_of(param, seed, key, e / cols, e % cols);
            tpp_convert(to + e * layer->width, layer->dtype, &value, TPP_F64, 1);
        }
    }
    return TPP_OK;
}
