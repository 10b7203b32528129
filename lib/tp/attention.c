/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/operators.h"
#include "tp/partition_1d.h"

#include <math.h>
#include <tpp/attention.h>

typedef struct attention {
    tpp_layer base;
    int64_t heads; /* of this rank */
    int64_t head_cols;
} attention;

enum { QKV, OUT, QKV_BIAS, OUT_BIAS };

/* saved: Q, K and V side by side, block by block; the heads' outputs; log-sum-exp of each row of
 * scores. */
typedef struct attention_saved {
    char *qkv;
    char *heads;
    char *lse;
} attention_saved;

static int64_t cols_of(const tpp_layer *layer) {
    return ((const attention *)layer)->heads * ((const attention *)layer)->head_cols;
}

static attention_saved take_saved(const tpp_layer *layer, int64_t tokens, tpp__arena *arena) {
    attention_saved saved;
    saved.qkv = tpp__arena_take(arena, 3 * tokens * cols_of(layer), layer->width);
    saved.heads = tpp__arena_take(arena, tokens * cols_of(layer), layer->width);
    saved.lse = tpp__arena_take(arena, tokens * ((const attention *)layer)->heads, layer->width);
    return saved;
}

static void needs_of(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs) {
    const attention *self = (const attention *)layer;
    int64_t tokens = batch * seq;
    tpp__arena saved = tpp__arena_counting();
    take_saved(layer, tokens, &saved);
    tpp__arena split = tpp__arena_counting(); /* gradient of qkv */
    tpp__arena_take(&split, 3 * tokens * cols_of(layer), layer->width);
    tpp__arena core = split; /* gradient of the heads' outputs, then the core's tiles */
    tpp__arena_take(&core, tokens * cols_of(layer), layer->width);
    tpp__arena_take(&core, tpp__kern_attention_scratch(layer->dtype, seq, self->head_cols), 1);
    tpp__arena sums = split;
    tpp__block_sum_scratch(layer, tokens * layer->out_cols, &sums);
    needs->saved = saved.used;
    needs->split = split.used;
    needs->scratch = core.used > sums.used ? core.used : sums.used;
    needs->overflow =
        !tpp__arena_fits(&saved) || !tpp__arena_fits(&core) || !tpp__arena_fits(&sums);
}

/* Elements from the start of [tokens, 3 * cols] or [tokens, cols] to head `head` of `sequence`,
 * section 0. */
typedef struct head_place {
    int64_t q, section; /* in qkv: where Q lies, and how far K lies behind it, V behind K */
    int64_t out;        /* in the heads' outputs */
    int64_t lse;
} head_place;

static head_place place_of(const tpp_layer *layer, const tpp__work *work, int64_t sequence,
                           int64_t head) {
    const attention *self = (const attention *)layer;
    int64_t per_block = self->heads / layer->count;
    int64_t block = head / per_block, within = head % per_block;
    head_place place;
    place.section = per_block * self->head_cols;
    place.q = sequence * work->seq * 3 * cols_of(layer) + block * 3 * place.section +
              within * self->head_cols;
    place.out = sequence * work->seq * cols_of(layer) + head * self->head_cols;
    place.lse = (sequence * self->heads + head) * work->seq;
    return place;
}

static tpp__attention head_of(const tpp_layer *layer, const tpp__work *work, attention_saved saved,
                              head_place place, void *scratch) {
    const attention *self = (const attention *)layer;
    int64_t cols = cols_of(layer), w = layer->width;
    return (tpp__attention){
        .gemm = &layer->gemm,
        .dtype = layer->dtype,
        .seq = work->seq,
        .width = self->head_cols,
        .scale = 1 / sqrt((double)self->head_cols),
        .q = saved.qkv + place.q * w,
        .k = saved.qkv + (place.q + place.section) * w,
        .v = saved.qkv + (place.q + 2 * place.section) * w,
        .ldq = 3 * cols,
        .ldk = 3 * cols,
        .ldv = 3 * cols,
        .o = saved.heads + place.out * w,
        .ldo = cols,
        .lse = saved.lse + place.lse * w,
        .scratch = scratch,
    };
}

