/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/kern.h"

#include "base/bf16.h"

#include <stdbool.h>

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

/* Products of bfloat16 by the CPU's own dot product of pairs (AVX512-BF16), twice as fast as float
 * ones: panels of A and B are packed pair by pair, a tile of C grows in float. As the instruction
 * does, numbers below the smallest normal one count as 0. */
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

/* A tile of C, the inner size of a panel, and what registers hold of a tile; stack of 256 KiB. */
enum { ROWS = 192, COLS = 128, INNER = 256, TALL = 12, WIDE = 32 };

typedef struct panels {
    _Alignas(64) uint32_t a[ROWS * INNER / 2]; /* pairs along the inner size, TALL rows at a time */
    _Alignas(64) uint32_t b[COLS * INNER / 2];
    _Alignas(64) float c[ROWS * COLS];
} panels;

bool tpp__kern_gemm_dot_usable(const tpp_gemm_ops *gemm) {
    return gemm->gemm == tpp__kern_gemm_blas && __builtin_cpu_supports("avx512bf16") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
}

/* An operand as a panel takes it: `lines` rows of A or columns of B from `from` on, `inner` long. */
typedef struct operand {
    const tpp__bf16 *from;
    int64_t ld, lines, inner;
    bool along; /* a line's numbers lie one behind the other */
} operand;

/* Pair `pair` of a line; what lies beyond the operand is 0. */
static uint32_t pair_of(const operand *o, int64_t line, int64_t pair) {
    const tpp__bf16 *x = o->from + (o->along ? line * o->ld + 2 * pair : 2 * pair * o->ld + line);
    if (line >= o->lines)
        return 0;
    return (uint32_t)*x | (2 * pair + 1 < o->inner ? (uint32_t)x[o->along ? 1 : o->ld] << 16 : 0u);
}

/* 16 rows of 16 numbers the other way round. */
TARGET static void turn(__m512i r[16]) {
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) { /* neighbours, then pairs, fours and eights change places */
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 16; i += 8) {
        for (int k = 0; k < 4; k++) {
            t[i + k] = _mm512_shuffle_i32x4(r[i + k], r[i + k + 4], 0x88);
            t[i + k + 4] = _mm512_shuffle_i32x4(r[i + k], r[i + k + 4], 0xdd);
        }
    }
    for (int k = 0; k < 8; k++) {
        r[k] = _mm512_shuffle_i32x4(t[k], t[k + 8], 0x88);
        r[k + 8] = _mm512_shuffle_i32x4(t[k], t[k + 8], 0xdd);
    }
}

/* 16 pairs of `lines` <= 16 lines, each of which lies one behind the other. */
TARGET static void pack_turned(const tpp__bf16 *x, int64_t ld, int lines, int64_t width,
                               uint32_t *to) {
    __m512i r[16];
    for (int i = 0; i < 16; i++)
        r[i] = i < lines ? _mm512_loadu_si512(x + i * ld) : _mm512_setzero_si512();
    turn(r);
    for (int i = 0; i < 16; i++)
        _mm512_mask_storeu_epi32(to + i * width, (__mmask16)((1u << lines) - 1), r[i]);
}

/* `width` whole lines from `line` on, whole pairs. */
TARGET static void pack_whole(const operand *o, int64_t line, int64_t width, uint32_t *to) {
    int64_t pairs = o->inner / 2, p = 0;
    for (; o->along && p + 16 <= pairs; p += 16)
        for (int64_t w = 0; w < width; w += 16)
            pack_turned(o->from + (line + w) * o->ld + 2 * p, o->ld,
                        (int)(width - w < 16 ? width - w : 16), width, to + p * width + w);
    for (; o->along && p < pairs; p++)
        for (int64_t w = 0; w < width; w++)
            memcpy(to + p * width + w, o->from + (line + w) * o->ld + 2 * p, sizeof *to);
    for (; p < pairs; p++) {
        const tpp__bf16 *x = o->from + 2 * p * o->ld + line;
        for (int64_t w = 0; w < width; w++)
            to[p * width + w] = (uint32_t)x[w] | (uint32_t)x[o->ld + w] << 16;
    }
}

TARGET static void pack(const operand *o, int64_t width, uint32_t *to) {
    int64_t pairs = (o->inner + 1) / 2;
    for (int64_t line = 0; line < o->lines; line += width, to += pairs * width) {
        int64_t done = line + width <= o->lines ? o->inner / 2 : 0;
        if (done > 0)
            pack_whole(o, line, width, to);
        for (int64_t p = done; p < pairs; p++)
            for (int64_t w = 0; w < width; w++)
                to[p * width + w] = pair_of(o, line + w, p);
    }
}

