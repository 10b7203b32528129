/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Speed of tensor-parallel layers, forward and backward in float32, as ratios with bare sgemm or
 * with each other: medians of interleaved repeats in one run. Prints one line per goal; takes under
 * a minute.
 *
 *     bench_tp [repeats] */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tpp/tpp.h>

/* OpenBLAS's own; its headers are for the library alone. */
void openblas_set_num_threads(int threads);
void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                 const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);

enum { RANKS_MOST = 8, REPEATS_MOST = 64, CORES = 2 };
typedef enum { MLP, ATTENTION, BLOCK } kind;
static const char *const kind_names[] = {"mlp", "attention", "block"};

static void check(tpp_status status, const char *what) {
    if (status == TPP_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, tpp_status_name(status), tpp_message());
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* BLAS's threads keep a core busy for a while after each call. */
static void let_blas_sleep(void) {
    const struct timespec t = {0, 120 * 1000 * 1000};
    nanosleep(&t, NULL);
}

/* Numbers in [-scale, scale), with a mean of 0. */
static float *numbers(int64_t count, float scale) {
    size_t bytes = ((size_t)count * sizeof(float) + 64) / 64 * 64;
    float *x = aligned_alloc(64, bytes);
    uint32_t state = 1;
    if (!x)
        exit(1);
    memset(x, 0, bytes);
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = scale * ((float)(state >> 8) / (float)(1 << 23) - 1);
    }
    return x;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, compare);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* One way to do the work, timed several times. */
typedef struct way {
    kind what;
    int64_t tokens, hidden;
    tpp_dtype dtype;
    int32_t ranks, blocks;
    int blas_threads;
    int bare; /* 1: sgemm alone, in the shapes of the layer's weights */
    double seconds[REPEATS_MOST];
    /* of a layer */
    pthread_barrier_t start, end;
    int quit;
    pthread_t threads[RANKS_MOST];
    tpp_comm *comms[RANKS_MOST];
    int32_t next_rank;
    pthread_mutex_t lock;
    /* of bare sgemm */
    float *x, *w, *y, *dx, *dw;
} way;

static void create(const way *v, const tpp_layer_env *env, tpp_layer **out) {
    int32_t heads = (int32_t)(v->hidden / 64);
    if (v->what == MLP) {
        tpp_mlp_desc d = {0};
        d.size = sizeof d;
        d.hidden = v->hidden;
        check(tpp_mlp_create(out, env, &d), "mlp");
    } else if (v->what == ATTENTION) {
        tpp_attention_desc d = {0};
        d.size = sizeof d;
        d.hidden = v->hidden;
        d.heads = heads;
        check(tpp_attention_create(out, env, &d), "attention");
    } else {
        tpp_block_desc d = {0};
        d.size = sizeof d;
        d.hidden = v->hidden;
        d.heads = heads;
        check(tpp_block_create(out, env, &d), "block");
    }
}

static tpp_mat mat(const way *v, float scale) {
    tpp_mat m = {0};
    int64_t count = v->tokens * v->hidden;
    float *x = numbers(count, scale);
    m.data = x;
    m.rows = v->tokens;
    m.cols = v->hidden;
    m.dtype = v->dtype;
    if (v->dtype == TPP_BF16) {
        m.data = numbers(count / 2, 0);
        check(tpp_convert(m.data, TPP_BF16, x, TPP_F32, count), "convert");
        free(x);
    }
    return m;
}

/* A layer and the memory of its calls. */
static tpp_layer *make_layer(const way *v, tpp_comm *comm, tpp_call *call) {
    tpp_layer_env env = {0};
    tpp_layer_info info = {0};
    tpp_layer *layer = NULL;
    env.size = sizeof env;
    env.comm = comm;
    env.dtype = v->dtype;
    env.blocks = v->blocks;
    info.size = sizeof info;
    create(v, &env, &layer);
    check(tpp_layer_query(layer, 1, v->tokens, &info), "query");
    float *params = numbers(info.state_bytes / 4, 0);
    check(tpp_layer_init(layer, params, 1), "init");
    *call = (tpp_call){0};
    call->size = sizeof *call;
    call->batch = 1;
    call->seq = v->tokens;
    call->in = mat(v, 1);
    call->out = mat(v, 0);
    call->grad_out = mat(v, 1);
    call->grad_in = mat(v, 0);
    call->params = params;
    call->grads = numbers(info.grad_bytes / 4, 0);
    call->saved = numbers(info.saved_bytes / 4, 0);
    call->saved_bytes = info.saved_bytes;
    call->scratch = numbers(info.scratch_bytes / 4, 0);
    call->scratch_bytes = info.scratch_bytes;
    return layer;
}

