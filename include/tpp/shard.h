/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SHARD_H
#define TPP_SHARD_H

/**
 * @file shard.h
 * Which part of a full tensor a rank holds: a pure map from local to global indices. With it
 * parameters made under one split are saved, loaded and compared under another.
 *
 *     tpp_param_info p = {0};
 *     p.size = sizeof p;
 *     tpp_layer_param(layer, 0, &p);                  // layer.h
 *     tpp_shard_join(&p.shard, params + p.offset, full, TPP_F32);  // this rank's part into full
 *
 * The map. Along the split axis (rows or columns of the full matrix) the tensor is a row of
 * `sections` equal sections (Q, K and V in one matrix are three), each cut into `parts` equal
 * blocks. A rank holds blocks first .. first + count - 1 of every section, block by block: local
 * order is block, section, offset.
 *
 * Padding. Where blocks do not divide a section, its end is padding: zeros that stay zero, because
 * their gradient is zero. Full tensors do not hold it: `valid` of the `length` indices along the axis
 * are real, valid / sections in each section, and are numbered 0 .. valid - 1 as in the full tensor;
 * padding is numbered from valid on, section by section.
 *
 * Copies. Where there is less to split than blocks (K/V heads), a section is cut into parts / copies
 * equal pieces, and `copies` blocks after one another hold the same piece, each its own copy.
 */

#include <tpp/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The axis that is split. */
typedef int32_t tpp_axis;
enum {
    TPP_AXIS_NONE = 0, /**< every rank holds the whole tensor */
    TPP_AXIS_ROWS = 1,
    TPP_AXIS_COLS = 2
};

/** The map of one tensor and one rank. Frozen: 64 bytes for ever. */
typedef struct tpp_shard {
    int64_t rows; /**< of the full tensor, padding included */
    int64_t cols; /**< of the full tensor, padding included */
    /** indices along the axis that are no padding, a multiple of sections; equals rows or cols
     * without padding */
    int64_t valid;
    tpp_axis axis;        /**< which axis is split */
    int32_t sections;     /**< equal sections along the axis, >= 1 */
    int32_t parts;        /**< blocks of a section, >= 1 */
    int32_t first;        /**< first block of this rank */
    int32_t count;        /**< blocks of this rank */
    int32_t copies;       /**< blocks that hold the same piece, divides parts; 0: 1 */
    uint64_t reserved[2]; /**< 0 */
} tpp_shard;

/** Rows of the local part; 0 for a map that breaks its rules. Cannot fail otherwise. Since: 0.1. */
TPP_API int64_t tpp_shard_rows(const tpp_shard *shard);

/** Columns of the local part; 0 for a map that breaks its rules. Cannot fail otherwise. Since:
 * 0.1. */
TPP_API int64_t tpp_shard_cols(const tpp_shard *shard);

/**
 * Global index, along the split axis, of a local index: 0 .. valid - 1, or valid and more for padding;
 * -1 when it is out of range. Without a split axis: the same index.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API int64_t tpp_shard_index(const tpp_shard *shard, int64_t local);

/**
 * The other way: where this rank holds an index of the full tensor; of several copies the first.
 *
 * @param index 0 .. valid - 1. @param axis that the index goes along; without a split axis either.
 * @return the local index; -1 when this rank does not hold it.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API int64_t tpp_shard_local(const tpp_shard *shard, int64_t index, tpp_axis axis);

/**
 * From one split to another without the full tensor: copy what a rank of the one split holds of what a
 * rank of the other needs; the rest of `out` is left alone, padding becomes 0. Called for every `from`,
 * it makes all of the part.
 *
 *     for (int32_t r = 0; r < ranks; r++)
 *         tpp_shard_reshard(&from[r], parts[r], &to, part, TPP_F32);
 *
 * @param from,to maps of the same tensor, split along the same axis or not at all.
 * @param in  the part of `from`, contiguous; NULL when nothing of it is needed.
 * @param out the part of `to`, contiguous.
 * @return TPP_OK; TPP_ERR_INVALID.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_shard_reshard(const tpp_shard *from, const void *in, const tpp_shard *to,
                                     void *out, tpp_dtype dtype);

/** Neighbours that two maps share, along one axis. Frozen: 32 bytes for ever. */
typedef struct tpp_shard_run {
    int64_t from;     /**< first local index in `from` */
    int64_t to;       /**< first local index in `to` */
    int64_t count;    /**< so many, one after the other in both; 0: no run */
    int64_t reserved; /**< 0 */
} tpp_shard_run;

/**
 * The same as messages: which runs of a rank's rows or columns go to which of another rank's, where the
 * parts are not in one place. Each run of rows meets each run of columns; padding is in none; of
 * copies in `from` the first one counts, copies in `to` are each reached.
 *
 *     tpp_shard_run run = {0, 0, 0, 0};
 *     while (tpp_shard_overlap(&from, &to, axis, run.to + run.count, &run) == TPP_OK && run.count > 0)
 *         ..
 *
 * @param from,to maps of one full tensor; all but its size may differ.
 * @param axis    TPP_AXIS_ROWS or TPP_AXIS_COLS.
 * @param at      local index in `to`, >= 0.
 * @param out     receives the first run at or behind it.
 * @return TPP_OK; TPP_ERR_INVALID.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_shard_overlap(const tpp_shard *from, const tpp_shard *to, tpp_axis axis,
                                     int64_t at, tpp_shard_run *out);

/**
 * Cut this rank's part out of a full tensor. Padding becomes 0.
 *
 * @param full  [rows, cols] of the map, but only `valid` along the axis: padding is not stored in
 *         full tensors.
 * @param local receives [tpp_shard_rows, tpp_shard_cols], contiguous.
 * @return TPP_OK; TPP_ERR_INVALID.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_shard_split(const tpp_shard *shard, const void *full, void *local,
                                   tpp_dtype dtype);

/**
 * Write this rank's part into its place in a full tensor; the rest of `full` is left alone. Of
 * several copies the last one stays.
 *
 * @param local [tpp_shard_rows, tpp_shard_cols], contiguous. @param full as in tpp_shard_split.
 * @return TPP_OK; TPP_ERR_INVALID.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_shard_join(const tpp_shard *shard, const void *local, void *full,
                                  tpp_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif
