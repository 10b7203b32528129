/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/copies.h"
#include "tp/cost_impl.h"

#include <string.h>

/* The sum over copies. Inside a rank it is made in place, along the tree over its blocks. Then every
 * rank puts its part of each piece into a buffer that is zero elsewhere, the buffers are added along
 * the tree over ranks (x + 0 = x: only the holders of a piece count), and the result goes to every
 * copy. */

static bool is_copied(const tpp__param *param) {
    return param->shard.axis != TPP_AXIS_NONE && param->shard.copies > 1;
}

/* A block of a parameter: [rows, cols] with rows `stride` apart, blocks `step` apart. */
typedef struct block_shape {
    int64_t rows, cols, stride, step;
} block_shape;

static block_shape shape_of(const tpp__param *param) {
    int64_t rows = tpp_shard_rows(&param->shard), cols = tpp_shard_cols(&param->shard);
    int64_t blocks = param->shard.count;
    if (param->shard.axis == TPP_AXIS_ROWS)
        return (block_shape){rows / blocks, cols, cols, rows / blocks * cols};
    return (block_shape){rows, cols / blocks, cols, cols / blocks};
}

static int64_t elements_of(const tpp__param *param) {
    return param->shard.rows * param->shard.cols;
}

int64_t tpp__copies_bytes(const tpp_layer *layer) {
    tpp__arena arena = tpp__arena_counting();
    for (int32_t i = 0; i < layer->param_count; i++)
        if (is_copied(&layer->params[i]))
            tpp__arena_take(&arena, elements_of(&layer->params[i]), layer->wide_width);
    return tpp__arena_fits(&arena) ? arena.used : INT64_MAX;
}

/* y += x, row by row. */
static void add_block(const tpp_layer *layer, block_shape s, const char *x, int64_t ldx, char *y,
                      int64_t ldy) {
    for (int64_t r = 0; r < s.rows; r++)
        tpp__kern_add(layer->wide, s.cols, x + r * ldx * layer->wide_width,
                      y + r * ldy * layer->wide_width);
}

/* Blocks of this rank that hold the same piece. */
typedef struct group {
    int32_t first, count; /* among this rank's blocks */
    int64_t piece;
} group;

static group group_at(const tpp_layer *layer, const tpp__param *param, int32_t block) {
    int32_t copies = param->shard.copies;
    int32_t count = layer->count - block < copies ? layer->count - block : copies;
    return (group){block, count, (layer->first + block) / copies};
}

/* This rank's sum of a piece into the first block of the group, then into the buffer. */
static void give(const tpp_layer *layer, const tpp__param *param, char *grad, group g,
                 char *buffer) {
    block_shape s = shape_of(param);
    int64_t step = s.step * layer->wide_width;
    char *first = grad + g.first * step;
    for (int32_t far = 1; far < g.count; far *= 2)
        for (int32_t b = 0; b + far < g.count; b += 2 * far)
            add_block(layer, s, first + (b + far) * step, s.stride, first + b * step, s.stride);
    char *to = buffer + g.piece * s.rows * s.cols * layer->wide_width;
    add_block(layer, s, first, s.stride, to, s.cols);
}

/* The whole sum of a piece to all copies on this rank. The buffer is not const because both steps are
 * a piece_fn. */
static void fetch(const tpp_layer *layer, const tpp__param *param, char *grad, group g,
                  char *buffer) { /* NOLINT(readability-non-const-parameter) */
    block_shape s = shape_of(param);
    const char *from = buffer + g.piece * s.rows * s.cols * layer->wide_width;
    for (int32_t b = g.first; b < g.first + g.count; b++)
        tpp__kern_copy(layer->wide, s.rows, s.cols, from, s.cols,
                       grad + b * s.step * layer->wide_width, s.stride);
}

typedef void (*piece_fn)(const tpp_layer *layer, const tpp__param *param, char *grad, group g,
                         char *buffer);

/* Every piece of every copied parameter on this rank. */
static void each_piece(const tpp_layer *layer, char *grads, char *buffer, piece_fn visit) {
    for (int32_t i = 0; i < layer->param_count; i++) {
        const tpp__param *param = &layer->params[i];
        if (!is_copied(param))
            continue;
        for (int32_t b = 0; b < layer->count;) {
            group g = group_at(layer, param, b);
            visit(layer, param, grads + param->grad_offset, g, buffer);
            b += g.count;
        }
        buffer += elements_of(param) * layer->wide_width;
    }
}

static int64_t copied_elements(const tpp_layer *layer) {
    int64_t count = 0;
    for (int32_t i = 0; i < layer->param_count; i++)
        count += is_copied(&layer->params[i]) ? elements_of(&layer->params[i]) : 0;
    return count;
}

/* A head lies on several ranks. */
static bool over_ranks(const tpp_layer *layer) {
    for (int32_t i = 0; i < layer->param_count; i++)
        if (is_copied(&layer->params[i]) && layer->params[i].shard.copies > layer->count)
            return true;
    return false;
}

void tpp__copies_cost(const tpp_layer *layer, tpp__cost *cost) {
    if (over_ranks(layer))
        tpp__cost_comm(layer, cost, TPP_COMM_ALL_REDUCE, copied_elements(layer), layer->wide);
}

tpp_status tpp_layer_sum_copies(const tpp_layer *layer, void *grads, void *scratch,
                                int64_t scratch_bytes) {
    if (!layer)
        return tpp__fail(TPP_ERR_INVALID, "layer is NULL");
    int64_t need = tpp__copies_bytes(layer);
    if (need == 0)
        return TPP_OK;
    if (!grads || !scratch)
        return tpp__fail(TPP_ERR_INVALID, "%s is NULL", grads ? "scratch" : "grads");
    if ((uintptr_t)scratch % TPP__ALIGN != 0)
        return tpp__fail(TPP_ERR_INVALID, "scratch is not aligned to %d bytes", TPP__ALIGN);
    if (scratch_bytes < need)
        return tpp__fail(TPP_ERR_TOO_SMALL,
                         "scratch_bytes = %lld is too small; this call needs %lld",
                         (long long)scratch_bytes, (long long)need);
    int64_t count = copied_elements(layer);
    memset(scratch, 0, (size_t)(count * layer->wide_width));
    each_piece(layer, grads, scratch, give);
    if (layer->comm && over_ranks(layer)) {
        tpp_status status =
            tpp_comm_all_reduce(layer->comm, scratch, scratch, count, layer->wide, TPP_SUM_TREE);
        if (status != TPP_OK)
            return status;
    }
    each_piece(layer, grads, scratch, fetch);
    return TPP_OK;
}
