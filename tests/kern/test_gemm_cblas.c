/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Concurrent products and the BLAS thread count. test_blas_flavours.sh runs this on each
 * OpenBLAS. */
#include "base/thread.h"
#include "kern/kern.h"
#include "support/close.h"
#include "support/kern_truth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    SERIAL = 0,
    OPENMP = 2,
    THREADS = 8,
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    ROUNDS = 500,
#else
    ROUNDS = 10000,
#endif
};

int openblas_get_num_threads(void);
void openblas_set_num_threads(int threads);
#pragma weak omp_set_num_threads
void omp_set_num_threads(int threads);

static tpp_blas_info query(void) {
    tpp_blas_info info = {.size = sizeof info};
    assert_int_equal(tpp_blas_query(&info), TPP_OK);
    return info;
}

/* Sets what the flavour counts by. */
static void set_threads(int threads) {
    if (query().flavour == OPENMP)
        omp_set_num_threads(threads);
    else
        openblas_set_num_threads(threads);
}

/* --- The same product on eight threads, every round released at the same instant -------------- */

typedef struct crowd {
    float *a, *b, *want;
    int64_t side;
    int rounds;
    bool single;
    atomic_int arrived;
    atomic_int wrong;
} crowd;

/* Spinning, then asking the system for a turn: a lock would let threads out one after another. */
static void meet(crowd *c, int round) {
    atomic_fetch_add(&c->arrived, 1);
    while (atomic_load(&c->arrived) < THREADS * (round + 1))
        sched_yield();
}

static void product(const crowd *c, float *out) {
    tpp__product p = {.dtype = TPP_F32, .m = c->side, .n = c->side, .k = c->side, .alpha = 1};
    p.lda = p.ldb = p.ldc = c->side;
    p.a = c->a;
    p.b = c->b;
    p.c = out;
    tpp__kern_gemm(tpp_gemm_builtin(TPP_GEMM_BLAS), &p);
}

static void *rank(void *arg) {
    crowd *c = arg;
    size_t bytes = (size_t)(c->side * c->side) * sizeof(float);
    float *out = malloc(bytes);
    if (c->single)
        tpp_blas_single_begin();
    for (int round = 0; out && round < c->rounds; round++) {
        memset(out, 0xff, bytes);
        meet(c, round);
        product(c, out);
        if (memcmp(out, c->want, bytes) != 0)
            atomic_fetch_add(&c->wrong, 1);
    }
    if (c->single)
        tpp_blas_single_end();
    free(out);
    return NULL;
}

static void crowd_is_right(int64_t side, int rounds, bool single) {
    const int64_t n = side * side;
    crowd c = {.a = kern_new(TPP_F32, n),
               .b = kern_new(TPP_F32, n),
               .want = kern_new(TPP_F32, n),
               .side = side,
               .rounds = rounds,
               .single = single};
    kern_fill(TPP_F32, c.a, n, 1, 1);
    kern_fill(TPP_F32, c.b, n, 2, 1);
    if (single)
        tpp_blas_single_begin();
    product(&c, c.want);
    if (single)
        tpp_blas_single_end();
    tpp__thread threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(tpp__thread_start(&threads[i], rank, &c), TPP_OK);
    for (int i = 0; i < THREADS; i++)
        tpp__thread_join(&threads[i]);
    assert_int_equal(atomic_load(&c.wrong), 0);
    free(c.a);
    free(c.b);
    free(c.want);
}

/* Up to a million multiplications OpenBLAS has kernels without a work buffer; the larger product
 * is the one that an unlocked serial flavour gets wrong. */
static void concurrent_products(void **state) {
    (void)state;
    int32_t before = query().threads;
    crowd_is_right(64, ROUNDS, true);
    crowd_is_right(128, ROUNDS / 5, true);
    assert_int_equal(query().threads, before);
    if (query().flavour !=
        OPENMP) { /* which starts threads for each of the eight, and takes minutes */
        crowd_is_right(64, ROUNDS, false);
        crowd_is_right(128, ROUNDS / 5, false);
    }
}

