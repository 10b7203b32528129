/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/kern.h"
#include "kern/row.h"
#include "kern/vector.h"

#include "base/check.h"

/* Queries are taken a tile at a time; a tile meets the keys that its queries see, from the first to
 * the last, so that the work of a causal head is half of the square but for the corner of each tile,
 * that of a window is linear, and memory is a tile times keys. */
enum { TILE = 64 };

/* Keys low .. high - 1. */
typedef struct range {
    int64_t low, high;
} range;

static int64_t within(int64_t x, int64_t most) {
    return x < 0 ? 0 : x > most ? most : x;
}

static range seen_by(const tpp__attention *a, int64_t query) {
    int64_t place = query + a->offset;
    range r = {0, a->keys};
    if (!a->full)
        r.high = within(place + 1, a->keys);
    if (a->window > 0 && place >= a->window) /* also keeps the difference within 64 bits */
        r.low = within(place - a->window + 1, r.high);
    return r;
}

/* A tile of queries: rows first .. first + rows - 1, and the keys that some of them see. */
typedef struct tile {
    int64_t first, rows, low, keys;
} tile;

static tile tile_at(const tpp__attention *a, int64_t first) {
    int64_t rows = a->seq - first < TILE ? a->seq - first : TILE;
    range top = seen_by(a, first), bottom = seen_by(a, first + rows - 1);
    int64_t low = top.low < bottom.low ? top.low : bottom.low;
    return (tile){first, rows, low, bottom.high - low};
}

/* Those of row r of a tile, counted from its first key. */
static range seen_in(const tpp__attention *a, const tile *t, int64_t r) {
    range seen = seen_by(a, t->first + r);
    return (range){seen.low - t->low, seen.high - t->low};
}

#define REAL float
#define FN(name) name##_f32
#include "kern/attention_core.inc"
#undef REAL
#undef FN

#define REAL double
#define FN(name) name##_f64
#include "kern/attention_core.inc"

void tpp__kern_attention_pairs(const tpp__attention *a, double *tiles, double *seen) {
    *tiles = *seen = 0;
    for (int64_t first = 0; first < a->seq; first += TILE) {
        tile t = tile_at(a, first);
        *tiles += (double)t.rows * (double)t.keys;
        for (int64_t r = 0; r < t.rows; r++) {
            range own = seen_in(a, &t, r);
            *seen += (double)(own.high - own.low);
        }
    }
}

/* Scratch: the scores of a tile, the gradient of them (backward), and the row sums (forward). */
int64_t tpp__kern_attention_scratch(tpp_dtype dtype, int64_t n, int64_t width) {
    int64_t scores, bytes;
    if (dtype == TPP_BF16)
        return tpp__kern_attention_bf16_scratch(n, width);
    if (!tpp__mul(n, (int64_t)2 * TILE, &scores) || !tpp__add(scores, TILE, &scores) ||
        !tpp__mul(scores, tpp__dtype_bytes(dtype), &bytes))
        return INT64_MAX;
    return bytes;
}

static const void *row_of(tpp_dtype dtype, const void *matrix, int64_t row, int64_t stride) {
    return (const char *)matrix + row * stride * tpp__dtype_bytes(dtype);
}

static void *row_to(tpp_dtype dtype, void *matrix, int64_t row, int64_t stride) {
    return (char *)matrix + row * stride * tpp__dtype_bytes(dtype);
}

/* [rows, keys] = scale * left right^T, both of the heads' width. */
static tpp_status against_keys(const tpp__attention *a, tile t, double scale, const void *left,
                               int64_t ld_left, const void *right, int64_t ld_right, void *out) {
    return tpp__kern_gemm(a->gemm, &(tpp__product){
                                       .dtype = a->dtype,
                                       .trans_b = 1,
                                       .m = t.rows,
                                       .n = t.keys,
                                       .k = a->width,
                                       .alpha = scale,
                                       .a = row_of(a->dtype, left, t.first, ld_left),
                                       .lda = ld_left,
                                       .b = row_of(a->dtype, right, t.low, ld_right),
                                       .ldb = ld_right,
                                       .c = out,
                                       .ldc = t.keys,
                                   });
}

/* [rows, width] of out = weights [rows, keys] times values [keys, width]. */
static tpp_status over_keys(const tpp__attention *a, tile t, const void *weights,
                            const void *values, int64_t ld_values, void *out, int64_t ld_out) {
    return tpp__kern_gemm(a->gemm, &(tpp__product){
                                       .dtype = a->dtype,
                                       .m = t.rows,
                                       .n = a->width,
                                       .k = t.keys,
                                       .alpha = 1,
                                       .a = weights,
                                       .lda = t.keys,
                                       .b = row_of(a->dtype, values, t.low, ld_values),
                                       .ldb = ld_values,
                                       .c = row_to(a->dtype, out, t.first, ld_out),
                                       .ldc = ld_out,
                                   });
}

