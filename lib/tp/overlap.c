/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <tpp/shard.h>

#include "base/check.h"
#include "tp/shard_impl.h"

/* Where `from` holds what `to` has at a local index; -1: nowhere, or it is padding. */
static int64_t source_of(const tpp_shard *from, const tpp_shard *to, tpp_axis axis, int64_t local) {
    int64_t index = to->axis == axis ? tpp_shard_index(to, local) : local;
    if (index >= tpp__shard_full(to, axis))
        return -1;
    return from->axis == axis ? tpp_shard_local(from, index, axis) : index;
}

static tpp_status check(const tpp_shard *from, const tpp_shard *to, tpp_axis axis, int64_t at,
                        const tpp_shard_run *out) {
    if (!tpp__shard_sound(from) || !tpp__shard_sound(to))
        return tpp__fail(TPP_ERR_INVALID, "%s is NULL or breaks the rules of a map (see tpp_shard)",
                         tpp__shard_sound(from) ? "to" : "from");
    if (axis != TPP_AXIS_ROWS && axis != TPP_AXIS_COLS)
        return tpp__fail(TPP_ERR_INVALID,
                         "axis = %d is not accepted; accepted: 1 (rows), 2 (columns)", axis);
    if (tpp__shard_full(from, axis) != tpp__shard_full(to, axis))
        return tpp__fail(
            TPP_ERR_INVALID, "from and to are maps of other tensors: %lld and %lld along the axis",
            (long long)tpp__shard_full(from, axis), (long long)tpp__shard_full(to, axis));
    if (at < 0)
        return tpp__fail(TPP_ERR_INVALID, "at = %lld is negative; it must be 0 or more",
                         (long long)at);
    return out ? TPP_OK : tpp__fail(TPP_ERR_INVALID, "out is NULL");
}

tpp_status tpp_shard_overlap(const tpp_shard *from, const tpp_shard *to, tpp_axis axis, int64_t at,
                             tpp_shard_run *out) {
    tpp_status status = check(from, to, axis, at, out);
    if (status != TPP_OK)
        return status;
    tpp_shard_run run = {0};
    int64_t size = tpp__shard_part(to, axis);
    for (; at < size && run.count == 0; at++) {
        int64_t source = source_of(from, to, axis, at);
        if (source >= 0)
            run = (tpp_shard_run){source, at, 1, 0};
    }
    for (; at < size && run.count > 0; at++, run.count++)
        if (source_of(from, to, axis, at) != run.from + run.count)
            break;
    *out = run;
    return TPP_OK;
}
