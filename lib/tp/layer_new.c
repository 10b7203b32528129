/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/layer_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static tpp_status read_blocks(tpp_layer *layer, int32_t blocks) {
    layer->blocks = blocks ? blocks : layer->ranks;
    bool power = blocks > 0 && (blocks & (blocks - 1)) == 0;
    if (blocks && !power)
        return tpp__fail(
            TPP_ERR_INVALID,
            "env.blocks = %d is not a power of two; accepted: 0 (free), 1, 2, 4, 8, ..", blocks);
    if (layer->blocks % layer->ranks != 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "env.blocks = %d is not a multiple of the %d ranks of env.comm", blocks,
                         layer->ranks);
    layer->count = layer->blocks / layer->ranks;
    layer->first = layer->count * layer->rank;
    return TPP_OK;
}

static tpp_status read_gemm(tpp_layer *layer, const tpp_gemm_ops *gemm) {
    if (!gemm)
        gemm = tpp_gemm_builtin(TPP_GEMM_BLAS);
    tpp_status status = tpp__sized_read(&layer->gemm, sizeof layer->gemm, 0, gemm, "env.gemm");
    if (status == TPP_OK && !layer->gemm.gemm)
        status = tpp__fail(TPP_ERR_INVALID, "env.gemm.gemm is NULL; it must be a function");
    return status;
}

static tpp_status read_name(tpp_layer *layer, const char *name) {
    if (!name)
        name = "";
    if (strlen(name) >= sizeof layer->prefix)
        return tpp__fail(TPP_ERR_INVALID, "env.name has %zu characters; at most 80 are accepted",
                         strlen(name));
    snprintf(layer->prefix, sizeof layer->prefix, "%s", name);
    return TPP_OK;
}

/* Everything of `env` into a layer that lies on the stack as yet. */
static tpp_status read_env(tpp_layer *layer, const tpp_layer_env *given) {
    tpp_layer_env env;
    tpp_status status = tpp__sized_read(
        &env, sizeof env, TPP_ENV_BLAS_INHERIT | TPP_ENV_UNEVEN | TPP_ENV_SEQUENCE, given, "env");
    if (status != TPP_OK)
        return status;
    layer->env = env;
    layer->env.size = sizeof layer->env;
    layer->ranks = env.comm ? tpp_comm_size(env.comm) : 1;
    layer->rank = env.comm ? tpp_comm_rank(env.comm) : 0;
    layer->comm = layer->ranks > 1 ? env.comm : NULL;
    layer->dtype = env.dtype ? env.dtype : TPP_F32;
    if (layer->dtype != TPP_F32 && layer->dtype != TPP_F64 && layer->dtype != TPP_BF16)
        return tpp__fail(TPP_ERR_INVALID,
                         "env.dtype = %d is not accepted; accepted: 1 (float32), 2 (float64), 4 "
                         "(bfloat16)",
                         env.dtype);
    layer->width = tpp__dtype_bytes(layer->dtype);
    layer->wide = tpp__dtype_wide(layer->dtype);
    layer->wide_width = tpp__dtype_bytes(layer->wide);
    layer->in_dtype = layer->out_dtype = layer->dtype;
    layer->context_size = env.context ? tpp_comm_size(env.context) : 1;
    layer->context_rank = env.context ? tpp_comm_rank(env.context) : 0;
    layer->context = layer->context_size > 1 ? env.context : NULL;
    if (layer->context && layer->context == layer->comm)
        return tpp__fail(TPP_ERR_INVALID,
                         "env.context is env.comm; accepted: NULL, or a group of the ranks that "
                         "have the same shards, one of each tensor-parallel group");
    layer->blas_single = (layer->ranks > 1 || layer->context || env.blocks > 0) &&
                         !(env.flags & TPP_ENV_BLAS_INHERIT);
    layer->sequence = env.flags & TPP_ENV_SEQUENCE;
    status = read_blocks(layer, env.blocks);
    if (status == TPP_OK)
        status = read_gemm(layer, env.gemm);
    if (status == TPP_OK)
        status = read_name(layer, env.name);
    if (status == TPP_OK)
        status = tpp__allocator_read(&layer->allocator, env.allocator);
    return status;
}

