/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_BASE_H
#define TPP_BASE_H

/**
 * @file base.h
 * What every other header needs: fixed-width names for numbers with a meaning, the allocator a
 * caller may bring, a view of a matrix in the caller's memory, and the sink that all text leaves
 * through.
 *
 * Sized structs: all structs but the few marked Frozen begin with `size` and `flags`. Set everything to zero, then `size` to the sizeof of your own copy:
 *
 *     tpp_mlp_desc d = {0};
 *     d.size = sizeof d;
 *
 * Zero always means the default. A program built with an older header passes a shorter struct: the
 * fields it does not know are taken as zero. A longer struct (built with a newer header) is
 * accepted as long as the bytes that this library does not know are zero; else the call returns
 * TPP_ERR_TOO_NEW.
 */

#include <tpp/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Result of a call: 0 is success, positive is "not yet", negative is a failure. Values:
 * status.h. */
typedef int32_t tpp_status;

/** Type of an element. */
typedef int32_t tpp_dtype;
enum {
    TPP_F32 = 1, /**< float, 4 bytes */
    TPP_F64 = 2, /**< double, 8 bytes */
    TPP_F16 =
        3, /**< IEEE half precision in a uint16_t, 2 bytes: only in files and in tpp_convert */
    TPP_BF16 = 4, /**< bfloat16 in a uint16_t, 2 bytes: the upper half of a float (convert.h) */
    TPP_I32 = 16, /**< int32_t, 4 bytes: token ids */
    TPP_I64 = 17  /**< int64_t, 8 bytes */
};

/** What a pipeline action does. One list for schedules (schedule.h), traces and executors. */
typedef int32_t tpp_op;
enum {
    TPP_OP_F = 1,       /**< forward of one micro-batch through one virtual stage */
    TPP_OP_B = 2,       /**< whole backward: I and W in one */
    TPP_OP_I = 3,       /**< first half of the backward: gradient of the input */
    TPP_OP_W = 4,       /**< second half of the backward: gradient of the weights */
    TPP_OP_SEND_F = 16, /**< post the stage's output to the rank of the next stage; does not wait */
    TPP_OP_RECV_F = 17, /**< receive the stage's input */
    /** post the gradient of the stage's input to the rank of the stage before */
    TPP_OP_SEND_B = 18,
    TPP_OP_RECV_B = 19, /**< receive the gradient of the stage's output */
    /** a rank's optimizer step, after all its actions: never in a schedule, only in traces and
     * in what the simulator tells (exec.h) */
    TPP_OP_STEP = 24
};

/** What a block computes again in backward instead of keeping it: recompute.h; in numbers, cost.h. */
typedef int32_t tpp_recompute;
enum {
    TPP_RECOMPUTE_NONE = 0,
    TPP_RECOMPUTE_SELECTIVE = 1, /**< attention */
    TPP_RECOMPUTE_FULL = 2       /**< everything */
};

/**
 * Memory functions of the caller. NULL where an allocator is asked for means malloc and free.
 * The library allocates in calls that create something, never in calls that execute.
 */
typedef struct tpp_allocator {
    uint32_t size;  /**< sizeof(tpp_allocator) */
    uint32_t flags; /**< 0 */
    void *ctx;      /**< passed to both functions */
    /** Returns `bytes` bytes aligned to `align` (a power of two, at most 64), or NULL. */
    void *(*alloc)(void *ctx, uint64_t bytes, uint64_t align);
    /** Gives back what alloc returned, with the same `bytes`. */
    void (*release)(void *ctx, void *memory, uint64_t bytes);
} tpp_allocator;

/**
 * A matrix in the caller's memory: element (i, j) is data[i * stride + j]. Frozen: 64 bytes for
 * ever. Rows are tokens, columns are features. A library call never keeps or frees `data`.
 */
typedef struct tpp_mat {
    void *data;           /**< first element; may be NULL when rows or cols is 0 */
    int64_t rows;         /**< rows, >= 0 */
    int64_t cols;         /**< columns, >= 0 */
    int64_t stride;       /**< elements from one row to the next; 0 means cols */
    tpp_dtype dtype;      /**< type of the elements */
    uint32_t reserved0;   /**< 0 */
    uint64_t reserved[3]; /**< 0 */
} tpp_mat;

/**
 * Where text goes (schedules, traces, pictures, reports). Called with successive pieces; `bytes` is
 * not terminated by a zero byte. A non-zero return stops the writer, which returns that same
 * status.
 */
typedef tpp_status (*tpp_write_fn)(void *ctx, const char *bytes, int64_t count);

#ifdef __cplusplus
}
#endif

#endif
