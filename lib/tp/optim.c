/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/adamw.h"
#include "tp/layer_impl.h"

#include <math.h>
#include <tpp/optim.h>

static tpp_status check_number(const char *field, double value, double low, double high) {
    if (value >= low && value < high)
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID, "desc.%s is out of range; accepted: %s", field,
                     high < 2 ? "0 (the default), or a number below 1"
                              : "a finite number, 0 or more");
}

static tpp_status check_desc(tpp_adamw_desc *desc) {
    tpp_status status = check_number("rate", desc->rate, 0, INFINITY);
    if (status == TPP_OK)
        status = check_number("beta1", desc->beta1, 0, 1);
    if (status == TPP_OK)
        status = check_number("beta2", desc->beta2, 0, 1);
    if (status == TPP_OK)
        status = check_number("epsilon", desc->epsilon, 0, INFINITY);
    if (status == TPP_OK)
        status = check_number("decay", desc->decay, 0, INFINITY);
    if (status == TPP_OK)
        status = check_number("grad_scale", desc->grad_scale, 0, INFINITY);
    if (status == TPP_OK && desc->step < 1)
        status = tpp__fail(TPP_ERR_INVALID, "desc.step = %lld; the first step is 1",
                           (long long)desc->step);
    desc->beta1 = desc->beta1 > 0 ? desc->beta1 : 0.9;
    desc->beta2 = desc->beta2 > 0 ? desc->beta2 : 0.999;
    desc->epsilon = desc->epsilon > 0 ? desc->epsilon : 1e-8;
    desc->grad_scale = desc->grad_scale > 0 ? desc->grad_scale : 1;
    return status;
}

int64_t tpp__moments_bytes(const tpp_layer *layer) {
    int64_t bytes;
    int64_t parts = layer->wide == layer->dtype ? 2 : 3;
    return tpp__mul(layer->grad_bytes, parts, &bytes) ? bytes : INT64_MAX;
}

tpp_status tpp_layer_adamw(const tpp_layer *layer, const tpp_adamw_desc *given, void *params,
                           const void *grads, void *moments) {
    tpp_adamw_desc desc;
    if (!layer || (layer->state_bytes > 0 && (!params || !grads || !moments)))
        return tpp__fail(TPP_ERR_INVALID, "layer, params, grads or moments is NULL");
    tpp_status status = tpp__sized_read(&desc, sizeof desc, 0, given, "desc");
    if (status == TPP_OK)
        status = check_desc(&desc);
    if (status != TPP_OK)
        return status;
    tpp__adamw step = {
        .beta1 = desc.beta1,
        .beta2 = desc.beta2,
        .rate_m = desc.rate / (1 - pow(desc.beta1, (double)desc.step)),
        .root_scale = 1 / sqrt(1 - pow(desc.beta2, (double)desc.step)),
        .epsilon = desc.epsilon,
        .grad_scale = desc.grad_scale,
    };
    for (int32_t i = 0; i < layer->param_count; i++) {
        const tpp__param *param = &layer->params[i];
        char *m = (char *)moments + param->grad_offset;
        char *v = m + layer->grad_bytes;
        char *rest = layer->wide == layer->dtype ? NULL : v + layer->grad_bytes;
        step.shrink = param->flags & TPP_PARAM_NO_DECAY ? 1 : 1 - desc.rate * desc.decay;
        tpp__kern_adamw(
            layer->dtype, &step, tpp_shard_rows(&param->shard) * tpp_shard_cols(&param->shard),
            (char *)params + param->offset, (const char *)grads + param->grad_offset, m, v, rest);
    }
    return TPP_OK;
}

/* Squares of block `block` of this rank's part of a parameter. Blocks lie side by side along the
 * split axis. */
static double block_squares(const tpp_layer *layer, const tpp__param *param, const char *grad,
                            int32_t block) {
    int64_t rows = tpp_shard_rows(&param->shard), cols = tpp_shard_cols(&param->shard);
    if (param->shard.axis == TPP_AXIS_ROWS) {
        int64_t tall = rows / param->shard.count;
        return tpp__kern_squares(layer->wide, tall, cols,
                                 grad + block * tall * cols * layer->wide_width, cols);
    }
    int64_t wide = cols / param->shard.count;
    return tpp__kern_squares(layer->wide, rows, wide, grad + block * wide * layer->wide_width,
                             cols);
}

tpp_status tpp_layer_grad_squares(const tpp_layer *layer, const void *grads, double *out) {
    if (!layer || !out || (layer->state_bytes > 0 && !grads))
        return tpp__fail(TPP_ERR_INVALID, "layer, grads or out is NULL");
    for (int32_t i = 0; i < layer->param_count; i++) {
        const tpp__param *param = &layer->params[i];
        const char *grad = (const char *)grads + param->grad_offset;
        double *to = out + (int64_t)i * layer->blocks;
        for (int32_t b = 0; b < layer->blocks; b++)
            to[b] = 0;
        if (param->flags & TPP_PARAM_COPY)
            continue; /* another layer has it */
        if (param->shard.axis != TPP_AXIS_NONE) {
            int32_t copies = param->shard.copies > 1 ? param->shard.copies : 1;
            for (int32_t b = 0; b < layer->count; b++)
                if ((layer->first + b) % copies == 0) /* the first copy stands for all */
                    to[layer->first + b] = block_squares(layer, param, grad, b);
        } else if (layer->rank == 0) {
            to[0] = tpp__kern_squares(layer->wide, param->shard.rows, param->shard.cols, grad,
                                      param->shard.cols);
        }
    }
    return TPP_OK;
}
