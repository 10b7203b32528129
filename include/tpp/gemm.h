/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_GEMM_H
#define TPP_GEMM_H

/**
 * @file gemm.h
 * All matrix products of the library, but those of bfloat16 with OpenBLAS where the CPU has
 * instructions for them (layer.h), go through one table with one function. Built in are OpenBLAS
 * and a plain reference (slow, no threads, readable by sanitizers). A host brings its own: MKL,
 * Accelerate, a counting mock.
 *
 *     tpp_gemm_ops ops = {0};
 *     ops.size = sizeof ops;
 *     ops.gemm = my_gemm;                     // tpp_status my_gemm(void *, const tpp_gemm_call *)
 *     env.gemm = &ops;                        // layer.h
 *
 * BLAS threads. OpenBLAS's thread count belongs to the process, and its flavours differ: the serial
 * one is not safe under concurrent calls, the OpenMP one counts per calling thread. The library
 * finds out at run time which flavour it has and makes it right: serial, calls take a lock; between
 * tpp_blas_single_begin and _end every call uses one BLAS thread, and the host's setting comes back
 * with the last _end. Layers with more than one rank or with fixed blocks do this by themselves
 * around each call, and stages (stage.h) around each run.
 */

#include <tpp/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Flags of tpp_gemm_call. */
enum {
    /** B is a parameter, or a part of one: it lies in the params of the layer's call and is the same in
     * every call until the caller changes it (an optimizer's step, loading). A table may keep it packed,
     * by (b, ldb, trans_b, k, n), until its owner tells it of the change. Never set for bfloat16. */
    TPP_GEMM_B_PARAM = 1
};

/** C = alpha * op(A) * op(B) + beta * C; all row-major; op is the matrix or its transpose. */
typedef struct tpp_gemm_call {
    uint32_t size;
    uint32_t flags;  /**< TPP_GEMM_... */
    tpp_dtype dtype; /**< TPP_F32 or TPP_F64, of all three; bfloat16 layers ask for TPP_F32 */
    int32_t trans_a; /**< 1: A is stored [k, m] */
    int32_t trans_b; /**< 1: B is stored [n, k] */
    uint32_t reserved0;
    int64_t m; /**< rows of C */
    int64_t n; /**< columns of C */
    int64_t k; /**< inner size */
    double alpha;
    double beta; /**< 0: C is not read */
    const void *a;
    const void *b;
    void *c;
    int64_t lda; /**< elements from one stored row of A to the next */
    int64_t ldb;
    int64_t ldc;
} tpp_gemm_call;

/** A GEMM. */
typedef struct tpp_gemm_ops {
    uint32_t size;
    uint32_t flags; /**< 0 */
    void *ctx;      /**< passed to gemm */
    /** Do the product. Called by several threads at once. The result must depend on the call alone.
     * Returns TPP_OK or a negative status. */
    tpp_status (*gemm)(void *ctx, const tpp_gemm_call *call);
} tpp_gemm_ops;

/** The built-in tables. */
typedef int32_t tpp_gemm_kind;
enum {
    TPP_GEMM_BLAS = 0,     /**< OpenBLAS through CBLAS */
    TPP_GEMM_REFERENCE = 1 /**< three loops; sums in rising order of the inner index */
};

/** What OpenBLAS this process has. */
typedef struct tpp_blas_info {
    uint32_t size;
    uint32_t flags;     /**< 0 */
    int32_t flavour;    /**< 0 serial, 1 pthread, 2 OpenMP */
    int32_t threads;    /**< thread count in force for a call of this thread */
    const char *config; /**< OpenBLAS's own description; static text */
} tpp_blas_info;

/**
 * A built-in table; NULL when there is no such kind.
 *
 * Memory: static. Threads: any. Since: 0.1.
 */
TPP_API const tpp_gemm_ops *tpp_gemm_builtin(tpp_gemm_kind kind);

/**
 * Facts about the BLAS.
 *
 * @param out size must be set. @return TPP_OK; TPP_ERR_INVALID. Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_blas_query(tpp_blas_info *out);

/**
 * From now on BLAS calls of this thread use one thread; process-wide with the pthread flavour.
 * Nests, also over threads.
 *
 * Threads: any; _end on the same thread. Since: 0.1.
 */
TPP_API void tpp_blas_single_begin(void);

/** Undo one tpp_blas_single_begin; the last one restores the setting that the first one found.
 * Since: 0.1. */
TPP_API void tpp_blas_single_end(void);

#ifdef __cplusplus
}
#endif

#endif