/* Cut the one allocation of a layer: the kind's struct, then the tables. */
static void *lay_out(tpp__arena *arena, tpp_layer *layer, int64_t bytes, int32_t params,
                     int32_t children) {
    void *self = tpp__arena_take(arena, 1, bytes);
    layer->params = tpp__arena_take(arena, params, sizeof *layer->params);
    layer->children = tpp__arena_take(arena, children, sizeof *layer->children);
    layer->child_state = tpp__arena_take(arena, children, sizeof *layer->child_state);
    layer->child_grads = tpp__arena_take(arena, children, sizeof *layer->child_grads);
    int64_t room = children ? 0 : (int64_t)sizeof layer->prefix + TPP__NAME_MAX;
    layer->names = tpp__arena_take(arena, params, room);
    return self;
}

tpp_status tpp__layer_new(tpp_layer **out, const tpp_layer_env *env, int64_t bytes,
                          const tpp__layer_ops *ops, int32_t params, int32_t children) {
    tpp_layer start = {.ops = ops};
    *out = NULL;
    tpp_status status = read_env(&start, env);
    if (status != TPP_OK)
        return status;
    tpp__arena arena = tpp__arena_counting();
    lay_out(&arena, &start, bytes, params, children);
    start.bytes = arena.used;
    void *memory = tpp__alloc(&start.allocator, start.bytes);
    if (!memory)
        return TPP_ERR_NO_MEMORY;
    arena = tpp__arena_over(memory, start.bytes);
    tpp_layer *layer = lay_out(&arena, &start, bytes, params, children);
    *layer = start;
    *out = layer;
    return TPP_OK;
}

tpp_status tpp__layer_hand_over(tpp_layer **out, tpp_layer *layer, tpp_status status) {
    if (status == TPP_OK && layer->state_overflow)
        status =
            tpp__fail(TPP_ERR_OVERFLOW, "the parameters of this layer do not fit into 64 bits");
    if (status == TPP_OK && !out)
        status = tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a layer pointer");
    if (out)
        *out = status < 0 ? NULL : layer;
    if (status != TPP_OK)
        tpp_layer_destroy(layer);
    return status;
}

void tpp_layer_destroy(tpp_layer *layer) {
    if (!layer)
        return;
    for (int32_t i = 0; i < layer->child_count; i++)
        tpp_layer_destroy(layer->children[i]);
    if (layer->ops->destroy)
        layer->ops->destroy(layer);
    tpp_allocator allocator = layer->allocator;
    tpp__free(&allocator, layer, layer->bytes);
}

void tpp__layer_add_param(tpp_layer *layer, const char *name, tpp_shard shard, tpp_init init,
                          double std, uint32_t flags) {
    size_t room = sizeof layer->prefix + TPP__NAME_MAX;
    char *text = layer->names + (size_t)layer->param_count * room;
    snprintf(text, room, "%s%s", layer->prefix, name);
    layer->params[layer->param_count++] =
        (tpp__param){text, shard, layer->state_bytes, layer->grad_bytes, init, std, flags};
    int64_t count = 0;
    bool fits = tpp__mul(tpp_shard_rows(&shard), tpp_shard_cols(&shard), &count);
    tpp__arena params = {.capacity = INT64_MAX, .used = layer->state_bytes};
    tpp__arena grads = {.capacity = INT64_MAX, .used = layer->grad_bytes};
    tpp__arena_take(&params, count, layer->width);
    tpp__arena_take(&grads, count, layer->wide_width);
    layer->state_overflow |= !fits || !tpp__arena_fits(&params) || !tpp__arena_fits(&grads);
    layer->state_bytes = params.used;
    layer->grad_bytes = grads.used;
}

