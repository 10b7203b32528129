/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/part.h"

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
    take_saved(layer, tpp__in_room(layer, batch * seq), &saved);
    needs->saved = saved.used;
    needs->overflow = !tpp__arena_fits(&saved);
}

/* Rows that share a copy of the parameters. With sequence parallelism each block of rows has its own,
 * so that the gradients' sums over tokens are made block by block, whatever the number of ranks. */
typedef struct run {
    int64_t first, count; /* rows */
    int64_t params;       /* elements before its copy */
} run;

static int32_t runs_of(const tpp_layer *layer) {
    return layer->sequence ? layer->count : 1;
}

static run run_at(const tpp_layer *layer, const tpp__work *work, int32_t index) {
    int64_t tall = tpp__part_of(layer, work->tokens).tall;
    int64_t first = index * tall < work->rows ? index * tall : work->rows;
    int64_t count = work->rows - first < tall ? work->rows - first : tall;
    return (run){first, count, index * layer->in_cols};
}

/* `skip` elements of `width` bytes on; NULL stays. */
static void *further(void *at, int64_t skip, int64_t width) {
    return at ? (char *)at + skip * width : NULL;
}

static const void *beyond(const void *at, int64_t skip, int64_t width) {
    return at ? (const char *)at + skip * width : NULL;
}

static tpp_status forward(const tpp_layer *layer, const tpp__work *work) {
    const norm *self = (const norm *)layer;
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    norm_saved saved = take_saved(layer, tpp__in_room(layer, work->tokens), &memory);
    int64_t cols = layer->in_cols, w = layer->width, wide = layer->wide_width;
    for (int32_t i = 0; i < runs_of(layer); i++) {
        run at = run_at(layer, work, i);
        tpp__kern_norm_forward(
            layer->dtype, at.count, cols, self->epsilon, beyond(work->in, at.first * cols, w),
            beyond(tpp__param_of(layer, work, WEIGHT), at.params, w),
            beyond(tpp__param_of(layer, work, BIAS), at.params, w),
            further(work->out, at.first * cols, w), further(saved.mean, at.first, wide),
            further(saved.rstd, at.first, wide));
    }
    return TPP_OK;
}

static void backward_run(const tpp_layer *layer, const tpp__work *work, const norm_saved *saved,
                         run at, int32_t parts) {
    int64_t cols = layer->in_cols, w = layer->width, wide = layer->wide_width;
    const void *in = beyond(work->in, at.first * cols, w);
    const void *grad_out = beyond(work->grad_out, at.first * cols, w);
    const void *mean = beyond(saved->mean, at.first, wide);
    const void *rstd = beyond(saved->rstd, at.first, wide);
    if (parts & TPP__INPUT)
        tpp__kern_norm_backward_input(layer->dtype, at.count, cols, in,
                                      beyond(tpp__param_of(layer, work, WEIGHT), at.params, w),
                                      mean, rstd, grad_out,
                                      further(work->grad_in, at.first * cols, w));
    if (parts & TPP__WEIGHT)
        tpp__kern_norm_backward_weight(layer->dtype, at.count, cols, in, mean, rstd, grad_out,
                                       further(tpp__grad_of(layer, work, WEIGHT), at.params, wide),
                                       further(tpp__grad_of(layer, work, BIAS), at.params, wide));
}

static tpp_status backward(const tpp_layer *layer, const tpp__work *work, int32_t parts) {
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    norm_saved saved = take_saved(layer, tpp__in_room(layer, work->tokens), &memory);
    for (int32_t i = 0; i < runs_of(layer); i++)
        backward_run(layer, work, &saved, run_at(layer, work, i), parts);
    return TPP_OK;
}

/* One weight for all tokens; with sequence parallelism every block of rows has a copy. */
static tpp_shard param_shard(const tpp_layer *layer, int64_t cols) {
    return layer->sequence ? tpp__shard_copied(layer, 1, cols, TPP_AXIS_COLS, layer->blocks)
                           : tpp__shard_whole(1, cols);
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
    layer->out_always = true;
    layer->in_part = layer->out_part = layer->sequence;
    tpp__layer_add_param(layer, "weight", param_shard(layer, desc.cols), TPP_INIT_ONE, 0,
                         TPP_PARAM_NO_DECAY);
    if (!self->rms && !(desc.flags & TPP_NORM_NO_BIAS))
        tpp__layer_add_param(layer, "bias", param_shard(layer, desc.cols), TPP_INIT_ZERO, 0,
                             TPP_PARAM_NO_DECAY);
    return tpp__layer_hand_over(out, layer, TPP_OK);
}
