/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/kern.h"

#include "base/alloc.h"
#include "base/bf16.h"
#include "base/check.h"

/* Attention of bfloat16: one head's matrices are copied into float at the beginning of the scratch,
 * the float core works on the copies with the scratch behind them, and its results are rounded. The
 * copies are small beside the scores that are never stored: [seq or keys, width] each. Those of dk and
 * dv stay in the scratch for the next head that adds to them, so that their sums are rounded
 * once. */
typedef struct copies {
    float *q, *k, *v, *o, *d_o, *dq, *dk, *dv;
} copies;

static copies take(int64_t n, int64_t width, tpp__arena *arena) {
    copies c;
    float **const all[] = {&c.q, &c.k, &c.v, &c.o, &c.d_o, &c.dq, &c.dk, &c.dv};
    int64_t count = 0;
    arena->overflow |= !tpp__mul(n, width, &count);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = tpp__arena_take(arena, count, sizeof(float));
    return c;
}

int64_t tpp__kern_attention_bf16_scratch(int64_t n, int64_t width) {
    tpp__arena arena = tpp__arena_counting();
    take(n, width, &arena);
    tpp__arena_take(&arena, tpp__kern_attention_scratch(TPP_F32, n, width), 1);
    return tpp__arena_fits(&arena) ? arena.used : INT64_MAX;
}

static void widen(const tpp__attention *a, int64_t rows, const void *from, int64_t ld, float *to) {
    for (int64_t r = 0; r < rows; r++)
        tpp__bf16_widen(a->width, (const tpp__bf16 *)from + r * ld, to + r * a->width);
}

static void narrow(const tpp__attention *a, int64_t rows, const float *from, void *to, int64_t ld) {
    for (int64_t r = 0; r < rows; r++)
        tpp__bf16_narrow(a->width, from + r * a->width, (tpp__bf16 *)to + r * ld);
}

/* The same head in float. */
static tpp__attention in_float(const tpp__attention *a, const copies *c, const tpp__arena *arena) {
    tpp__attention f = *a;
    f.dtype = TPP_F32;
    f.q = c->q, f.k = c->k, f.v = c->v, f.o = c->o, f.d_o = c->d_o;
    f.dq = c->dq, f.dk = c->dk, f.dv = c->dv;
    f.ldq = f.ldk = f.ldv = f.ldo = f.ld_do = f.lddq = f.lddk = f.lddv = a->width;
    f.scratch = arena->base + arena->used;
    widen(a, a->seq, a->q, a->ldq, c->q);
    widen(a, a->keys, a->k, a->ldk, c->k);
    widen(a, a->keys, a->v, a->ldv, c->v);
    return f;
}

tpp_status tpp__kern_attention_bf16_forward(const tpp__attention *a) {
    tpp__arena arena = tpp__arena_over(a->scratch, INT64_MAX);
    copies c = take(a->seq > a->keys ? a->seq : a->keys, a->width, &arena);
    tpp__attention f = in_float(a, &c, &arena);
    tpp_status status = tpp__kern_attention_forward(&f);
    if (status == TPP_OK)
        narrow(a, a->seq, c.o, a->o, a->ldo);
    return status;
}

tpp_status tpp__kern_attention_bf16_backward(const tpp__attention *a) {
    tpp__arena arena = tpp__arena_over(a->scratch, INT64_MAX);
    copies c = take(a->seq > a->keys ? a->seq : a->keys, a->width, &arena);
    tpp__attention f = in_float(a, &c, &arena);
    widen(a, a->seq, a->o, a->ldo, c.o);
    widen(a, a->seq, a->d_o, a->ld_do, c.d_o);
    tpp_status status = tpp__kern_attention_backward(&f);
    if (status == TPP_OK) {
        narrow(a, a->seq, c.dq, a->dq, a->lddq);
        narrow(a, a->keys, c.dk, a->dk, a->lddk);
        narrow(a, a->keys, c.dv, a->dv, a->lddv);
    }
    return status;
}
