/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Output head and cross-entropy, forward and backward, on one rank: as two layers, and fused with blocks
 * of several sizes. Seconds are the median of several runs in turns; bytes are saved and scratch. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tpp/tpp.h>

enum { HIDDEN = 512, VOCAB = 32000, TOKENS = 1024, RUNS = 5, WAYS = 6 };

static void check(tpp_status status) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", tpp_status_name(status), tpp_message());
        exit(1);
    }
}

static void *memory(int64_t bytes) {
    char *m = aligned_alloc(64, (size_t)(bytes + 64) / 64 * 64);
    if (!m)
        abort();
    for (int64_t i = 0; i < bytes; i += 64)
        m[i] = 0;
    return m;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* block 0: two layers. */
typedef struct way {
    int64_t block;
    uint32_t flags;
    tpp_layer *layer;
    tpp_call call;
    int64_t bytes;
    double seconds[RUNS];
} way;

static tpp_layer *make_layer(int64_t block, uint32_t flags) {
    tpp_layer_env env = {.size = sizeof env};
    tpp_loss_desc loss = {.size = sizeof loss, .vocab = VOCAB, .reduction = TPP_LOSS_MEAN};
    tpp_head_desc head = {.size = sizeof head, .hidden = HIDDEN, .vocab = VOCAB};
    tpp_layer *layers[2];
    head.block = block;
    head.flags = flags;
    head.loss = block ? &loss : NULL;
    check(tpp_head_create(&layers[0], &env, &head));
    if (block)
        return layers[0];
    check(tpp_loss_create(&layers[1], &env, &loss));
    tpp_layer *chain;
    check(tpp_chain_create(&chain, &env, layers, 2));
    return chain;
}

static tpp_mat mat(int64_t rows, int64_t cols, float value) {
    tpp_mat m = {.rows = rows, .cols = cols, .dtype = TPP_F32};
    m.data = memory(rows * cols * 4);
    for (int64_t i = 0; i < rows * cols; i++)
        ((float *)m.data)[i] = value * (float)(1 + i * 7919 % 13) / 13;
    return m;
}

static void open_way(way *w) {
    tpp_layer_info info = {.size = sizeof info};
    w->layer = make_layer(w->block, w->flags);
    check(tpp_layer_query(w->layer, 1, TOKENS, &info));
    w->bytes = info.saved_bytes + info.scratch_bytes;
    w->call = (tpp_call){.size = sizeof w->call, .batch = 1, .seq = TOKENS};
    w->call.in = mat(TOKENS, HIDDEN, 1);
    w->call.grad_in = mat(TOKENS, HIDDEN, 0);
    w->call.out = mat(1, 1, 0);
    w->call.grad_out = mat(1, 1, 13);
    int32_t *targets = memory(TOKENS * (int64_t)sizeof *targets);
    for (int32_t i = 0; i < TOKENS; i++)
        targets[i] = i * 31 % VOCAB;
    w->call.targets = targets;
    void *params = memory(info.state_bytes);
    check(tpp_layer_init(w->layer, params, 1));
    w->call.params = params;
    w->call.grads = memory(info.grad_bytes);
    w->call.saved = memory(info.saved_bytes);
    w->call.scratch = memory(info.scratch_bytes);
    w->call.saved_bytes = info.saved_bytes;
    w->call.scratch_bytes = info.scratch_bytes;
}

int main(void) {
    way ways[WAYS] = {{.block = 0},   {.block = 64},  {.block = 128},
                      {.block = 256}, {.block = 512}, {.block = 256, .flags = TPP_HEAD_EARLY}};
    for (int i = 0; i < WAYS; i++)
        open_way(&ways[i]);
    for (int k = -1; k < RUNS; k++)
        for (int i = 0; i < WAYS; i++) {
            double begin = now();
            check(tpp_layer_forward(ways[i].layer, &ways[i].call));
            check(tpp_layer_backward(ways[i].layer, &ways[i].call));
            if (k >= 0)
                ways[i].seconds[k] = now() - begin;
        }
    for (int i = 0; i < WAYS; i++) {
        qsort(ways[i].seconds, RUNS, sizeof *ways[i].seconds, compare);
        printf("head and loss, T %d h %d V %d, block %4lld%s: %.3f s, %6.1f MB\n", TOKENS, HIDDEN,
               VOCAB, (long long)ways[i].block, ways[i].flags ? ", early" : "",
               ways[i].seconds[RUNS / 2], (double)ways[i].bytes / 1e6);
        tpp_layer_destroy(ways[i].layer);
    }
    return 0;
}