static void free_call(tpp_call *call) {
    free(call->in.data);
    free(call->out.data);
    free(call->grad_out.data);
    free(call->grad_in.data);
    free((void *)(uintptr_t)call->params);
    free(call->grads);
    free(call->saved);
    free(call->scratch);
}

/* A rank waits for the start of a repeat, works, and meets the others at the end. */
static void *rank_loop(void *arg) {
    way *v = arg;
    tpp_call call;
    pthread_mutex_lock(&v->lock);
    int32_t rank = v->next_rank++;
    pthread_mutex_unlock(&v->lock);
    tpp_layer *layer = make_layer(v, v->ranks > 1 ? v->comms[rank] : NULL, &call);
    for (;;) {
        pthread_barrier_wait(&v->start);
        if (v->quit)
            break;
        check(tpp_layer_forward(layer, &call), "forward");
        check(tpp_layer_backward(layer, &call), "backward");
        pthread_barrier_wait(&v->end);
    }
    tpp_layer_destroy(layer);
    free_call(&call);
    return NULL;
}

/* A product and, twice, what its gradients cost: dX = dY W^T and dW = X^T dY. */
static void linear_products(const way *v, int64_t in, int64_t out) {
    enum { ROWS = 101, NO = 111, YES = 112 };
    int t = (int)v->tokens;
    int i = (int)in;
    int o = (int)out;
    cblas_sgemm(ROWS, NO, NO, t, o, i, 1, v->x, i, v->w, o, 0, v->y, o);
    cblas_sgemm(ROWS, NO, YES, t, i, o, 1, v->y, o, v->w, o, 0, v->dx, i);
    cblas_sgemm(ROWS, YES, NO, i, o, t, 1, v->x, i, v->y, o, 0, v->dw, o);
}

static void bare_products(const way *v) {
    int64_t h = v->hidden;
    if (v->what != ATTENTION) {
        linear_products(v, h, 4 * h);
        linear_products(v, 4 * h, h);
    }
    if (v->what != MLP) {
        linear_products(v, h, 3 * h);
        linear_products(v, h, h);
    }
}

static void way_start(way *v) {
    v->next_rank = 0;
    v->quit = 0;
    pthread_mutex_init(&v->lock, NULL);
    if (v->bare) {
        int64_t widest = 4 * v->hidden;
        v->x = numbers(v->tokens * widest, 1);
        v->w = numbers(v->hidden * widest, 1);
        v->y = numbers(v->tokens * widest, 1);
        v->dx = numbers(v->tokens * widest, 1);
        v->dw = numbers(v->hidden * widest, 1);
        return;
    }
    pthread_barrier_init(&v->start, NULL, (unsigned)v->ranks + 1);
    pthread_barrier_init(&v->end, NULL, (unsigned)v->ranks + 1);
    check(tpp_comm_local_create(v->comms, v->ranks, NULL), "comm");
    for (int32_t r = 0; r < v->ranks; r++) {
        if (pthread_create(&v->threads[r], NULL, rank_loop, v) != 0)
            exit(1);
    }
}

static void way_stop(way *v) {
    pthread_mutex_destroy(&v->lock);
    if (v->bare) {
        free(v->x);
        free(v->w);
        free(v->y);
        free(v->dx);
        free(v->dw);
        return;
    }
    v->quit = 1;
    pthread_barrier_wait(&v->start);
    for (int32_t r = 0; r < v->ranks; r++) {
        pthread_join(v->threads[r], NULL);
        tpp_comm_destroy(v->comms[r]);
    }
    pthread_barrier_destroy(&v->start);
    pthread_barrier_destroy(&v->end);
}

static double way_once(way *v) {
    let_blas_sleep();
    openblas_set_num_threads(v->blas_threads);
    double begin = now();
    if (v->bare) {
        bare_products(v);
    } else {
        pthread_barrier_wait(&v->start);
        pthread_barrier_wait(&v->end);
    }
    return now() - begin;
}

/* Time all ways in turns, after one turn that does not count. */
static void measure(way *ways, int count, int repeats) {
    for (int i = 0; i < count; i++)
        way_start(&ways[i]);
    for (int k = -1; k < repeats; k++) {
        for (int i = 0; i < count; i++) {
            double seconds = way_once(&ways[i]);
            if (k >= 0)
                ways[i].seconds[k] = seconds;
        }
    }
    for (int i = 0; i < count; i++)
        way_stop(&ways[i]);
}