/* c [TALL, WIDE] += a b, of `pairs` pairs; `first`: c is not read. */
TARGET static void small_tile(int64_t pairs, const uint32_t *a, const uint32_t *b, bool first,
                              float *c) {
    __m512 sum[TALL][2];
#pragma GCC unroll 12
    for (int r = 0; r < TALL; r++)
        sum[r][0] = sum[r][1] = _mm512_setzero_ps();
    for (int64_t p = 0; p < pairs; p++, a += TALL, b += WIDE) {
        __m512bh left = (__m512bh)_mm512_load_si512(b), right = (__m512bh)_mm512_load_si512(b + 16);
#pragma GCC unroll 12
        for (int r = 0; r < TALL; r++) {
            __m512bh x = (__m512bh)_mm512_set1_epi32((int)a[r]);
            sum[r][0] = _mm512_dpbf16_ps(sum[r][0], x, left);
            sum[r][1] = _mm512_dpbf16_ps(sum[r][1], x, right);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < TALL; r++) {
        float *to = c + r * COLS;
        if (!first) {
            sum[r][0] = _mm512_add_ps(sum[r][0], _mm512_load_ps(to));
            sum[r][1] = _mm512_add_ps(sum[r][1], _mm512_load_ps(to + 16));
        }
        _mm512_store_ps(to, sum[r][0]);
        _mm512_store_ps(to + 16, sum[r][1]);
    }
}

/* Where a tile lies in C, and its size. */
typedef struct tile {
    int64_t row, col, rows, cols;
} tile;

/* A panel of the inner size, `inner` from `k` on. */
static void add_panel(const tpp__product *p, tile t, int64_t k, int64_t inner, bool first,
                      panels *room) {
    const tpp__bf16 *a = p->a, *b = p->b;
    operand left = {a + (p->trans_a ? k * p->lda + t.row : t.row * p->lda + k), p->lda, t.rows,
                    inner, !p->trans_a};
    operand right = {b + (p->trans_b ? t.col * p->ldb + k : k * p->ldb + t.col), p->ldb, t.cols,
                     inner, p->trans_b != 0};
    int64_t pairs = (inner + 1) / 2;
    pack(&left, TALL, room->a);
    pack(&right, WIDE, room->b);
    for (int64_t j = 0; j < t.cols; j += WIDE)
        for (int64_t i = 0; i < t.rows; i += TALL)
            small_tile(pairs, room->a + i * pairs, room->b + j * pairs, first,
                       room->c + i * COLS + j);
}

/* A finished row of a tile to C. */
TARGET static void store_row(const tpp__product *p, int64_t row, int64_t col, int64_t n, float *c) {
    const tpp__bf16 *bias = (const tpp__bf16 *)p->bias;
    float alpha = (float)p->alpha, beta = (float)p->beta;
    for (int64_t j = 0; j < n; j++)
        c[j] *= alpha;
    for (int64_t j = 0; bias && j < n; j++)
        c[j] += tpp__bf16_get(bias[col + j]);
    if (p->c_dtype == TPP_F32) {
        float *to = (float *)p->c + row * p->ldc + col;
        for (int64_t j = 0; j < n; j++)
            to[j] = beta != 0 ? c[j] + beta * to[j] : c[j];
    } else {
        tpp__bf16 *to = (tpp__bf16 *)p->c + row * p->ldc + col;
        for (int64_t j = 0; j < n; j++)
            to[j] = tpp__bf16_of(beta != 0 ? c[j] + beta * tpp__bf16_get(to[j]) : c[j]);
    }
}

static void make_tile(const tpp__product *p, int32_t count, tile t, panels *room) {
    bool first = true;
    for (int32_t i = 0; i < count; i++) {
        for (int64_t k = 0; k < p[i].k; k += INNER, first = false)
            add_panel(&p[i], t, k, p[i].k - k < INNER ? p[i].k - k : INNER, first, room);
    }
    for (int64_t i = 0; i < t.rows; i++) {
        float *c = room->c + i * COLS;
        if (first)
            memset(c, 0, (size_t)t.cols * sizeof *c);
        store_row(p, t.row + i, t.col, t.cols, c);
    }
}

void tpp__kern_gemm_dot(const tpp__product *p, int32_t count) {
    panels room;
    for (int64_t i = 0; i < p->m; i += ROWS) {
        for (int64_t j = 0; j < p->n; j += COLS) {
            tile t = {i, j, p->m - i < ROWS ? p->m - i : ROWS, p->n - j < COLS ? p->n - j : COLS};
            make_tile(p, count, t, &room);
        }
    }
}

#else

bool tpp__kern_gemm_dot_usable(const tpp_gemm_ops *gemm) {
    (void)gemm;
    return false;
}

void tpp__kern_gemm_dot(const tpp__product *p, int32_t count) {
    (void)p;
    (void)count;
}

#endif
