/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Speed of the serial kernels on one BLAS thread, float32. Kernels of elements in ns an element,
 * beside a copy of the same buffer; the attention core as a part of sgemm's rate. Medians of
 * interleaved repeats. */
#include "base/thread.h"
#include "kern/cross_entropy.h"
#include "kern/kern.h"
#include "kern/row.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    REPEATS = 15,
    CACHED = 4096,
    COLS = 1024,
    ROWS = 64,
    LOGITS = 32768,
    SIDE = 1024,
    WIDTH = 64
};

/* Something to time; `work` is what one run does, in elements or floating-point operations. */
typedef struct timed {
    const char *name;
    void (*run)(void *ctx);
    void *ctx;
    double work;
    int inner;
    double seconds[REPEATS];
} timed;

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(timed *list, int n) {
    for (int repeat = -1; repeat < REPEATS; repeat++) { /* the first one warms */
        for (int i = 0; i < n; i++) {
            double begin = tpp__now();
            for (int j = 0; j < list[i].inner; j++)
                list[i].run(list[i].ctx);
            if (repeat >= 0)
                list[i].seconds[repeat] = (tpp__now() - begin) / list[i].inner;
        }
    }
    for (int i = 0; i < n; i++)
        qsort(list[i].seconds, REPEATS, sizeof(double), by_size);
}

static double median(const timed *t) {
    return t->seconds[REPEATS / 2];
}

/* --- Element by element ----------------------------------------------------------------------- */

typedef struct buffers {
    float x[ROWS * COLS], y[ROWS * COLS], dy[ROWS * COLS];
    float gamma[COLS], beta[COLS], mean[ROWS], rstd[ROWS];
    float logits[LOGITS], gradient[LOGITS], m[1], s[1], w[1];
    int32_t target[1];
} buffers;

static void copy(void *ctx) {
    buffers *b = ctx;
    tpp__kern_copy(TPP_F32, 1, CACHED, b->x, CACHED, b->y, CACHED);
}

static void gelu_tanh(void *ctx) {
    buffers *b = ctx;
    tpp__kern_act_forward(TPP_F32, TPP__ACT_GELU_TANH, CACHED, b->x, b->y);
}

static void gelu_tanh_backward(void *ctx) {
    buffers *b = ctx;
    tpp__kern_act_backward(TPP_F32, TPP__ACT_GELU_TANH, CACHED, b->x, b->dy, b->y);
}

static void gelu_erf(void *ctx) {
    buffers *b = ctx;
    tpp__kern_act_forward(TPP_F32, TPP__ACT_GELU_ERF, CACHED, b->x, b->y);
}

static void gelu_erf_backward(void *ctx) {
    buffers *b = ctx;
    tpp__kern_act_backward(TPP_F32, TPP__ACT_GELU_ERF, CACHED, b->x, b->dy, b->y);
}

static void libm_tanh(void *ctx) {
    buffers *b = ctx;
    for (int i = 0; i < CACHED; i++) {
        float x = b->x[i];
        b->y[i] = 0.5f * x * (1 + tanhf(0.797884561f * (x + 0.044715f * x * x * x)));
    }
}

static void softmax_exp(void *ctx) {
    buffers *b = ctx;
    tpp__kern_exp_f32(CACHED, b->x, 5, b->y);
}

static void sum(void *ctx) {
    buffers *b = ctx;
    b->s[0] = (float)tpp__kern_sum_f32(b->x, CACHED);
}

static void largest(void *ctx) {
    buffers *b = ctx;
    b->s[0] = tpp__kern_largest_f32(b->x, CACHED);
}

static void dropout(void *ctx) {
    buffers *b = ctx;
    const tpp__dropout d = {.seed = 1, .key = 2, .scale = 2, .threshold = 1u << 31};
    tpp__kern_dropout(TPP_F32, &d, 0, CACHED / COLS, COLS, b->x, b->y);
}

static void norm_forward(void *ctx) {
    buffers *b = ctx;
    tpp__kern_norm_forward(TPP_F32, ROWS, COLS, 1e-5, b->x, b->gamma, b->beta, b->y, b->mean,
                           b->rstd);
}

static void norm_backward(void *ctx) {
    buffers *b = ctx;
    tpp__kern_norm_backward_input(TPP_F32, ROWS, COLS, b->x, b->gamma, b->mean, b->rstd, b->dy,
                                  b->y);
    tpp__kern_norm_backward_weight(TPP_F32, ROWS, COLS, b->x, b->mean, b->rstd, b->dy, b->gamma,
                                   b->beta);
}

static void cross_entropy(void *ctx) {
    buffers *b = ctx;
    b->m[0] = -INFINITY;
    b->w[0] = 1;
    const tpp__ce_block block = {TPP_F32, 1, LOGITS, b->logits, LOGITS, 0};
    const tpp__ce_rule plain = {.hit = 1};
    tpp__kern_ce_max(&block, b->m);
    tpp__kern_ce_sum(&block, b->m, b->s, NULL);
    tpp__kern_ce_grad(&block, &plain, b->m, b->s, b->w, b->target, b->gradient, LOGITS);
}

static void fill(float *x, int64_t n, uint64_t key) {
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)tpp__kern_random_normal(1, key, (uint64_t)i);
}

