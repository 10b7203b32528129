/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/adamw.h"
#include "tp/layer_impl.h"

#include <math.h>
#include <string.h>
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

int64_t tpp__undo_bytes(const tpp_layer *layer) {
    int64_t rest = layer->wide == layer->dtype ? 0 : layer->grad_bytes, bytes;
    return tpp__add(layer->state_bytes, rest, &bytes) ? bytes : INT64_MAX;
}

/* Where BF16 parameters have what rounding left: behind m and v. */
static char *rest_of(const tpp_layer *layer, void *moments) {
    return layer->wide == layer->dtype ? NULL : (char *)moments + 2 * layer->grad_bytes;
}

enum { WHOLE = 0, PARAMS = 1, MOMENTS = 2 }; /* what of a step is done */

/* What tpp_layer_adamw and its parts work on; params NULL for MOMENTS. */
typedef struct adamw_call {
    tpp_adamw_desc desc;
    char *params;
    const char *grads;
    char *moments;
} adamw_call;

static tpp_status read_call(const tpp_layer *layer, const tpp_adamw_desc *given, adamw_call *call,
                            bool with_params) {
    bool empty = layer && layer->state_bytes == 0;
    if (!layer || (!empty && (!call->grads || !call->moments || (with_params && !call->params))))
        return tpp__fail(TPP_ERR_INVALID, "layer, %sgrads or moments is NULL",
                         with_params ? "params, " : "");
    tpp_status status = tpp__sized_read(&call->desc, sizeof call->desc, 0, given, "desc");
    return status == TPP_OK ? check_desc(&call->desc) : status;
}

static void step_param(const tpp_layer *layer, const adamw_call *call, const tpp__param *param,
                       const tpp__adamw *step, int part) {
    int64_t n = tpp_shard_rows(&param->shard) * tpp_shard_cols(&param->shard);
    const char *grad = call->grads + param->grad_offset;
    char *m = call->moments + param->grad_offset;
    char *v = m + layer->grad_bytes;
    if (part == MOMENTS) {
        tpp__kern_adamw_moments(layer->wide, step, n, grad, m, v);
        return;
    }
    char *at = call->params + param->offset, *rest = rest_of(layer, m);
    if (part == PARAMS)
        tpp__kern_adamw_params(layer->dtype, step, n, at, grad, m, v, rest);
    else
        tpp__kern_adamw(layer->dtype, step, n, at, grad, m, v, rest);
}

static void do_step(const tpp_layer *layer, const adamw_call *call, int part) {
    const tpp_adamw_desc *desc = &call->desc;
    tpp__adamw step = {
        .beta1 = desc->beta1,
        .beta2 = desc->beta2,
        .rate_m = desc->rate / (1 - pow(desc->beta1, (double)desc->step)),
        .root_scale = 1 / sqrt(1 - pow(desc->beta2, (double)desc->step)),
        .epsilon = desc->epsilon,
        .grad_scale = desc->grad_scale,
    };
    for (int32_t i = 0; i < layer->param_count; i++) {
        const tpp__param *param = &layer->params[i];
        step.shrink = param->flags & TPP_PARAM_NO_DECAY ? 1 : 1 - desc->rate * desc->decay;
        step_param(layer, call, param, &step, part);
    }
}

tpp_status tpp_layer_adamw(const tpp_layer *layer, const tpp_adamw_desc *desc, void *params,
                           const void *grads, void *moments) {
    adamw_call call = {.params = params, .grads = grads, .moments = moments};
    tpp_status status = read_call(layer, desc, &call, true);
    if (status == TPP_OK)
        do_step(layer, &call, WHOLE);
    return status;
}

/* --- In advance ------------------------------------------------------------------------------- */

static tpp_status check_undo(const tpp_layer *layer, const void *undo) {
    if (layer->state_bytes > 0 && !undo)
        return tpp__fail(TPP_ERR_INVALID, "undo is NULL; it must have %lld bytes",
                         (long long)tpp__undo_bytes(layer));
    return TPP_OK;
}

tpp_status tpp_layer_adamw_early(const tpp_layer *layer, const tpp_adamw_desc *desc, void *params,
                                 const void *grads, void *moments, void *undo) {
    adamw_call call = {.params = params, .grads = grads, .moments = moments};
    tpp_status status = read_call(layer, desc, &call, true);
    if (status == TPP_OK)
        status = check_undo(layer, undo);
    if (status != TPP_OK || layer->state_bytes == 0)
        return status;
    memcpy(undo, params, (size_t)layer->state_bytes);
    const char *rest = rest_of(layer, moments);
    if (rest)
        memcpy((char *)undo + layer->state_bytes, rest, (size_t)layer->grad_bytes);
    do_step(layer, &call, PARAMS);
    return TPP_OK;
}

tpp_status tpp_layer_adamw_keep(const tpp_layer *layer, const tpp_adamw_desc *desc,
                                const void *grads, void *moments) {
    adamw_call call = {.grads = grads, .moments = moments};
    tpp_status status = read_call(layer, desc, &call, false);
    if (status == TPP_OK)
        do_step(layer, &call, MOMENTS);
    return status;
}

tpp_status tpp_layer_adamw_undo(const tpp_layer *layer, void *params, void *moments,
                                const void *undo) {
    if (!layer || (layer->state_bytes > 0 && (!params || !moments)))
        return tpp__fail(TPP_ERR_INVALID, "layer, params or moments is NULL");
    tpp_status status = check_undo(layer, undo);
    if (status != TPP_OK || layer->state_bytes == 0)
        return status;
    memcpy(params, undo, (size_t)layer->state_bytes);
    char *rest = rest_of(layer, moments);
    if (rest)
        memcpy(rest, (const char *)undo + layer->state_bytes, (size_t)layer->grad_bytes);
    return TPP_OK;
}
