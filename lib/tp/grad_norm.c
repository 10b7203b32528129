/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/grad_norm.h"

#include "tp/layer_impl.h"

#include <float.h>
#include <math.h>

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

double tpp__norm_of(const double *parts, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += parts[i];
    return sqrt(sum);
}

tpp_verdict tpp__verdict_of(double norm, double clip) {
    tpp_verdict verdict = {.size = sizeof verdict, .norm = norm, .grad_scale = 1};
    verdict.skip = !isfinite(norm);
    if (!verdict.skip && clip > 0 && norm > clip) {
        double scale = clip / norm;
        verdict.grad_scale = scale > 0 ? scale : DBL_TRUE_MIN; /* 0 would mean 1 */
    }
    return verdict;
}

tpp_status tpp__check_clip(const char *field, double clip) {
    if (clip >= 0 && clip < INFINITY)
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID,
                     "%s = %g; accepted: a finite number above 0, or 0 for no limit", field, clip);
}

tpp_status tpp_grad_verdict(const double *parts, int64_t count, double clip, tpp_verdict *out) {
    if (count < 0 || (!parts && count > 0))
        return tpp__fail(TPP_ERR_INVALID, "%s",
                         count < 0 ? "count is negative; it must be at least 0"
                                   : "parts is NULL; it must have count numbers");
    tpp_status status = tpp__check_clip("clip", clip);
    if (status != TPP_OK)
        return status;
    tpp_verdict verdict = tpp__verdict_of(tpp__norm_of(parts, count), clip);
    return tpp__sized_write(out, &verdict, sizeof verdict, "out");
}