static void elements(void) {
    buffers *b = calloc(1, sizeof *b);
    if (!b)
        return;
    fill(b->x, ROWS * COLS, 1);
    fill(b->dy, ROWS * COLS, 2);
    fill(b->gamma, COLS, 3);
    fill(b->logits, LOGITS, 4);
    timed list[] = {
        {"copy, in cache", copy, b, CACHED, 200, {0}},
        {"GeLU tanh form, forward", gelu_tanh, b, CACHED, 50, {0}},
        {"GeLU tanh form, backward", gelu_tanh_backward, b, CACHED, 50, {0}},
        {"GeLU erf form, forward", gelu_erf, b, CACHED, 50, {0}},
        {"GeLU erf form, backward", gelu_erf_backward, b, CACHED, 50, {0}},
        {"GeLU by libm's tanhf, forward", libm_tanh, b, CACHED, 5, {0}},
        {"softmax exp", softmax_exp, b, CACHED, 50, {0}},
        {"sum of a row", sum, b, CACHED, 100, {0}},
        {"largest of a row", largest, b, CACHED, 100, {0}},
        {"dropout, 4 x 1024", dropout, b, CACHED, 100, {0}},
        {"norm forward, 64 x 1024", norm_forward, b, ROWS * COLS, 4, {0}},
        {"norm backward, 64 x 1024", norm_backward, b, ROWS * COLS, 4, {0}},
        {"cross-entropy, all three, 32768", cross_entropy, b, LOGITS, 4, {0}},
    };
    enum { N = sizeof list / sizeof *list };
    measure(list, N);
    for (int i = 0; i < N; i++)
        printf("%-34s %8.3f ns an element, %6.1f x copy\n", list[i].name,
               median(&list[i]) / list[i].work * 1e9,
               median(&list[i]) / list[i].work / (median(&list[0]) / list[0].work));
    free(b);
}

/* --- The attention core against sgemm --------------------------------------------------------- */

static void attention_forward(void *ctx) {
    tpp__kern_attention_forward(ctx);
}

static void attention_backward(void *ctx) {
    tpp__kern_attention_backward(ctx);
}

static void sgemm(void *ctx) {
    tpp__kern_gemm(tpp_gemm_builtin(TPP_GEMM_BLAS), ctx);
}

static float *matrix(int64_t rows, int64_t cols) {
    float *x = malloc((size_t)(rows * cols) * sizeof *x);
    if (!x)
        exit(1);
    fill(x, rows * cols, 1);
    return x;
}

static void attention(int64_t seq) {
    float *qkv = matrix(seq, 3 * WIDTH), *d_qkv = matrix(seq, 3 * WIDTH);
    float *a = matrix(SIDE, SIDE), *c = matrix(SIDE, SIDE);
    tpp__attention head = {
        .gemm = tpp_gemm_builtin(TPP_GEMM_BLAS),
        .dtype = TPP_F32,
        .seq = seq,
        .keys = seq,
        .width = WIDTH,
        .scale = 0.125,
        .q = qkv,
        .k = qkv + WIDTH,
        .v = qkv + 2 * WIDTH,
        .o = matrix(seq, WIDTH),
        .lse = matrix(seq, 1),
        .scratch = malloc((size_t)tpp__kern_attention_scratch(TPP_F32, seq, WIDTH)),
        .d_o = matrix(seq, WIDTH),
        .dq = d_qkv,
        .dk = d_qkv + WIDTH,
        .dv = d_qkv + 2 * WIDTH,
        .ldo = WIDTH,
        .ld_do = WIDTH,
    };
    head.ldq = head.ldk = head.ldv = head.lddq = head.lddk = head.lddv = 3 * WIDTH;
    tpp__product square = {.dtype = TPP_F32, .m = SIDE, .n = SIDE, .k = SIDE, .alpha = 1};
    square.lda = square.ldb = square.ldc = SIDE;
    square.a = square.b = a;
    square.c = c;
    /* causal: half of 2 and of 4 products of 2 seq^2 width; what backward computes again is not
     * work */
    double product = (double)(seq * seq * WIDTH);
    timed list[] = {
        {"sgemm 1024", sgemm, &square, 2.0 * SIDE * SIDE * SIDE, 1, {0}},
        {"attention core, forward", attention_forward, &head, 2 * product, 2048 / (int)seq, {0}},
        {"attention core, backward", attention_backward, &head, 4 * product, 2048 / (int)seq, {0}},
    };
    measure(list, 3);
    double rate = list[0].work / median(&list[0]);
    for (int i = 0; i < 3; i++)
        printf("seq %4lld: %-26s %8.1f us, %6.1f GFLOP/s, %.2f of sgemm\n", (long long)seq,
               list[i].name, median(&list[i]) * 1e6, list[i].work / median(&list[i]) * 1e-9,
               list[i].work / median(&list[i]) / rate);
    double both = (list[1].work + list[2].work) / (median(&list[1]) + median(&list[2]));
    printf("seq %4lld: %-26s %28.1f GFLOP/s, %.2f of sgemm\n", (long long)seq, "both", both * 1e-9,
           both / rate);
    void *memory[] = {
        qkv, d_qkv, a, c, head.o, head.lse, head.scratch, (void *)(uintptr_t)head.d_o};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        free(memory[i]);
}

int main(void) {
    tpp_blas_single_begin();
    elements();
    attention(512);
    attention(2048);
    tpp_blas_single_end();
    return 0;
}
