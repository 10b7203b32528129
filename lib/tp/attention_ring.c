/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/attention_context.h"
#include "tp/operators.h"

#include <math.h>
#include <string.h>

/* Ring attention: K and V of every rank go once round the ring of context ranks. Each rank meets those
 * that it holds with its own queries, a chunk of the sequence against a chunk, and merges what they
 * give by the log-sum-exps. In backward the gradients of K and V follow theirs and come home after a
 * full round. */

enum { TAG = 0x52494e47 }; /* tags of K and V; those of their gradients have the next bit */

/* K and V of a rank's tokens, or their gradients: [2][tokens, kv_cols]. */
typedef struct ring {
    const tpp_layer *layer;
    const tpp__work *work;
    int64_t half, kv_cols;
    char *here, *next;           /* K and V */
    char *grad_here, *grad_next; /* backward */
    char *o, *lse;               /* of a pair of chunks: [half, head_cols], [half] */
    char *dq, *dk, *dv;
    void *core;
} ring;

static const tpp__attention_layer *attention_of(const tpp_layer *layer) {
    return (const tpp__attention_layer *)layer;
}

static ring take(const tpp_layer *layer, int64_t tokens, int64_t seq, bool backward,
                 tpp__arena *arena) {
    const tpp__attention_layer *self = attention_of(layer);
    ring r = {.layer = layer, .half = seq / 2, .kv_cols = self->kv_heads * self->head_cols};
    int64_t piece = r.half * self->head_cols;
    char **const twice[] = {&r.here, &r.next, &r.grad_here, &r.grad_next};
    for (int32_t i = 0; i < (backward ? 4 : 2); i++)
        *twice[i] = tpp__arena_take(arena, 2 * tokens * r.kv_cols, layer->width);
    char **const pieces[] = {&r.o, &r.dq, &r.dk, &r.dv};
    for (int32_t i = backward ? 1 : 0; i < (backward ? 4 : 1); i++)
        *pieces[i] = tpp__arena_take(arena, piece, layer->width);
    r.lse = tpp__arena_take(arena, r.half, layer->wide_width);
    r.core = tpp__arena_take(arena,
                             tpp__kern_attention_scratch(layer->dtype, r.half, self->head_cols), 1);
    return r;
}

void tpp__attention_ring_scratch(const tpp_layer *layer, int64_t tokens, int64_t seq,
                                 tpp__arena *arena) {
    take(layer, tokens, seq, true, arena); /* forward needs less */
}

static int64_t side_bytes(const ring *r) {
    return r->work->tokens * r->kv_cols * r->layer->width;
}

/* Between Q, K, V as the layer has them and the ring's [2][tokens, kv_cols]. */
static void copy_kv(const ring *r, const tpp__projected *layers, char *rings, bool home) {
    const tpp__attention_layer *self = attention_of(r->layer);
    for (int32_t section = TPP__K; section <= TPP__V; section++) {
        for (int64_t n = 0; n < self->kv_heads; n++) {
            tpp__place p = tpp__attention_place(r->layer, layers, 0, section, n);
            char *there =
                rings + (section - TPP__K) * side_bytes(r) + n * self->head_cols * r->layer->width;
            tpp__kern_copy(r->layer->dtype, r->work->tokens, self->head_cols, home ? there : p.at,
                           home ? r->kv_cols : p.stride, home ? p.at : there,
                           home ? p.stride : r->kv_cols);
        }
    }
}

/* A chunk of queries of this rank against one of keys that came from another. */
typedef struct pair {
    int64_t sequence;
    int32_t queries, keys; /* 0 or 1: which of the two chunks */
    int64_t ahead;         /* chunks that the queries are after the keys */
} pair;

static char *row_at(const ring *r, char *rings, int64_t row, int64_t head) {
    return rings + (row * r->kv_cols + head * attention_of(r->layer)->head_cols) * r->layer->width;
}

/* The core's view of a query head in a pair; outputs are the caller's. */
static tpp__attention head_of(const ring *r, const tpp__attention_saved *saved, const pair *p,
                              int64_t n) {
    const tpp__attention_layer *self = attention_of(r->layer);
    int64_t group = self->heads / self->kv_heads, first = p->sequence * r->work->seq;
    int64_t query = first + p->queries * r->half, key = first + p->keys * r->half;
    tpp__place q = tpp__attention_place(r->layer, &saved->qkv, query, TPP__Q, n);
    return (tpp__attention){
        .gemm = &r->layer->gemm,
        .dtype = r->layer->dtype,
        .seq = r->half,
        .keys = r->half,
        .offset = p->ahead * r->half,
        .window = self->window,
        .full = self->full,
        .width = self->head_cols,
        .scale = 1 / sqrt((double)self->head_cols),
        .q = q.at,
        .ldq = q.stride,
        .k = row_at(r, r->here, key, n / group),
        .v = row_at(r, r->here + side_bytes(r), key, n / group),
        .ldk = r->kv_cols,
        .ldv = r->kv_cols,
        .scratch = r->core,
    };
}

