/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <tpp/shard.h>

#include "base/check.h"
#include "tp/shard_impl.h"

#include <string.h>

static tpp_status check_maps(const tpp_shard *from, const tpp_shard *to, tpp_axis axis) {
    const tpp_shard *maps[] = {from, to};
    for (int i = 0; i < 2; i++) {
        if (!tpp__shard_sound(maps[i]))
            return tpp__fail(TPP_ERR_INVALID, "%s breaks the rules of a map (see tpp_shard)",
                             i ? "to" : "from");
        if (maps[i]->axis != TPP_AXIS_NONE && maps[i]->axis != axis)
            return tpp__fail(TPP_ERR_INVALID,
                             "from is split by %s and to by %s; both must split the same axis",
                             from->axis == TPP_AXIS_ROWS ? "rows" : "columns",
                             to->axis == TPP_AXIS_ROWS ? "rows" : "columns");
    }
    tpp_axis across = axis == TPP_AXIS_ROWS ? TPP_AXIS_COLS : TPP_AXIS_ROWS;
    if (tpp__shard_full(from, axis) != tpp__shard_full(to, axis) ||
        tpp__shard_full(from, across) != tpp__shard_full(to, across))
        return tpp__fail(
            TPP_ERR_INVALID,
            "from and to are maps of other tensors: %lld and %lld along the axis, %lld "
            "and %lld across",
            (long long)tpp__shard_full(from, axis), (long long)tpp__shard_full(to, axis),
            (long long)tpp__shard_full(from, across), (long long)tpp__shard_full(to, across));
    return TPP_OK;
}

/* One index along the axis, all of the other one; in NULL: zeros. */
typedef struct strip {
    int64_t count, step, bytes; /* elements across, apart by `step` bytes */
} strip;

static strip strip_of(const tpp_shard *shard, tpp_axis axis, int64_t width) {
    int64_t rows = tpp_shard_rows(shard), cols = tpp_shard_cols(shard);
    if (axis == TPP_AXIS_ROWS)
        return (strip){1, cols * width, cols * width};
    return (strip){rows, cols * width, width};
}

static void copy_strip(strip in_shape, const char *in, int64_t at, strip out_shape, char *out,
                       int64_t to) {
    in = in ? in + at * in_shape.bytes : NULL;
    out += to * out_shape.bytes;
    for (int64_t i = 0; i < out_shape.count; i++, out += out_shape.step) {
        if (in)
            memcpy(out, in + i * in_shape.step, (size_t)out_shape.bytes);
        else
            memset(out, 0, (size_t)out_shape.bytes);
    }
}

tpp_status tpp_shard_reshard(const tpp_shard *from, const void *in, const tpp_shard *to, void *out,
                             tpp_dtype dtype) {
    int64_t width = tpp__dtype_bytes(dtype);
    if (!from || !to)
        return tpp__fail(TPP_ERR_INVALID, "%s is NULL", from ? "to" : "from");
    if (width == 0)
        return tpp__fail(TPP_ERR_INVALID, "dtype = %d is not a type", dtype);
    tpp_axis axis = to->axis != TPP_AXIS_NONE ? to->axis : from->axis;
    axis = axis == TPP_AXIS_NONE ? TPP_AXIS_ROWS : axis;
    tpp_status status = check_maps(from, to, axis);
    if (status != TPP_OK)
        return status;
    strip in_shape = strip_of(from, axis, width), out_shape = strip_of(to, axis, width);
    int64_t length = tpp__shard_part(to, axis), real = tpp__shard_full(to, axis);
    if (length > 0 && out_shape.count * out_shape.bytes > 0 && !out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL");
    for (int64_t i = 0; i < length; i++) {
        int64_t index = to->axis == TPP_AXIS_NONE ? i : tpp_shard_index(to, i);
        int64_t at = index < real ? tpp_shard_local(from, index, axis) : -1;
        if (index < real && at >= 0 && !in)
            return tpp__fail(TPP_ERR_INVALID, "in is NULL, and this rank's part is needed");
        if (index >= real || at >= 0)
            copy_strip(in_shape, index < real ? in : NULL, at, out_shape, out, i);
    }
    return TPP_OK;
}
