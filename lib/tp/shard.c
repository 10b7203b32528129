/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <tpp/shard.h>

#include "base/check.h"
#include "tp/shard_impl.h"

#include <string.h>

static int64_t axis_length(const tpp_shard *shard) {
    return shard->axis == TPP_AXIS_COLS ? shard->cols : shard->rows;
}

/* Pieces of a section that differ. */
static int64_t pieces_of(const tpp_shard *shard) {
    return shard->parts / (shard->copies ? shard->copies : 1);
}

bool tpp__shard_sound(const tpp_shard *shard) {
    if (!shard || shard->rows < 0 || shard->cols < 0)
        return false;
    if (shard->axis == TPP_AXIS_NONE)
        return true;
    if (shard->axis != TPP_AXIS_ROWS && shard->axis != TPP_AXIS_COLS)
        return false;
    if (shard->sections < 1 || shard->parts < 1 || shard->first < 0 || shard->count < 0 ||
        shard->count > shard->parts - shard->first)
        return false;
    if (shard->copies < 0 || (shard->copies > 0 && shard->parts % shard->copies != 0))
        return false;
    int64_t length = axis_length(shard), elements;
    int64_t across = shard->axis == TPP_AXIS_COLS ? shard->rows : shard->cols;
    if (!tpp__mul(shard->rows, shard->cols, &elements))
        return false;
    if (!tpp__mul(length / pieces_of(shard), shard->count, &elements) ||
        !tpp__mul(elements, across, &elements)) /* of all copies here */
        return false;
    return length % (shard->sections * pieces_of(shard)) == 0 && shard->valid >= 0 &&
           shard->valid <= length && shard->valid % shard->sections == 0;
}

/* Indices of this rank along the axis. */
static int64_t local_length(const tpp_shard *shard) {
    return axis_length(shard) / pieces_of(shard) * shard->count;
}

int64_t tpp_shard_rows(const tpp_shard *shard) {
    if (!tpp__shard_sound(shard))
        return 0;
    return shard->axis == TPP_AXIS_ROWS ? local_length(shard) : shard->rows;
}

int64_t tpp_shard_cols(const tpp_shard *shard) {
    if (!tpp__shard_sound(shard))
        return 0;
    return shard->axis == TPP_AXIS_COLS ? local_length(shard) : shard->cols;
}

int64_t tpp__shard_full(const tpp_shard *shard, tpp_axis axis) {
    if (shard->axis == axis)
        return shard->valid;
    return axis == TPP_AXIS_ROWS ? shard->rows : shard->cols;
}

int64_t tpp__shard_part(const tpp_shard *shard, tpp_axis axis) {
    return axis == TPP_AXIS_ROWS ? tpp_shard_rows(shard) : tpp_shard_cols(shard);
}

int64_t tpp_shard_index(const tpp_shard *shard, int64_t local) {
    if (!tpp__shard_sound(shard) || local < 0)
        return -1;
    if (shard->axis == TPP_AXIS_NONE)
        return local < shard->rows ? local : -1;
    if (local >= local_length(shard))
        return -1;
    int64_t section = axis_length(shard) / shard->sections;
    int64_t block = section / pieces_of(shard);
    int64_t in_section = local / block % shard->sections;
    int64_t of_block = local / block / shard->sections;
    int64_t piece = (shard->first + of_block) / (shard->copies ? shard->copies : 1);
    int64_t offset = piece * block + local % block;
    int64_t real = shard->valid / shard->sections;
    if (offset < real)
        return in_section * real + offset;
    return shard->valid + in_section * (section - real) + offset - real;
}

int64_t tpp_shard_local(const tpp_shard *shard, int64_t index, tpp_axis axis) {
    if (!tpp__shard_sound(shard) || index < 0)
        return -1;
    if (shard->axis == TPP_AXIS_NONE)
        return index < (axis == TPP_AXIS_COLS ? shard->cols : shard->rows) ? index : -1;
    if (axis != shard->axis || index >= shard->valid || shard->valid == 0)
        return -1;
    int64_t real = shard->valid / shard->sections;
    int64_t block = axis_length(shard) / shard->sections / pieces_of(shard);
    int64_t section = index / real, offset = index % real;
    int64_t copies = shard->copies ? shard->copies : 1, holder = offset / block * copies;
    if (holder < shard->first) /* of its copies the first one here */
        holder = shard->first;
    bool held = holder / copies == offset / block && holder < shard->first + shard->count;
    return held ? ((holder - shard->first) * shard->sections + section) * block + offset % block
                : -1;
}

/* Copy one row of the local part to or from its place in the full tensor. */
static void copy_row(const tpp_shard *shard, int64_t row, char *local, char *full, int64_t width,
                     bool split) {
    int64_t cols = tpp_shard_cols(shard);
    int64_t from_row = shard->axis == TPP_AXIS_ROWS ? tpp_shard_index(shard, row) : row;
    int64_t full_cols = shard->axis == TPP_AXIS_COLS ? shard->valid : shard->cols;
    for (int64_t c = 0; c < cols; c++) {
        int64_t col = shard->axis == TPP_AXIS_COLS ? tpp_shard_index(shard, c) : c;
        bool padding = shard->axis == TPP_AXIS_ROWS ? from_row >= shard->valid : col >= full_cols;
        char *here = local + (row * cols + c) * width;
        char *there = padding ? NULL : full + (from_row * full_cols + col) * width;
        if (padding && split)
            memset(here, 0, (size_t)width);
        else if (!padding)
            memcpy(split ? here : there, split ? there : here, (size_t)width);
    }
}

static tpp_status copy_all(const tpp_shard *shard, char *local, char *full, tpp_dtype dtype,
                           bool split) {
    int64_t width = tpp__dtype_bytes(dtype);
    if (!tpp__shard_sound(shard))
        return tpp__fail(TPP_ERR_INVALID, "shard is NULL or breaks its rules (see tpp_shard)");
    if (width == 0)
        return tpp__fail(TPP_ERR_INVALID, "dtype = %d is not a type; accepted: 1, 2, 4, 16, 17",
                         dtype);
    int64_t rows = tpp_shard_rows(shard);
    if (rows * tpp_shard_cols(shard) > 0 && (!local || !full))
        return tpp__fail(TPP_ERR_INVALID, "%s is NULL", local ? "full" : "local");
    for (int64_t r = 0; r < rows; r++)
        copy_row(shard, r, local, full, width, split);
    return TPP_OK;
}

tpp_status tpp_shard_split(const tpp_shard *shard, const void *full, void *local, tpp_dtype dtype) {
    /* Only read when splitting. */
    union {
        const void *given;
        char *bytes;
    } from = {full};
    return copy_all(shard, local, from.bytes, dtype, true);
}

tpp_status tpp_shard_join(const tpp_shard *shard, const void *local, void *full, tpp_dtype dtype) {
    union {
        const void *given;
        char *bytes;
    } from = {local};
    return copy_all(shard, from.bytes, full, dtype, false);
}