static tpp_status forward_heads(const tpp_layer *layer, const tpp__work *work,
                                attention_saved saved) {
    const attention *self = (const attention *)layer;
    tpp__arena arena = work->scratch;
    void *scratch = tpp__arena_take(
        &arena, tpp__kern_attention_scratch(layer->dtype, work->seq, self->head_cols), 1);
    tpp_status status = TPP_OK;
    for (int64_t i = 0; i < work->batch * self->heads && status == TPP_OK; i++) {
        head_place place = place_of(layer, work, i / self->heads, i % self->heads);
        tpp__attention head = head_of(layer, work, saved, place, scratch);
        status = tpp__kern_attention_forward(&head);
    }
    return status;
}

static tpp_status forward(const tpp_layer *layer, const tpp__work *work) {
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    attention_saved saved = take_saved(layer, work->tokens, &memory);
    tpp__linear_shape in = {work->tokens, layer->in_cols, 3 * cols_of(layer)};
    tpp__linear_shape out = {work->tokens, cols_of(layer), layer->out_cols};
    const void *bias = tpp__param_of(layer, work, OUT_BIAS);
    tpp_status status = tpp__col_forward(layer, in, work->in, tpp__param_of(layer, work, QKV),
                                         tpp__param_of(layer, work, QKV_BIAS), saved.qkv);
    if (status == TPP_OK)
        status = forward_heads(layer, work, saved);
    if (status == TPP_OK)
        status = tpp__row_forward(layer, out, saved.heads, tpp__param_of(layer, work, OUT),
                                  work->out, work->scratch);
    if (status == TPP_OK)
        status = tpp__g_forward(layer, work->out, out.tokens * out.out);
    if (status == TPP_OK && bias)
        tpp__kern_bias_add(layer->dtype, out.tokens, out.out, bias, work->out, out.out);
    return status;
}

/* Gradient of qkv, into work->split, from that of the layer's output. */
static tpp_status backward_heads(const tpp_layer *layer, const tpp__work *work,
                                 attention_saved saved) {
    const attention *self = (const attention *)layer;
    int64_t cols = cols_of(layer), w = layer->width;
    tpp__linear_shape out = {work->tokens, cols, layer->out_cols};
    tpp__arena arena = work->scratch;
    char *grad_heads = tpp__arena_take(&arena, out.tokens * cols, w);
    void *scratch = tpp__arena_take(
        &arena, tpp__kern_attention_scratch(layer->dtype, work->seq, self->head_cols), 1);
    tpp_status status =
        tpp__row_input(layer, out, work->grad_out, tpp__param_of(layer, work, OUT), grad_heads);
    for (int64_t i = 0; i < work->batch * self->heads && status == TPP_OK; i++) {
        head_place place = place_of(layer, work, i / self->heads, i % self->heads);
        tpp__attention head = head_of(layer, work, saved, place, scratch);
        head.d_o = grad_heads + place.out * w;
        head.ld_do = cols;
        head.dq = work->split + place.q * w;
        head.dk = work->split + (place.q + place.section) * w;
        head.dv = work->split + (place.q + 2 * place.section) * w;
        head.lddq = head.lddk = head.lddv = 3 * cols;
        status = tpp__kern_attention_backward(&head);
    }
    return status;
}

static tpp_status backward(const tpp_layer *layer, const tpp__work *work, int32_t parts) {
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    attention_saved saved = take_saved(layer, work->tokens, &memory);
    tpp__linear_shape in = {work->tokens, layer->in_cols, 3 * cols_of(layer)};
    tpp__linear_shape out = {work->tokens, cols_of(layer), layer->out_cols};
    tpp_request sum = {0};
    tpp_status status = TPP_OK;
    if (parts & TPP__INPUT) {
        status = backward_heads(layer, work, saved);
        if (status == TPP_OK)
            status = tpp__col_input(layer, in, work->split, tpp__param_of(layer, work, QKV),
                                    work->grad_in, work->scratch);
        if (status == TPP_OK)
            status = tpp__f_backward_start(layer, work->grad_in, in.tokens * in.in, &sum);
    }
    if (status == TPP_OK && (parts & TPP__WEIGHT))
        status = tpp__col_weight(layer, in, work->in, work->split, tpp__grad_of(layer, work, QKV),
                                 tpp__grad_of(layer, work, QKV_BIAS));
    if (status == TPP_OK && (parts & TPP__WEIGHT))
        status =
            tpp__row_weight(layer, out, saved.heads, work->grad_out, tpp__grad_of(layer, work, OUT),
                            tpp__grad_of(layer, work, OUT_BIAS));
    return tpp__f_backward_finish(&sum, status);
}