/* Where the rows of a pair's queries begin in the heads' outputs, and in their gradients. */
static int64_t output_at(const ring *r, const pair *p, int64_t n) {
    int64_t row = p->sequence * r->work->seq + p->queries * r->half;
    return (row * tpp__attention_heads_cols(r->layer) + n * attention_of(r->layer)->head_cols) *
           r->layer->width;
}

static char *lse_at(const ring *r, const tpp__attention_saved *saved, const pair *p, int64_t n) {
    int64_t row = p->sequence * r->work->seq + p->queries * r->half;
    return saved->lse + (n * r->work->tokens + row) * r->layer->wide_width;
}

static tpp_status pair_forward(const ring *r, const tpp__attention_saved *saved, const pair *p) {
    int64_t cols = tpp__attention_heads_cols(r->layer);
    tpp_status status = TPP_OK;
    for (int64_t n = 0; n < attention_of(r->layer)->heads && status == TPP_OK; n++) {
        tpp__attention head = head_of(r, saved, p, n);
        head.o = r->o;
        head.ldo = head.width;
        head.lse = r->lse;
        status = tpp__kern_attention_forward(&head);
        if (status == TPP_OK)
            tpp__kern_attention_merge(head.dtype, r->half, head.width, r->o, head.width, r->lse,
                                      saved->heads + output_at(r, p, n), cols,
                                      lse_at(r, saved, p, n));
    }
    return status;
}

static void add_rows(const ring *r, const char *x, char *y, int64_t ldy) {
    int64_t cols = attention_of(r->layer)->head_cols, width = r->layer->width;
    for (int64_t i = 0; i < r->half; i++)
        tpp__kern_add(r->layer->dtype, cols, x + i * cols * width, y + i * ldy * width);
}

/* What backward is given. */
typedef struct gradients {
    const char *heads;         /* of the heads' outputs */
    const tpp__projected *qkv; /* that of Q is added to */
} gradients;

static tpp_status pair_backward(const ring *r, const tpp__attention_saved *saved, const pair *p,
                                const gradients *g) {
    const tpp__attention_layer *self = attention_of(r->layer);
    int64_t group = self->heads / self->kv_heads, cols = tpp__attention_heads_cols(r->layer);
    int64_t first = p->sequence * r->work->seq, key = first + p->keys * r->half;
    tpp_status status = TPP_OK;
    for (int64_t n = 0; n < self->heads && status == TPP_OK; n++) {
        tpp__attention head = head_of(r, saved, p, n);
        head.o = saved->heads + output_at(r, p, n);
        head.ldo = cols;
        head.lse = lse_at(r, saved, p, n);
        head.d_o = g->heads + output_at(r, p, n);
        head.ld_do = cols;
        head.dq = r->dq, head.dk = r->dk, head.dv = r->dv;
        head.lddq = head.lddk = head.lddv = head.width;
        head.add_kv = n % group != 0;
        status = tpp__kern_attention_backward(&head);
        tpp__place dq =
            tpp__attention_place(r->layer, g->qkv, first + p->queries * r->half, TPP__Q, n);
        if (status == TPP_OK)
            add_rows(r, r->dq, dq.at, dq.stride);
        if (status == TPP_OK && n % group == group - 1) {
            add_rows(r, r->dk, row_at(r, r->grad_here, key, n / group), r->kv_cols);
            add_rows(r, r->dv, row_at(r, r->grad_here + side_bytes(r), key, n / group), r->kv_cols);
        }
    }
    return status;
}

/* All pairs with the K and V of rank `source`. g NULL: forward. */
static tpp_status meet(const ring *r, const tpp__attention_saved *saved, int32_t source,
                       const gradients *g) {
    const tpp_layer *layer = r->layer;
    tpp_status status = TPP_OK;
    for (int64_t i = 0; i < 4 * r->work->batch && status == TPP_OK; i++) {
        pair p = {.sequence = i / 4, .queries = (int32_t)(i / 2 % 2), .keys = (int32_t)(i % 2)};
        p.ahead = tpp__context_chunk(layer, layer->context_rank, p.queries) -
                  tpp__context_chunk(layer, source, p.keys);
        if (p.ahead < 0 && !attention_of(layer)->full)
            continue;
        status = g ? pair_backward(r, saved, &p, g) : pair_forward(r, saved, &p);
    }
    return status;
}

