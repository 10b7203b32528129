/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/kern.h"

#include "base/bf16.h"

#include <stdbool.h>

/* Products of bfloat16 by a table that knows float: a tile of C is made in float over all of the
 * inner size, from panels of A and B that are widened on the stack, and rounded once. Panels are
 * deep enough that widening is small beside the product, and small enough for the second-level
 * cache; stack of 192 KiB. */
enum { ROWS = 128, COLS = 128, INNER = 128 };

typedef struct panels {
    _Alignas(64) float a[ROWS * INNER];
    _Alignas(64) float b[INNER * COLS];
    _Alignas(64) float c[ROWS * COLS];
} panels;

/* Rows first .. of C and so on: where a tile lies, and how large it is. */
typedef struct span {
    int64_t first, count;
} span;

static span span_at(int64_t first, int64_t most, int64_t total) {
    return (span){first, total - first < most ? total - first : most};
}

/* The part of an operand, [across, inner] of C's size, as it is stored: the other way round when
 * `flip`. Returns its leading dimension. */
static int64_t widen(const void *from, int64_t ld, span rows, span cols, int32_t flip, float *to) {
    span down = flip ? cols : rows, right = flip ? rows : cols;
    const tpp__bf16 *x = (const tpp__bf16 *)from + down.first * ld + right.first;
    for (int64_t r = 0; r < down.count; r++)
        tpp__bf16_widen(right.count, x + r * ld, to + r * right.count);
    return right.count;
}

/* A tile of C as the float product sees it: in place, or on the stack. */
typedef struct tile {
    span rows, cols;
    float *c;
    int64_t ldc;
} tile;

static tile tile_at(const tpp__product *p, span rows, span cols, panels *room) {
    tile t = {rows, cols, room->c, cols.count};
    if (p->c_dtype == TPP_F32) {
        t.c = (float *)p->c + rows.first * p->ldc + cols.first;
        t.ldc = p->ldc;
    }
    return t;
}

/* What C holds before, where that counts, and the result back into it. */
static void load(const tpp__product *p, tile t) {
    const tpp__bf16 *c = (const tpp__bf16 *)p->c + t.rows.first * p->ldc + t.cols.first;
    for (int64_t r = 0; r < t.rows.count; r++)
        tpp__bf16_widen(t.cols.count, c + r * p->ldc, t.c + r * t.ldc);
}

static void load_bias(const tpp__product *p, tile t) {
    const tpp__bf16 *bias = (const tpp__bf16 *)p->bias + t.cols.first;
    for (int64_t r = 0; r < t.rows.count; r++)
        tpp__bf16_widen(t.cols.count, bias, t.c + r * t.ldc);
}

static void store(const tpp__product *p, tile t) {
    tpp__bf16 *c = (tpp__bf16 *)p->c + t.rows.first * p->ldc + t.cols.first;
    for (int64_t r = 0; r < t.rows.count; r++)
        tpp__bf16_narrow(t.cols.count, t.c + r * t.ldc, c + r * p->ldc);
}

/* tile = alpha * A * B + beta * tile, over the inner size; 0 of it still does the last part. */
static tpp_status add_product(const tpp_gemm_ops *gemm, const tpp__product *p, double beta, tile t,
                              panels *room) {
    tpp__product part = {.dtype = TPP_F32,
                         .trans_a = p->trans_a,
                         .trans_b = p->trans_b,
                         .m = t.rows.count,
                         .n = t.cols.count,
                         .alpha = p->alpha,
                         .beta = beta,
                         .a = room->a,
                         .b = room->b,
                         .c = t.c,
                         .ldc = t.ldc};
    int64_t k = 0;
    do {
        span inner = span_at(k, INNER, p->k);
        part.k = inner.count;
        part.lda = widen(p->a, p->lda, t.rows, inner, p->trans_a, room->a);
        part.ldb = widen(p->b, p->ldb, inner, t.cols, p->trans_b, room->b);
        tpp_status status = tpp__kern_gemm(gemm, &part);
        if (status != TPP_OK)
            return status;
        part.beta = 1;
        k += INNER;
    } while (k < p->k);
    return TPP_OK;
}

static tpp_status make_tile(const tpp_gemm_ops *gemm, const tpp__product *p, int32_t count, tile t,
                            panels *room) {
    bool in_place = t.c != room->c;
    double beta = p->bias ? 1 : p->beta;
    if (p->bias)
        load_bias(p, t);
    else if (!in_place && p->beta != 0)
        load(p, t);
    for (int32_t i = 0; i < count; i++) {
        tpp_status status = add_product(gemm, &p[i], i == 0 ? beta : 1, t, room);
        if (status != TPP_OK)
            return status;
    }
    if (!in_place)
        store(p, t);
    return TPP_OK;
}

tpp_status tpp__kern_gemm_bf16(const tpp_gemm_ops *gemm, const tpp__product *p, int32_t count) {
    panels room;
    if (tpp__kern_gemm_dot_usable(gemm)) {
        tpp__kern_gemm_dot(p, count);
        return TPP_OK;
    }
    for (int64_t i = 0; i < p->m; i += ROWS) {
        for (int64_t j = 0; j < p->n; j += COLS) {
            tile t = tile_at(p, span_at(i, ROWS, p->m), span_at(j, COLS, p->n), &room);
            tpp_status status = make_tile(gemm, p, count, t, &room);
            if (status != TPP_OK)
                return status;
        }
    }
    return TPP_OK;
}