static tpp_status check_desc(tpp_attention_desc *desc) {
    tpp_status status = tpp__check_positive("desc.hidden", desc->hidden);
    if (status == TPP_OK)
        status = tpp__check_positive("desc.heads", desc->heads);
    if (status == TPP_OK && desc->head_cols < 0)
        status = tpp__check_positive("desc.head_cols", desc->head_cols);
    if (status == TPP_OK && desc->head_cols == 0 && desc->hidden % desc->heads != 0)
        status = tpp__fail(TPP_ERR_INVALID,
                           "desc.heads = %d does not divide desc.hidden = %lld; set desc.head_cols",
                           desc->heads, (long long)desc->hidden);
    if (status == TPP_OK)
        status = tpp__check_std("desc.init_std", desc->init_std, 0.02, &desc->init_std);
    if (status == TPP_OK)
        status = tpp__check_std("desc.out_std", desc->out_std, desc->init_std, &desc->out_std);
    if (status == TPP_OK && desc->head_cols == 0)
        desc->head_cols = (int32_t)(desc->hidden / desc->heads);
    int64_t cols = (int64_t)desc->heads * desc->head_cols;
    if (status == TPP_OK && cols > INT32_MAX / 3) /* Q, K and V side by side must suit BLAS */
        status = tpp__fail(TPP_ERR_INVALID,
                           "desc.heads x desc.head_cols = %lld is too wide; accepted: 1 .. %d",
                           (long long)cols, INT32_MAX / 3);
    return status;
}

static void add_params(tpp_layer *layer, const tpp_attention_desc *desc) {
    int64_t h = desc->hidden, cols = (int64_t)desc->heads * desc->head_cols;
    tpp__layer_add_param(layer, "qkv.weight",
                         tpp__shard_axis(layer, h, 3 * cols, TPP_AXIS_COLS, 3, 3 * cols),
                         TPP_INIT_NORMAL, desc->init_std, 0);
    tpp__layer_add_param(layer, "out.weight",
                         tpp__shard_axis(layer, cols, h, TPP_AXIS_ROWS, 1, cols), TPP_INIT_NORMAL,
                         desc->out_std, 0);
    if (desc->flags & TPP_ATTENTION_NO_BIAS)
        return;
    tpp__layer_add_param(layer, "qkv.bias",
                         tpp__shard_axis(layer, 1, 3 * cols, TPP_AXIS_COLS, 3, 3 * cols),
                         TPP_INIT_ZERO, 0, TPP_PARAM_NO_DECAY);
    tpp__layer_add_param(layer, "out.bias", tpp__shard_whole(1, h), TPP_INIT_ZERO, 0,
                         TPP_PARAM_NO_DECAY);
}

static const tpp__layer_ops ops = {needs_of, forward, backward};

tpp_status tpp_attention_create(tpp_layer **out, const tpp_layer_env *env,
                                const tpp_attention_desc *given) {
    tpp_attention_desc desc;
    tpp_layer *layer;
    tpp_status status = tpp__sized_read(&desc, sizeof desc, TPP_ATTENTION_NO_BIAS, given, "desc");
    if (status == TPP_OK)
        status = check_desc(&desc);
    if (status == TPP_OK)
        status = tpp__layer_new(&layer, env, sizeof(attention), &ops, 4, 0);
    if (status != TPP_OK)
        return tpp__layer_hand_over(out, NULL, status);
    status = tpp__check_blocks(layer, "desc.heads", desc.heads);
    if (status == TPP_OK) {
        attention *self = (attention *)layer;
        self->heads = desc.heads / layer->ranks;
        self->head_cols = desc.head_cols;
        layer->in_cols = layer->out_cols = desc.hidden;
        add_params(layer, &desc);
    }
    return tpp__layer_hand_over(out, layer, status);
}
