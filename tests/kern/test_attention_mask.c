/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* The attention core where queries and keys differ: fewer or more keys than queries, any offset
 * between the two, windows, no causal mask, queries that see nothing. */
#include "kern/kern.h"
#include "support/close.h"
#include "support/kern_truth.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 4 };

/* What decides who sees whom. */
typedef struct shape {
    int64_t seq, keys, offset, window;
    int32_t full;
} shape;

/* By the definition, one pair at a time. */
static int sees(const shape *s, int64_t i, int64_t j) {
    int64_t place = i + s->offset;
    return (s->full || j <= place) && (s->window == 0 || place - j < s->window);
}

static int64_t larger(const shape *s) {
    return s->seq > s->keys ? s->seq : s->keys;
}

typedef struct head {
    tpp__attention a;
    double *q, *k, *v, *o, *lse, *d_o, *dq, *dk, *dv;
} head;

static double *numbers(int64_t rows, uint64_t seed) {
    double *x = kern_new(TPP_F64, rows * WIDTH);
    if (seed)
        kern_fill(TPP_F64, x, rows * WIDTH, seed, 1);
    else
        kern_fill_value(TPP_F64, x, rows * WIDTH, NAN);
    return x;
}

static head head_new(const shape *s, int64_t room) {
    head h = {.q = numbers(s->seq, 1), .k = numbers(room, 2), .v = numbers(room, 3)};
    h.o = numbers(s->seq, 0), h.lse = numbers(s->seq, 0), h.d_o = numbers(s->seq, 4);
    h.dq = numbers(s->seq, 0), h.dk = numbers(room, 0), h.dv = numbers(room, 0);
    h.a = (tpp__attention){.gemm = tpp_gemm_builtin(TPP_GEMM_BLAS),
                           .dtype = TPP_F64,
                           .seq = s->seq,
                           .keys = s->keys,
                           .offset = s->offset,
                           .window = s->window,
                           .full = s->full,
                           .width = WIDTH,
                           .scale = 0.5,
                           .q = h.q,
                           .k = h.k,
                           .v = h.v,
                           .o = h.o,
                           .lse = h.lse,
                           .d_o = h.d_o,
                           .dq = h.dq,
                           .dk = h.dk,
                           .dv = h.dv,
                           .ldq = WIDTH,
                           .ldk = WIDTH,
                           .ldv = WIDTH,
                           .ldo = WIDTH,
                           .ld_do = WIDTH,
                           .lddq = WIDTH,
                           .lddk = WIDTH,
                           .lddv = WIDTH};
    int64_t bytes = tpp__kern_attention_scratch(TPP_F64, larger(s), WIDTH);
    h.a.scratch = malloc((size_t)bytes);
    assert_non_null(h.a.scratch);
    kern_fill_value(TPP_F64, h.a.scratch, bytes / 8, NAN);
    return h;
}