/* --- The count -------------------------------------------------------------------------------- */

static void facts(void **state) {
    (void)state;
    tpp_blas_info info = query();
    assert_in_range(info.flavour, 0, 2);
    assert_true(info.threads >= 1);
    assert_non_null(strstr(info.config, "OpenBLAS"));
    const char *expected = getenv("TPP_TEST_FLAVOUR");
    if (expected)
        assert_int_equal(info.flavour, atoi(expected));
    print_message("flavour %d, %d threads, %s\n", (int)info.flavour, (int)info.threads,
                  info.config);
    info.size = 4;
    assert_int_equal(tpp_blas_query(&info), TPP_ERR_INVALID);
    assert_int_equal(tpp_blas_query(NULL), TPP_ERR_INVALID);
}

static void nested(void **state) {
    (void)state;
    if (query().flavour == SERIAL)
        skip();
    for (int32_t host = 1; host <= 3; host++) {
        set_threads(host);
        assert_int_equal(query().threads, host);
        tpp_blas_single_begin();
        assert_int_equal(query().threads, 1);
        tpp_blas_single_begin();
        assert_int_equal(query().threads, 1);
        tpp_blas_single_end();
        assert_int_equal(query().threads, 1);
        tpp_blas_single_end();
        assert_int_equal(query().threads, host);
    }
    set_threads(2);
}

typedef struct pair {
    atomic_int step;
    int32_t inside, left;
} pair;

static void wait_for(pair *p, int step) {
    while (atomic_load(&p->step) < step)
        sched_yield();
}

/* Begins while the first thread is inside, and ends after it has left. */
static void *second(void *arg) {
    pair *p = arg;
    wait_for(p, 1);
    tpp_blas_single_begin();
    atomic_store(&p->step, 2);
    wait_for(p, 3);
    p->inside = query().threads;
    tpp_blas_single_end();
    p->left = query().threads;
    return NULL;
}

static void overlapping_threads(void **state) {
    (void)state;
    int32_t before = query().threads;
    pair p = {.inside = 0};
    tpp__thread thread;
    assert_int_equal(tpp__thread_start(&thread, second, &p), TPP_OK);
    tpp_blas_single_begin();
    atomic_store(&p.step, 1);
    wait_for(&p, 2);
    tpp_blas_single_end();
    atomic_store(&p.step, 3);
    tpp__thread_join(&thread);
    assert_int_equal(p.inside, 1);
    assert_true(p.left >= 1);
    assert_int_equal(query().threads, before);
    assert_int_equal(p.left, before);
}

/* A product inside begin and end leaves the count alone. */
static void products_change_nothing(void **state) {
    (void)state;
    enum { N = 256 };
    float *a = kern_new(TPP_F32, N * N), *c = kern_new(TPP_F32, N * N);
    tpp__product p = {.dtype = TPP_F32, .m = N, .n = N, .k = N, .alpha = 1, .a = a, .b = a, .c = c};
    p.lda = p.ldb = p.ldc = N;
    int32_t before = query().threads;
    assert_int_equal(tpp__kern_gemm(tpp_gemm_builtin(TPP_GEMM_BLAS), &p), TPP_OK);
    assert_int_equal(query().threads, before);
    tpp_blas_single_begin();
    assert_int_equal(tpp__kern_gemm(tpp_gemm_builtin(TPP_GEMM_BLAS), &p), TPP_OK);
    assert_int_equal(query().threads, 1);
    tpp_blas_single_end();
    assert_int_equal(query().threads, before);
    free(a);
    free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts),
        cmocka_unit_test(concurrent_products),
        cmocka_unit_test(nested),
        cmocka_unit_test(overlapping_threads),
        cmocka_unit_test(products_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
