/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/layer_impl.h"

#include <math.h>
#include <tpp/norm.h>

typedef struct norm {
    tpp_layer base;
    double epsilon;
    bool rms;
} norm;

enum { WEIGHT, BIAS };

typedef struct norm_saved {
    void *mean, *rstd; /* [tokens]; an RMSNorm has no mean: NULL */
} norm_saved;

static norm_saved take_saved(const tpp_layer *layer, int64_t tokens, tpp__arena *arena) {
    norm_saved saved = {0};
    if (!((const norm *)layer)->rms)
        saved.mean = tpp__arena_take(arena, tokens, layer->wide_width);
    saved.rstd = tpp__arena_take(arena, tokens, layer->wide_width);
    return saved;
}

static void needs_of(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs) {
    tpp__arena saved = tpp__arena_counting();
    take_saved(layer, batch * seq, &saved);
    needs->saved = saved.used;
    needs->overflow = !tpp__arena_fits(&saved);
}

static tpp_status forward(const tpp_layer *layer, const tpp__work *work) {
    const norm *self = (const norm *)layer;
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    norm_saved saved = take_saved(layer, work->tokens, &memory);
    tpp__kern_norm_forward(layer->dtype, work->tokens, layer->in_cols, self->epsilon, work->in,
                           tpp__param_of(layer, work, WEIGHT), tpp__param_of(layer, work, BIAS),
                           work->out, saved.mean, saved.rstd);
    return TPP_OK;
}

static tpp_status backward(const tpp_layer *layer, const tpp__work *work, int32_t parts) {
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    norm_saved saved = take_saved(layer, work->tokens, &memory);
    if (parts & TPP__INPUT)
        tpp__kern_norm_backward_input(layer->dtype, work->tokens, layer->in_cols, work->in,
                                      tpp__param_of(layer, work, WEIGHT), saved.mean, saved.rstd,
                                      work->grad_out, work->grad_in);
    if (parts & TPP__WEIGHT)
        tpp__kern_norm_backward_weight(
            layer->dtype, work->tokens, layer->in_cols, work->in, saved.mean, saved.rstd,
            work->grad_out, tpp__grad_of(layer, work, WEIGHT), tpp__grad_of(layer, work, BIAS));
    return TPP_OK;
}

static const tpp__layer_ops ops = {.needs = needs_of, .forward = forward, .backward = backward};

tpp_status tpp_norm_create(tpp_layer **out, const tpp_layer_env *env, const tpp_norm_desc *given) {
    tpp_norm_desc desc;
    double epsilon;
    tpp_layer *layer;
    tpp_status status = tpp__sized_read(&desc, sizeof desc, TPP_NORM_NO_BIAS, given, "desc");
    if (status == TPP_OK)
        status = tpp__check_positive("desc.cols", desc.cols);
    if (status == TPP_OK && desc.kind != TPP_NORM_LAYER && desc.kind != TPP_NORM_RMS)
        status = tpp__fail(TPP_ERR_INVALID,
                           "desc.kind = %d is not accepted; accepted: 0 (LayerNorm), 1 (RMSNorm)",
                           desc.kind);
    if (status == TPP_OK)
        status = tpp__check_std("desc.epsilon", desc.epsilon, 1e-5, &epsilon);
    if (status == TPP_OK)
        status = tpp__layer_new(&layer, env, sizeof(norm), &ops, 2, 0);
    if (status != TPP_OK)
        return tpp__layer_hand_over(out, NULL, status);
    norm *self = (norm *)layer;
    self->epsilon = epsilon;
    self->rms = desc.kind == TPP_NORM_RMS;
    layer->in_cols = layer->out_cols = desc.cols;
    tpp__layer_add_param(layer, "weight", tpp__shard_whole(1, desc.cols), TPP_INIT_ONE, 0,
                         TPP_PARAM_NO_DECAY);
    if (!self->rms && !(desc.flags & TPP_NORM_NO_BIAS))
        tpp__layer_add_param(layer, "bias", tpp__shard_whole(1, desc.cols), TPP_INIT_ZERO, 0,
                             TPP_PARAM_NO_DECAY);
    return tpp__layer_hand_over(out, layer, TPP_OK);
}
