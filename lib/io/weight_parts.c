/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "io_support.h"
#include "weight_name.h"

#include <stdio.h>
#include <string.h>
#include <tpp/convert.h>

/* A rank's part of a tensor, straight out of the mapped file: turned and converted in small tiles,
 * so that nothing is whole in memory but what is kept. */

enum { TILE = 64, WIDEST = 8 /* bytes of a number */, SHAPE_BYTES = 96 };

typedef struct cut {
    const tpp_tensor_info *from;
    const tpp_shard *shard;
    int64_t from_width;
    char *local; /* [rows, cols] */
    int64_t rows, cols;
    tpp_dtype dtype;
    int64_t width;
    bool turned;
} cut;

/* Global indices of up to TILE local ones; -1: padding. */
static int64_t indices(const tpp_shard *shard, tpp_axis axis, int64_t first, int64_t length,
                       int64_t out[TILE]) {
    int64_t count = length - first < TILE ? length - first : TILE;
    for (int64_t i = 0; i < count; i++) {
        out[i] = shard->axis == axis ? tpp_shard_index(shard, first + i) : first + i;
        if (shard->axis == axis && out[i] >= shard->valid)
            out[i] = -1;
    }
    return count;
}

/* Numbers `inner` of the stored row `major`, in the type of the parameter. */
static tpp_status read_row(const cut *c, int64_t major, const int64_t *inner, int64_t count,
                           char *out) {
    _Alignas(8) char raw[TILE * WIDEST];
    const char *row = (const char *)c->from->data + major * c->from->cols * c->from_width;
    for (int64_t i = 0; i < count;) {
        int64_t run = 1;
        while (i + run < count && inner[i] >= 0 && inner[i + run] == inner[i] + run)
            run++;
        char *to = raw + i * c->from_width;
        if (major < 0 || inner[i] < 0)
            memset(to, 0, (size_t)(run * c->from_width));
        else /* files of others align to a byte */
            memcpy(to, row + inner[i] * c->from_width, (size_t)(run * c->from_width));
        i += run;
    }
    return tpp_convert(out, c->dtype, raw, c->from->dtype, count);
}

static tpp_status read_tile(const cut *c, int64_t row, int64_t col) {
    int64_t rows[TILE], cols[TILE];
    _Alignas(8) char numbers[TILE * WIDEST];
    int64_t row_count = indices(c->shard, TPP_AXIS_ROWS, row, c->rows, rows);
    int64_t col_count = indices(c->shard, TPP_AXIS_COLS, col, c->cols, cols);
    const int64_t *major = c->turned ? cols : rows, *inner = c->turned ? rows : cols;
    int64_t majors = c->turned ? col_count : row_count, inners = c->turned ? row_count : col_count;
    int64_t step = c->turned ? c->cols : 1; /* between numbers of a stored row, in `local` */
    tpp_status status = TPP_OK;
    for (int64_t i = 0; i < majors && status == TPP_OK; i++) {
        status = read_row(c, major[i], inner, inners, numbers);
        int64_t start = c->turned ? row * c->cols + col + i : (row + i) * c->cols + col;
        for (int64_t j = 0; j < inners; j++)
            memcpy(c->local + (start + j * step) * c->width, numbers + j * c->width,
                   (size_t)c->width);
    }
    return status;
}

/* "[2, 3]", cut with "..." when there are many. */
static const char *shape_text(char out[SHAPE_BYTES], const int64_t *shape, int32_t dims) {
    int used = snprintf(out, SHAPE_BYTES, "[");
    for (int32_t i = 0; i < dims && used < SHAPE_BYTES - 32; i++)
        used += snprintf(out + used, (size_t)(SHAPE_BYTES - used), "%s%lld", i ? ", " : "",
                         (long long)shape[i]);
    snprintf(out + used, (size_t)(SHAPE_BYTES - used), "%s]",
             used < SHAPE_BYTES - 32 ? "" : ", ...");
    return out;
}

static tpp_status check_tensor(const char *path, const tpp_tensor_info *from,
                               const tpp_weight_info *name, const tpp_shard *shard) {
    char theirs[SHAPE_BYTES], ours[SHAPE_BYTES];
    int64_t rows = shard->axis == TPP_AXIS_ROWS ? shard->valid : shard->rows;
    int64_t cols = shard->axis == TPP_AXIS_COLS ? shard->valid : shard->cols;
    int64_t shape[2] = {name->turned ? cols : rows, name->turned ? rows : cols};
    const int32_t dims = name->dims == 1 ? 1 : 2;
    const int64_t *wanted = shape + 2 - dims;
    if (from->dims != dims || memcmp(from->shape, wanted, (size_t)dims * sizeof *wanted) != 0)
        return tpp__io_fail(TPP_ERR_FORMAT,
                            "%.200s has tensor %s of shape %s; the model here has %s", path,
                            from->name, shape_text(theirs, from->shape, from->dims),
                            shape_text(ours, wanted, dims));
    if (from->dtype == TPP_I32 || from->dtype == TPP_I64)
        return tpp__io_fail(TPP_ERR_UNSUPPORTED,
                            "%.200s has tensor %s in %s; accepted: F32, F64, BF16, F16", path,
                            from->name, tpp__io_dtype_name(from->dtype));
    return TPP_OK;
}

static tpp_status load_param(const tpp_weights *w, tpp_family family, const tpp_param_info *param,
                             tpp_dtype dtype, void *params) {
    tpp_tensor_info from = {.size = sizeof from};
    tpp_weight_info name = {.size = sizeof name};
    tpp_status status = tpp_weight_query(family, param->name, &name);
    if (status == TPP_OK)
        status = tpp_weights_find(w, family, param->name, &from);
    if (status == TPP_OK)
        status = check_tensor(tpp__weights_path(w), &from, &name, &param->shard);
    cut c = {.from = &from,
             .shard = &param->shard,
             .from_width = tpp__io_dtype_bytes(from.dtype),
             .local = (char *)params + param->offset,
             .rows = param->local_rows,
             .cols = param->local_cols,
             .dtype = dtype,
             .width = tpp__io_dtype_bytes(dtype),
             .turned = name.turned};
    for (int64_t r = 0; r < c.rows && status == TPP_OK; r += TILE)
        for (int64_t k = 0; k < c.cols && status == TPP_OK; k += TILE)
            status = read_tile(&c, r, k);
    return status;
}

tpp_status tpp_weights_load(const tpp_weights *weights, tpp_family family, const tpp_layer *layer,
                            tpp_dtype dtype, void *params) {
    tpp_layer_info facts = {.size = sizeof facts};
    if (!weights || !params)
        return tpp__io_fail(TPP_ERR_INVALID, "%s is NULL", weights ? "params" : "weights");
    if (dtype != TPP_F32 && dtype != TPP_F64 && dtype != TPP_BF16)
        return tpp__io_fail(TPP_ERR_INVALID,
                            "dtype = %d is not accepted; accepted: 1 (float32), 2 (float64), 4 "
                            "(bfloat16)",
                            dtype);
    tpp_status status = tpp_layer_query(layer, 0, 0, &facts);
    for (int32_t i = 0; i < facts.params && status == TPP_OK; i++) {
        tpp_param_info param = {.size = sizeof param};
        status = tpp_layer_param(layer, i, &param);
        if (status == TPP_OK)
            status = load_param(weights, family, &param, dtype, params);
    }
    return status;
}