/* [keys, width] of out += weights^T times this tile's rows of `rows`. */
static tpp_status to_keys(const tpp__attention *a, tile t, const void *weights, const void *rows,
                          int64_t ld_rows, void *out, int64_t ld_out) {
    return tpp__kern_gemm(a->gemm, &(tpp__product){
                                       .dtype = a->dtype,
                                       .trans_a = 1,
                                       .m = t.keys,
                                       .n = a->width,
                                       .k = t.rows,
                                       .alpha = 1,
                                       .beta = 1,
                                       .a = weights,
                                       .lda = t.keys,
                                       .b = row_of(a->dtype, rows, t.first, ld_rows),
                                       .ldb = ld_rows,
                                       .c = row_to(a->dtype, out, t.low, ld_out),
                                       .ldc = ld_out,
                                   });
}

static tpp_status forward_tile(const tpp__attention *a, tile t) {
    void *scores = a->scratch;
    void *sums = row_to(a->dtype, a->scratch, 2 * TILE, a->keys);
    void *lse = row_to(a->dtype, a->lse, t.first, 1);
    void *o = row_to(a->dtype, a->o, t.first, a->ldo);
    tpp_status status = against_keys(a, t, a->scale, a->q, a->ldq, a->k, a->ldk, scores);
    if (status < 0)
        return status;
    if (a->dtype == TPP_F32)
        exponents_f32(a, &t, scores, sums, lse);
    else
        exponents_f64(a, &t, scores, sums, lse);
    status = over_keys(a, t, scores, a->v, a->ldv, a->o, a->ldo);
    if (status < 0)
        return status;
    if (a->dtype == TPP_F32)
        divide_f32(t.rows, a->width, sums, o, a->ldo);
    else
        divide_f64(t.rows, a->width, sums, o, a->ldo);
    return TPP_OK;
}

static void clear(tpp_dtype dtype, int64_t rows, int64_t cols, void *x, int64_t ld) {
    for (int64_t r = 0; r < rows; r++)
        memset(row_to(dtype, x, r, ld), 0, (size_t)(cols * tpp__dtype_bytes(dtype)));
}

tpp_status tpp__kern_attention_forward(const tpp__attention *a) {
    if (a->dtype == TPP_BF16)
        return tpp__kern_attention_bf16_forward(a);
    tpp_status status = TPP_OK;
    for (int64_t first = 0; first < a->seq && status >= 0; first += TILE)
        status = forward_tile(a, tile_at(a, first));
    return status;
}

static tpp_status backward_tile(const tpp__attention *a, tile t) {
    void *p = a->scratch;
    void *dp = row_to(a->dtype, a->scratch, TILE, a->keys);
    void *lse = row_to(a->dtype, a->lse, t.first, 1);
    tpp_status status = against_keys(a, t, a->scale, a->q, a->ldq, a->k, a->ldk, p);
    if (status < 0)
        return status;
    if (a->dtype == TPP_F32)
        probabilities_f32(a, &t, lse, p);
    else
        probabilities_f64(a, &t, lse, p);
    status = to_keys(a, t, p, a->d_o, a->ld_do, a->dv, a->lddv);
    if (status >= 0)
        status = against_keys(a, t, 1, a->d_o, a->ld_do, a->v, a->ldv, dp);
    if (status < 0)
        return status;
    if (a->dtype == TPP_F32)
        score_gradients_f32(a, t.first, t.rows, t.keys, p, dp);
    else
        score_gradients_f64(a, t.first, t.rows, t.keys, p, dp);
    status = over_keys(a, t, dp, a->k, a->ldk, a->dq, a->lddq);
    if (status >= 0)
        status = to_keys(a, t, dp, a->q, a->ldq, a->dk, a->lddk);
    return status;
}

tpp_status tpp__kern_attention_backward(const tpp__attention *a) {
    if (a->dtype == TPP_BF16)
        return tpp__kern_attention_bf16_backward(a);
    tpp_status status = TPP_OK;
    if (!a->add_kv) {
        clear(a->dtype, a->keys, a->width, a->dk, a->lddk);
        clear(a->dtype, a->keys, a->width, a->dv, a->lddv);
    }
    for (int64_t first = 0; first < a->seq && status >= 0; first += TILE)
        status = backward_tile(a, tile_at(a, first));
    return status;
}