/* Send `out` to the next rank and receive the same from the one before. */
static tpp_status pass_start(const ring *r, const char *out, char *in, uint64_t tag,
                             tpp_request requests[2]) {
    const tpp_layer *layer = r->layer;
    int32_t size = layer->context_size, next = (layer->context_rank + 1) % size;
    int32_t before = (layer->context_rank + size - 1) % size;
    int64_t count = 2 * r->work->tokens * r->kv_cols;
    tpp_status status =
        tpp_comm_recv_start(layer->context, in, count, layer->dtype, before, tag, &requests[0]);
    if (status == TPP_OK)
        status =
            tpp_comm_send_start(layer->context, out, count, layer->dtype, next, tag, &requests[1]);
    return status;
}

static tpp_status pass_finish(tpp_request requests[2], tpp_status status) {
    return tpp__wait_for(&requests[1], tpp__wait_for(&requests[0], status));
}

static void swap(char **a, char **b) {
    char *t = *a;
    *a = *b;
    *b = t;
}

/* One round: in step s this rank holds what rank - s gave. */
static tpp_status go_round(ring *r, const tpp__attention_saved *saved, const gradients *g) {
    int32_t size = r->layer->context_size;
    tpp_status status = TPP_OK;
    for (int32_t s = 0; s < size && status == TPP_OK; s++) {
        tpp_request requests[2] = {{0}};
        if (s < size - 1)
            status = pass_start(r, r->here, r->next, TAG + (uint64_t)s, requests);
        if (status == TPP_OK)
            status = meet(r, saved, (r->layer->context_rank + size - s) % size, g);
        status = pass_finish(requests, status);
        swap(&r->here, &r->next);
        if (status != TPP_OK || !g)
            continue;
        tpp_request grads[2] = {{0}};
        status = pass_start(r, r->grad_here, r->grad_next, (uint64_t)2 * TAG + (uint64_t)s, grads);
        status = pass_finish(grads, status);
        swap(&r->grad_here, &r->grad_next);
    }
    return status;
}

static void nothing_seen(const ring *r, const tpp__attention_saved *saved) {
    const tpp_layer *layer = r->layer;
    int64_t count = r->work->tokens * attention_of(layer)->heads;
    memset(saved->heads, 0,
           (size_t)(r->work->tokens * tpp__attention_heads_cols(layer) * layer->width));
    for (int64_t i = 0; i < count; i++) {
        if (layer->wide == TPP_F64)
            ((double *)(void *)saved->lse)[i] = -INFINITY;
        else
            ((float *)(void *)saved->lse)[i] = -INFINITY;
    }
}

tpp_status tpp__attention_ring_forward(const tpp_layer *layer, const tpp__work *work,
                                       const tpp__attention_saved *saved) {
    tpp__arena arena = work->scratch;
    ring r = take(layer, work->tokens, work->seq, false, &arena);
    r.work = work;
    copy_kv(&r, &saved->qkv, r.here, false);
    nothing_seen(&r, saved);
    return go_round(&r, saved, NULL);
}

static void clear_queries(const ring *r, const tpp__projected *grads) {
    const tpp__attention_layer *self = attention_of(r->layer);
    for (int64_t n = 0; n < self->heads; n++) {
        tpp__place p = tpp__attention_place(r->layer, grads, 0, TPP__Q, n);
        for (int64_t i = 0; i < r->work->tokens; i++)
            memset(p.at + i * p.stride * r->layer->width, 0,
                   (size_t)(self->head_cols * r->layer->width));
    }
}

tpp_status tpp__attention_ring_backward(const tpp_layer *layer, const tpp__work *work,
                                        const tpp__attention_saved *saved, const char *grad_heads,
                                        const tpp__projected *grads, tpp__arena arena) {
    ring r = take(layer, work->tokens, work->seq, true, &arena);
    r.work = work;
    copy_kv(&r, &saved->qkv, r.here, false);
    memset(r.grad_here, 0, (size_t)(2 * side_bytes(&r)));
    clear_queries(&r, grads);
    tpp_status status = go_round(&r, saved, &(gradients){grad_heads, grads});
    if (status == TPP_OK)
        copy_kv(&r, grads, r.grad_here, true);
    return status;
}