static void head_free(head *h) {
    double *all[] = {h->q, h->k, h->v, h->o, h->lse, h->d_o, h->dq, h->dk, h->dv, h->a.scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static close_quad dot(const double *x, const double *y) {
    close_quad sum = 0;
    for (int c = 0; c < WIDTH; c++)
        sum += (close_quad)x[c] * (close_quad)y[c];
    return sum;
}

/* One query: its o, lse and what it adds to the gradients. */
static void truth_row(const head *h, const shape *s, int64_t i, close_quad *o, close_quad *lse,
                      close_quad *dq, close_quad *dk, close_quad *dv) {
    close_quad p[256] = {0}, total = 0, d = 0;
    const double *d_o = h->d_o + i * WIDTH;
    for (int64_t j = 0; j < s->keys; j++) {
        p[j] = sees(s, i, j) ? truth_exp(dot(h->q + i * WIDTH, h->k + j * WIDTH) / 2) : 0;
        total += p[j];
    }
    lse[i] = total > 0 ? truth_log(total) : -(close_quad)INFINITY;
    for (int64_t j = 0; j < s->keys && total > 0; j++) {
        p[j] /= total;
        d += p[j] * dot(d_o, h->v + j * WIDTH);
        for (int c = 0; c < WIDTH; c++)
            o[i * WIDTH + c] += p[j] * h->v[j * WIDTH + c];
    }
    for (int64_t j = 0; j < s->keys; j++) {
        close_quad ds = p[j] * (dot(d_o, h->v + j * WIDTH) - d) / 2;
        for (int c = 0; c < WIDTH; c++) {
            dq[i * WIDTH + c] += ds * h->k[j * WIDTH + c];
            dk[j * WIDTH + c] += ds * h->q[i * WIDTH + c];
            dv[j * WIDTH + c] += p[j] * d_o[c];
        }
    }
}

static void run(head *h, int64_t n) {
    assert_int_equal(tpp__kern_attention_forward(&h->a), TPP_OK);
    int64_t bytes = tpp__kern_attention_scratch(TPP_F64, n, WIDTH);
    kern_fill_value(TPP_F64, h->a.scratch, bytes / 8, NAN);
    assert_int_equal(tpp__kern_attention_backward(&h->a), TPP_OK);
}

static void check(const shape *s) {
    head h = head_new(s, s->keys);
    close_quad *o = kern_new_quad(s->seq * WIDTH), *lse = kern_new_quad(s->seq);
    close_quad *dq = kern_new_quad(s->seq * WIDTH), *dk = kern_new_quad(s->keys * WIDTH),
               *dv = kern_new_quad(s->keys * WIDTH);
    for (int64_t i = 0; i < s->seq; i++)
        truth_row(&h, s, i, o, lse, dq, dk, dv);
    run(&h, larger(s));
    assert_close("o", TPP_F64, h.o, CLOSE_QUAD, o, s->seq * WIDTH, 1e-14);
    for (int64_t i = 0; i < s->seq; i++) {
        if (isinf((double)lse[i]))
            assert_true(h.lse[i] == -INFINITY);
        else
            assert_close("lse", TPP_F64, h.lse + i, CLOSE_QUAD, lse + i, 1, 1e-13);
    }
    /* one key seen: their terms cancel to 0 */
    assert_close_each("dq", TPP_F64, h.dq, CLOSE_QUAD, dq, s->seq * WIDTH, 2e-14, 1);
    assert_close_each("dk", TPP_F64, h.dk, CLOSE_QUAD, dk, s->keys * WIDTH, 2e-14, 1);
    assert_close("dv", TPP_F64, h.dv, CLOSE_QUAD, dv, s->keys * WIDTH, 2e-14);
    free(o), free(lse), free(dq), free(dk), free(dv);
    head_free(&h);
}

static void small_shapes(void **state) {
    (void)state;
    shape s;
    for (s.seq = 0; s.seq <= 5; s.seq++)
        for (s.keys = 0; s.keys <= 6; s.keys++)
            for (s.offset = -7; s.offset <= 7; s.offset++)
                for (s.window = 0; s.window <= 4; s.window++)
                    for (s.full = 0; s.full <= 1; s.full++)
                        check(&s);
}

/* Tiles whose first, last or all rows see nothing; windows within, across and over tiles. */
static void several_tiles(void **state) {
    static const int64_t offsets[] = {-140, -100, -64, -1, 0, 1, 63, 64, 100};
    static const int64_t windows[] = {0, 1, 7, 64, 65, 200};
    (void)state;
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        for (size_t k = 0; k < sizeof windows / sizeof *windows; k++) {
            shape s = {131, 140, offsets[i], windows[k], (int32_t)(k & 1)};
            check(&s);
            s.full = !s.full, s.seq = 65, s.keys = 64;
            check(&s);
        }
    }
}

/* A window that is larger than any sequence is none, also for queries before all keys. */
static void endless_window(void **state) {
    (void)state;
    for (int64_t offset = -7; offset <= 7; offset += 7) {
        for (int32_t full = 0; full <= 1; full++) {
            shape s = {5, 6, offset, INT64_MAX, full};
            check(&s);
        }
    }
}

/* Two queries, five keys: the first sees 0 .. 3, the second all. */
static void key_offset(void **state) {
    (void)state;
    shape s = {2, 5, 3, 0, 0};
    for (int64_t j = 0; j < 5; j++) {
        assert_int_equal(sees(&s, 0, j), j <= 3);
        assert_true(sees(&s, 1, j));
    }
    head x = head_new(&s, 5), y = head_new(&s, 5);
    for (int c = 0; c < WIDTH; c++)
        y.v[4 * WIDTH + c] = 1e6; /* what the last key says reaches the second query alone */
    run(&x, 5);
    run(&y, 5);
    assert_same_bits("row 0", x.o, y.o, WIDTH * sizeof(double));
    assert_true(x.o[WIDTH] != y.o[WIDTH]);
    head_free(&x);
    head_free(&y);
}

/* Seven queries in chunks of 1 .. 7, each chunk against all keys so far: the rows of one pass. */
static void chunks(void **state) {
    (void)state;
    shape whole = {7, 7, 0, 0, 0};
    head h = head_new(&whole, 7);
    run(&h, 7);
    for (int64_t chunk = 1; chunk <= 7; chunk++) {
        double o[7 * WIDTH];
        for (int64_t first = 0; first < 7; first += chunk) {
            tpp__attention a = h.a;
            a.seq = 7 - first < chunk ? 7 - first : chunk;
            a.offset = first;
            a.keys = first + a.seq;
            a.q = h.q + first * WIDTH;
            a.o = o + first * WIDTH;
            double lse[7];
            a.lse = lse;
            assert_int_equal(tpp__kern_attention_forward(&a), TPP_OK);
        }
        assert_close_f64("chunks", o, h.o, 7 * WIDTH, 1e-15);
    }
    head_free(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_shapes),   cmocka_unit_test(several_tiles),
        cmocka_unit_test(endless_window), cmocka_unit_test(key_offset),
        cmocka_unit_test(chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