/* Multiply-adds count two; causal attention half of the square, its backward twice its forward. */
static double weight_flops(const way *v) {
    double th2 = (double)v->tokens * (double)v->hidden * (double)v->hidden;
    return v->what == MLP ? 48 * th2 : v->what == ATTENTION ? 24 * th2 : 72 * th2;
}

static double all_flops(const way *v) {
    double core = 6 * (double)v->tokens * (double)v->tokens * (double)v->hidden;
    return weight_flops(v) + (v->what == MLP || v->bare ? 0 : core);
}

static way way_of(kind what, int64_t tokens, int32_t ranks, int32_t blocks, int blas_threads) {
    way v = {0};
    v.what = what;
    v.tokens = tokens;
    v.hidden = 1024;
    v.dtype = TPP_F32;
    v.ranks = ranks;
    v.blocks = blocks;
    v.blas_threads = blas_threads;
    return v;
}

/* S1 .. S3: the layer's rate as a fraction of sgemm's at the shapes of its weights. */
static void rate(const char *goal, kind what, int64_t tokens, double at_least, int repeats) {
    way ways[2] = {way_of(what, tokens, 1, 0, CORES), way_of(what, tokens, 1, 0, CORES)};
    ways[1].bare = 1;
    measure(ways, 2, repeats);
    double layer = all_flops(&ways[0]) / median(ways[0].seconds, repeats) / 1e9;
    double bare = all_flops(&ways[1]) / median(ways[1].seconds, repeats) / 1e9;
    printf("%s  %-9s T %4lld h 1024: %6.1f GFLOP/s, sgemm %6.1f: %.3f  (goal >= %.2f)\n", goal,
           kind_names[what], (long long)tokens, layer, bare, layer / bare, at_least);
    fflush(stdout);
}

/* S4, S6, S7: the same work by ranks, by BLAS's threads, on one core, by more ranks, with fixed
 * blocks. */
static void degrees(kind what, int64_t tokens, int repeats) {
    way ways[5] = {way_of(what, tokens, 2, 0, CORES), way_of(what, tokens, 1, 0, CORES),
                   way_of(what, tokens, 1, 0, 1), way_of(what, tokens, 8, 0, CORES),
                   way_of(what, tokens, 2, 4, CORES)};
    double s[5];
    measure(ways, 5, repeats);
    for (int i = 0; i < 5; i++)
        s[i] = median(ways[i].seconds, repeats);
    const char *name = kind_names[what];
    printf("S4  %-9s 2 ranks / BLAS's 2 threads: %.3f  (goal <= 0.97)\n", name, s[0] / s[1]);
    printf("S4  %-9s one core / 2 ranks:         %.3f  (goal >= 1.90)\n", name, s[2] / s[0]);
    printf("S6  %-9s 8 ranks / 2 ranks:          %.3f  (goal <= 1.04)\n", name, s[3] / s[0]);
    printf("S7  %-9s 4 fixed blocks / free:      %.3f  (goal <= 1.10)\n", name, s[4] / s[0]);
    fflush(stdout);
}

/* The same work in bfloat16, for which there is no goal: on one core, and by two ranks. */
static void storage(kind what, int64_t tokens, int repeats) {
    way ways[4] = {way_of(what, tokens, 1, 0, 1), way_of(what, tokens, 1, 0, 1),
                   way_of(what, tokens, 2, 0, CORES), way_of(what, tokens, 2, 0, CORES)};
    double s[4];
    ways[1].dtype = ways[3].dtype = TPP_BF16;
    measure(ways, 4, repeats);
    for (int i = 0; i < 4; i++)
        s[i] = median(ways[i].seconds, repeats);
    printf("    %-9s bfloat16 / float32, one core: %.3f, 2 ranks: %.3f\n", kind_names[what],
           s[1] / s[0], s[3] / s[2]);
    fflush(stdout);
}

int main(int argc, char **argv) {
    int repeats = argc > 1 ? atoi(argv[1]) : 3;
    if (repeats < 1 || repeats > REPEATS_MOST) {
        fprintf(stderr, "usage: bench_tp [repeats, 1 .. %d]\n", REPEATS_MOST);
        return 2;
    }
    rate("S1", MLP, 512, 0.97, repeats);
    rate("S1", MLP, 2048, 0.97, repeats);
    rate("S2", ATTENTION, 512, 0.85, repeats);
    rate("S2", ATTENTION, 2048, 0.80, repeats);
    rate("S3", BLOCK, 512, 0.90, repeats);
    rate("S3", BLOCK, 2048, 0.90, repeats);
    degrees(MLP, 1024, repeats);
    degrees(BLOCK, 1024, repeats);
    storage(MLP, 1024, repeats);
    storage(BLOCK, 1024, repeats);
    return 0;
}
