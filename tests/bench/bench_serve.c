/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Speed of decoding, one rank and one BLAS thread, float32: how fast a step of one token reads the
 * weights, beside a plain read of the same memory, and the same step as BLAS does it for many rows.
 * Medians of interleaved repeats; a few seconds.
 *
 *     bench_serve [layers] */
#include "base/thread.h"
#include "kern/vector.h"

#include <stdio.h>
#include <stdlib.h>
#include <tpp/tpp.h>

enum { REPEATS = 15, HIDDEN = 1024, VOCAB = 256, CONTEXT = 128, LANES = 64, BATCH = 4 };

static void check(tpp_status status) {
    if (status == TPP_OK)
        return;
    fprintf(stderr, "%s: %s\n", tpp_status_name(status), tpp_message());
    exit(1);
}

static void *memory(int64_t bytes) {
    void *m = aligned_alloc(64, (size_t)(bytes + 64) / 64 * 64);
    if (!m)
        exit(1);
    memset(m, 0, (size_t)bytes);
    return m;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double seconds[REPEATS]) {
    qsort(seconds, REPEATS, sizeof *seconds, by_size);
    return seconds[REPEATS / 2];
}

TPP__CLONES static float read_all(const float *x, int64_t n) {
    float sum[LANES] = {0}, all = 0;
    for (int64_t i = 0; i + LANES <= n; i += LANES)
        for (int64_t l = 0; l < LANES; l++)
            sum[l] += x[i + l];
    for (int64_t l = 0; l < LANES; l++)
        all += sum[l];
    return all;
}

/* A step of `batch` sequences, a token each, with CONTEXT - 1 before it. */
typedef struct decoder {
    tpp_layer *model;
    tpp_call call;
    int32_t ids[BATCH], past[BATCH];
} decoder;

static void prepare(decoder *d, tpp_layer *model, const void *params, int64_t batch) {
    tpp_serve_info serve = {.size = sizeof serve};
    check(tpp_layer_serve_query(model, batch, 1, CONTEXT, &serve));
    d->model = model;
    for (int i = 0; i < BATCH; i++)
        d->past[i] = CONTEXT - 1;
    d->call =
        (tpp_call){.size = sizeof d->call, .flags = TPP_CALL_NO_GRAD, .batch = batch, .seq = 1};
    d->call.in = (tpp_mat){.data = d->ids, .rows = batch, .cols = 1, .dtype = TPP_I32};
    d->call.out = (tpp_mat){.rows = batch, .cols = VOCAB, .dtype = TPP_F32};
    d->call.out.data = memory(batch * VOCAB * 4);
    d->call.params = params;
    d->call.scratch = memory(serve.scratch_bytes), d->call.scratch_bytes = serve.scratch_bytes;
    d->call.cache = memory(serve.cache_bytes), d->call.cache_bytes = serve.cache_bytes;
    d->call.cache_seq = CONTEXT;
    d->call.past = d->past;
}

static double step(decoder *d) {
    double start = tpp__now();
    check(tpp_layer_forward(d->model, &d->call));
    return tpp__now() - start;
}

static void forget(decoder *d) {
    free(d->call.out.data);
    free(d->call.scratch);
    free(d->call.cache);
}

int main(int argc, char **argv) {
    tpp_layer_env env = {.size = sizeof env};
    tpp_model_desc desc = {.size = sizeof desc, .vocab = VOCAB, .hidden = HIDDEN};
    desc.layers = argc > 1 ? atoi(argv[1]) : 4, desc.heads = HIDDEN / 64, desc.positions = CONTEXT;
    tpp_model_part_desc whole = {.size = sizeof whole, .model = &desc, .count = desc.layers};
    tpp_layer_info info = {.size = sizeof info};
    tpp_layer *model;
    double reads[REPEATS], ones[REPEATS], fours[REPEATS];
    volatile float sink;
    decoder one, four;
    check(tpp_model_part_create(&model, &env, &whole));
    check(tpp_layer_query(model, 1, 1, &info));
    float *params = memory(info.state_bytes);
    check(tpp_layer_init(model, params, 1));
    prepare(&one, model, params, 1);
    prepare(&four, model, params, BATCH);
    tpp_blas_single_begin();
    for (int i = -1; i < REPEATS; i++) { /* the first one warms */
        double start = tpp__now();
        sink = read_all(params, info.state_bytes / 4);
        reads[i < 0 ? 0 : i] = tpp__now() - start;
        ones[i < 0 ? 0 : i] = step(&one);
        fours[i < 0 ? 0 : i] = step(&four);
    }
    tpp_blas_single_end();
    (void)sink;
    double read = median(reads), a = median(ones), b = median(fours);
    printf("weights %.0f MB: read in %.2f ms (%.1f GB/s)\n", 1e-6 * (double)info.state_bytes,
           1e3 * read, 1e-9 * (double)info.state_bytes / read);
    printf("decode, 1 sequence:  %.2f ms, %.2f of the read rate (goal 0.85)\n", 1e3 * a, read / a);
    printf("decode, %d sequences: %.2f ms, %.2f ms a token\n", BATCH, 1e3 * b, 1e3 * b / BATCH);
    forget(&one);
    forget(&four);
    free(params);
    tpp_layer_destroy(model);
    return 0;
}
