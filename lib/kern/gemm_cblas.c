/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/kern.h"

#include "base/check.h"
#include "base/thread.h"

#include <cblas.h>

/* What openblas_get_parallel returns. */
enum { SERIAL = 0, PTHREAD = 1, OPENMP = 2 };

/* There when OpenBLAS's OpenMP flavour brings an OpenMP runtime, else NULL. */
#pragma weak omp_get_max_threads
#pragma weak omp_set_num_threads
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);

static int flavour(void) {
    int parallel = openblas_get_parallel();
    if (parallel == OPENMP && (!omp_get_max_threads || !omp_set_num_threads))
        return PTHREAD; /* an OpenBLAS that hides its runtime: its own setter is all there is */
    return parallel;
}

static void multiply(const tpp_gemm_call *g) {
    enum CBLAS_TRANSPOSE ta = g->trans_a ? CblasTrans : CblasNoTrans;
    enum CBLAS_TRANSPOSE tb = g->trans_b ? CblasTrans : CblasNoTrans;
    int m = (int)g->m, n = (int)g->n, k = (int)g->k;
    int lda = (int)g->lda, ldb = (int)g->ldb, ldc = (int)g->ldc;
    if (g->dtype == TPP_F32)
        cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, (float)g->alpha, g->a, lda, g->b, ldb,
                    (float)g->beta, g->c, ldc);
    else
        cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, g->alpha, g->a, lda, g->b, ldb, g->beta, g->c,
                    ldc);
}

tpp_status tpp__kern_gemm_blas(void *ctx, const tpp_gemm_call *call) {
    /* The serial flavour hands its work buffers to threads without a lock of its own. */
    static tpp__lock serial = TPP__LOCK_INIT;
    tpp_gemm_call g;
    tpp_status status = tpp__kern_gemm_read(&g, call);
    (void)ctx;
    if (status < 0 || g.m == 0 || g.n == 0)
        return status;
    if (g.k == 0) { /* CBLAS refuses a leading dimension of 0 */
        tpp__kern_gemm_scale(&g);
        return TPP_OK;
    }
    if (tpp__kern_gemm_row(&g))
        return TPP_OK;
    if (flavour() == SERIAL) {
        tpp__lock_take(&serial);
        multiply(&g);
        tpp__lock_give(&serial);
    } else {
        multiply(&g);
    }
    return TPP_OK;
}

/* A setting that begin replaces by 1 and the last end brings back. */
typedef struct single {
    int64_t depth;
    int before;
} single;

static tpp__lock process_lock = TPP__LOCK_INIT;
static single process;             /* pthread flavour: the count belongs to the process */
static _Thread_local single local; /* OpenMP flavour: to the calling thread */

static void begin(single *s, int (*get)(void), void (*set)(int)) {
    if (s->depth++ > 0)
        return;
    s->before = get();
    if (s->before != 1)
        set(1);
}

static void end(single *s, void (*set)(int)) {
    if (--s->depth == 0 && s->before != 1)
        set(s->before);
}

void tpp_blas_single_begin(void) {
    switch (flavour()) {
    case PTHREAD:
        tpp__lock_take(&process_lock);
        begin(&process, openblas_get_num_threads, openblas_set_num_threads);
        tpp__lock_give(&process_lock);
        break;
    case OPENMP:
        begin(&local, omp_get_max_threads, omp_set_num_threads);
        break;
    default:
        break;
    }
}

void tpp_blas_single_end(void) {
    switch (flavour()) {
    case PTHREAD:
        tpp__lock_take(&process_lock);
        end(&process, openblas_set_num_threads);
        tpp__lock_give(&process_lock);
        break;
    case OPENMP:
        end(&local, omp_set_num_threads);
        break;
    default:
        break;
    }
}

static int threads_in_force(void) {
    switch (flavour()) {
    case PTHREAD:
        return openblas_get_num_threads();
    case OPENMP:
        return omp_get_max_threads();
    default:
        return 1;
    }
}

tpp_status tpp_blas_query(tpp_blas_info *out) {
    tpp_blas_info info = {
        .size = sizeof info,
        .flavour = openblas_get_parallel(),
        .threads = threads_in_force(),
        .config = openblas_get_config(),
    };
    return tpp__sized_write(out, &info, sizeof info, "out");
}