void tpp__layer_adopt(tpp_layer *layer, tpp_layer *child) {
    layer->children[layer->child_count] = child;
    layer->child_grads[layer->child_count] = layer->grad_bytes;
    layer->child_state[layer->child_count++] = layer->state_bytes;
    for (int32_t i = 0; i < child->param_count; i++) {
        tpp__param *param = &layer->params[layer->param_count++];
        *param = child->params[i];
        param->offset += layer->state_bytes;
        param->grad_offset += layer->grad_bytes;
    }
    layer->state_overflow |= !tpp__add(layer->state_bytes, child->state_bytes, &layer->state_bytes);
    layer->state_overflow |= !tpp__add(layer->grad_bytes, child->grad_bytes, &layer->grad_bytes);
}

void tpp__layer_take_ends(tpp_layer *layer, const tpp_layer *first, const tpp_layer *last) {
    layer->in_dtype = first->in_dtype;
    layer->in_cols = first->in_cols;
    layer->in_part = first->in_part;
    layer->out_part = last->out_part;
    layer->out_cols = last->out_cols;
    layer->out_dtype = last->out_dtype;
    layer->targets = last->targets;
    layer->one_row = last->one_row;
    layer->out_always = last->out_always;
}

tpp_layer_env tpp__layer_child_env(const tpp_layer *layer, const char *name, char prefix[128]) {
    tpp_layer_env child = layer->env;
    snprintf(prefix, 128, "%s%s", layer->prefix, name);
    child.gemm = &layer->gemm;
    child.allocator = &layer->allocator;
    child.name = prefix;
    return child;
}

tpp_shard tpp__shard_whole(int64_t rows, int64_t cols) {
    return (tpp_shard){.rows = rows,
                       .cols = cols,
                       .valid = rows,
                       .axis = TPP_AXIS_NONE,
                       .sections = 1,
                       .parts = 1,
                       .first = 0,
                       .count = 1};
}

tpp_shard tpp__shard_axis(const tpp_layer *layer, int64_t rows, int64_t cols, tpp_axis axis,
                          int32_t sections, int64_t valid) {
    return (tpp_shard){.rows = rows,
                       .cols = cols,
                       .valid = valid,
                       .axis = axis,
                       .sections = sections,
                       .parts = layer->blocks,
                       .first = layer->first,
                       .count = layer->count};
}

tpp_shard tpp__shard_copied(const tpp_layer *layer, int64_t rows, int64_t cols, tpp_axis axis,
                            int32_t copies) {
    tpp_shard shard =
        tpp__shard_axis(layer, rows, cols, axis, 1, axis == TPP_AXIS_COLS ? cols : rows);
    shard.copies = copies > 1 ? copies : 0;
    return shard;
}

tpp_status tpp__check_blocks(const tpp_layer *layer, const char *field, int64_t value) {
    if (value % layer->blocks == 0 || layer->env.flags & TPP_ENV_UNEVEN)
        return TPP_OK;
    char accepted[160];
    bool fixed = layer->env.blocks != 0;
    int64_t power = 1; /* fixed blocks are powers of two */
    while (value % (2 * power) == 0)
        power *= 2;
    tpp__divisors(fixed ? power : value, accepted, sizeof accepted);
    return tpp__fail(TPP_ERR_INVALID, "%s = %lld is not a multiple of %s = %d; valid: %s", field,
                     (long long)value, fixed ? "blocks" : "tp", layer->blocks, accepted);
}

int64_t tpp__whole_blocks(const tpp_layer *layer, int64_t value) {
    return (value + layer->blocks - 1) / layer->blocks * layer->blocks;
}

int64_t tpp__padded(const tpp_layer *layer, int64_t value) {
    return layer->env.flags & TPP_ENV_UNEVEN ? tpp__whole_blocks(layer, value) : value;
}

tpp_status tpp__check_positive(const char *field, int64_t value) {
    if (value >= 1 && value <= INT32_MAX)
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID, "%s = %lld is out of range; accepted: 1 .. %d", field,
                     (long long)value, INT32_MAX);
}

tpp_status tpp__check_std(const char *field, double value, double otherwise, double *out) {
    if (!isfinite(value) || value < 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "%s = %g is not accepted; accepted: 0 (the default), or a positive number",
                         field, value);
    *out = value > 0 ? value : otherwise;
    return TPP_OK;
}
