/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/attention_context.h"
#include "tp/operators.h"

#include <math.h>
#include <string.h>

/* All-to-all over heads: every context rank deals its tokens' Q, K and V out by heads, gets all tokens
 * of its own share of the heads, attends to whole sequences, and deals the results back. */

enum { TAG = 0x41324121, LANES = 5 };

/* One of the matrices that travel: Q, K, V (or gradients of them) of `of`, or with `of` NULL the heads'
 * outputs. */
typedef struct lane {
    const tpp__projected *of;
    int32_t section;
    const char *heads; /* read when dealt out, or */
    char *home;        /* written when dealt back */
} lane;

/* What is dealt out and back; a message is [tokens, cols] for each peer, whole sequences are [tokens *
 * size, cols]. */
typedef struct exchange {
    const tpp_layer *layer;
    const tpp__work *work;
    int64_t heads, kv_heads; /* of this rank's share */
    char *send, *recv;       /* [size][tokens, cols] */
    char *in, *out;          /* whole sequences: what comes, what goes back */
    void *core;
} exchange;

static const tpp__attention_layer *attention_of(const tpp_layer *layer) {
    return (const tpp__attention_layer *)layer;
}

tpp_status tpp__attention_check_context(const tpp_layer *layer) {
    const tpp__attention_layer *self = attention_of(layer);
    int32_t size = layer->context_size;
    if (self->context == TPP_CONTEXT_RING || size == 1 ||
        (self->heads % size == 0 && self->kv_heads % size == 0))
        return TPP_OK;
    return tpp__fail(
        TPP_ERR_INVALID,
        "desc.context = 1 (all-to-all) over %d ranks of env.context needs heads and "
        "kv_heads on a rank (%lld and %lld) that are multiples of it; use desc.context "
        "= 0 (ring)",
        size, (long long)self->heads, (long long)self->kv_heads);
}

static int64_t cols_of(const exchange *e, int32_t queries, int32_t keys) {
    return (queries * e->heads + keys * e->kv_heads) * attention_of(e->layer)->head_cols;
}

static exchange take(const tpp_layer *layer, int64_t tokens, int64_t seq, bool backward,
                     tpp__arena *arena) {
    const tpp__attention_layer *self = attention_of(layer);
    int64_t size = layer->context_size;
    exchange e = {.layer = layer, .heads = self->heads / size, .kv_heads = self->kv_heads / size};
    int64_t in = cols_of(&e, backward ? 3 : 1, 2), out = cols_of(&e, 1, backward ? 2 : 0);
    e.send = tpp__arena_take(arena, size * tokens * in, layer->width);
    e.recv = tpp__arena_take(arena, size * tokens * in, layer->width);
    e.in = tpp__arena_take(arena, size * tokens * in, layer->width);
    e.out = tpp__arena_take(arena, size * tokens * out, layer->width);
    e.core = tpp__arena_take(
        arena, tpp__kern_attention_scratch(layer->dtype, size * seq, self->head_cols), 1);
    return e;
}

void tpp__attention_exchange_scratch(const tpp_layer *layer, int64_t tokens, int64_t seq,
                                     tpp__arena *arena) {
    take(layer, tokens, seq, true, arena);
}

/* Heads of a lane that one peer has. */
static int64_t share_of(const exchange *e, const lane *l) {
    return l->of && l->section != TPP__Q ? e->kv_heads : e->heads;
}

static void deal_head(const exchange *e, const lane *l, int64_t row, int64_t n, char *message,
                      bool home) {
    int64_t bytes = attention_of(e->layer)->head_cols * e->layer->width;
    int64_t at = (row * attention_of(e->layer)->heads + n) * bytes;
    if (l->of) {
        char *place = tpp__attention_place(e->layer, l->of, row, l->section, n).at;
        memcpy(home ? place : message, home ? message : place, (size_t)bytes);
    } else if (l->home) {
        memcpy(l->home + at, message, (size_t)bytes);
    } else if (l->heads) {
        memcpy(message, l->heads + at, (size_t)bytes);
    }
}

/* Between the lanes' columns of a peer's heads and its message. */
static void deal(const exchange *e, const lane *lanes, int32_t count, int64_t peer, char *message,
                 bool home) {
    int64_t bytes = attention_of(e->layer)->head_cols * e->layer->width;
    for (int64_t row = 0; row < e->work->tokens; row++) {
        for (int32_t l = 0; l < count; l++) {
            int64_t share = share_of(e, &lanes[l]);
            for (int64_t n = peer * share; n < (peer + 1) * share; n++, message += bytes)
                deal_head(e, &lanes[l], row, n, message, home);
        }
    }
}

/* Between whole sequences and the rows that `peer` holds of them. */
static void sort_rows(const exchange *e, char *whole, int64_t cols, int64_t peer, char *message,
                      bool out) {
    const tpp__work *work = e->work;
    int32_t size = e->layer->context_size;
    int64_t bytes = cols * e->layer->width;
    for (int64_t row = 0; row < work->tokens; row++, message += bytes) {
        int64_t sequence = row / work->seq;
        int64_t place = tpp_context_index(size, (int32_t)peer, work->seq, row % work->seq);
        char *at = whole + (sequence * work->seq * size + place) * bytes;
        memcpy(out ? message : at, out ? at : message, (size_t)bytes);
    }
}

/* recv[p] = what rank p has for this one in its send. */
static tpp_status all_to_all(const exchange *e, int64_t cols) {
    const tpp_layer *layer = e->layer;
    int32_t size = layer->context_size, rank = layer->context_rank;
    int64_t count = e->work->tokens * cols, bytes = count * layer->width;
    tpp_status status = TPP_OK;
    memcpy(e->recv + rank * bytes, e->send + rank * bytes, (size_t)bytes);
    for (int32_t k = 1; k < size && status == TPP_OK; k++) {
        int32_t to = (rank + k) % size, from = (rank + size - k) % size;
        tpp_request in = {0}, out = {0};
        status = tpp_comm_recv_start(layer->context, e->recv + from * bytes, count, layer->dtype,
                                     from, TAG, &in);
        if (status == TPP_OK)
            status = tpp_comm_send_start(layer->context, e->send + to * bytes, count, layer->dtype,
                                         to, TAG, &out);
        status = tpp__wait_for(&out, tpp__wait_for(&in, status));
    }
    return status;
}

static tpp_status bring_in(const exchange *e, const lane *lanes, int32_t count, int64_t cols) {
    int64_t bytes = e->work->tokens * cols * e->layer->width;
    for (int64_t peer = 0; peer < e->layer->context_size; peer++)
        deal(e, lanes, count, peer, e->send + peer * bytes, false);
    tpp_status status = all_to_all(e, cols);
    for (int64_t peer = 0; peer < e->layer->context_size && status == TPP_OK; peer++)
        sort_rows(e, e->in, cols, peer, e->recv + peer * bytes, false);
    return status;
}

static tpp_status send_home(const exchange *e, const lane *lanes, int32_t count, int64_t cols) {
    int64_t bytes = e->work->tokens * cols * e->layer->width;
    for (int64_t peer = 0; peer < e->layer->context_size; peer++)
        sort_rows(e, e->out, cols, peer, e->send + peer * bytes, true);
    tpp_status status = all_to_all(e, cols);
    for (int64_t peer = 0; peer < e->layer->context_size && status == TPP_OK; peer++)
        deal(e, lanes, count, peer, e->recv + peer * bytes, true);
    return status;
}

/* Head `n` of the share in a whole sequence whose rows have `cols` columns: Q, K, V, side by side. */
static tpp__attention head_of(const exchange *e, const tpp__attention_saved *saved,
                              int64_t sequence, int64_t n, int64_t cols) {
    const tpp__attention_layer *self = attention_of(e->layer);
    int64_t width = e->layer->width, d = self->head_cols, group = e->heads / e->kv_heads;
    int64_t seq = e->work->seq * e->layer->context_size;
    char *row = e->in + sequence * seq * cols * width;
    return (tpp__attention){
        .gemm = &e->layer->gemm,
        .dtype = e->layer->dtype,
        .seq = seq,
        .keys = seq,
        .window = self->window,
        .full = self->full,
        .width = d,
        .scale = 1 / sqrt((double)d),
        .q = row + n * d * width,
        .k = row + (e->heads + n / group) * d * width,
        .v = row + (e->heads + e->kv_heads + n / group) * d * width,
        .ldq = cols,
        .ldk = cols,
        .ldv = cols,
        .lse = saved->lse + (n * e->work->batch + sequence) * seq * e->layer->wide_width,
        .scratch = e->core,
    };
}

tpp_status tpp__attention_exchange_forward(const tpp_layer *layer, const tpp__work *work,
                                           const tpp__attention_saved *saved) {
    tpp__arena arena = work->scratch;
    exchange e = take(layer, work->tokens, work->seq, false, &arena);
    e.work = work;
    int64_t cols = cols_of(&e, 1, 2), out = cols_of(&e, 1, 0);
    int64_t seq = work->seq * layer->context_size, d = attention_of(layer)->head_cols;
    const lane qkv[] = {{&saved->qkv, TPP__Q, NULL, NULL},
                        {&saved->qkv, TPP__K, NULL, NULL},
                        {&saved->qkv, TPP__V, NULL, NULL}};
    const lane heads = {.home = saved->heads};
    tpp_status status = bring_in(&e, qkv, 3, cols);
    for (int64_t i = 0; i < work->batch * e.heads && status == TPP_OK; i++) {
        int64_t sequence = i / e.heads, n = i % e.heads;
        tpp__attention head = head_of(&e, saved, sequence, n, cols);
        head.o = e.out + (sequence * seq * out + n * d) * layer->width;
        head.ldo = out;
        status = tpp__kern_attention_forward(&head);
    }
    return status == TPP_OK ? send_home(&e, &heads, 1, out) : status;
}

/* One head's gradients into whole sequences. */
static tpp_status head_backward(const exchange *e, const tpp__attention_saved *saved,
                                int64_t sequence, int64_t n) {
    int64_t cols = cols_of(e, 3, 2), out = cols_of(e, 1, 2), group = e->heads / e->kv_heads;
    int64_t seq = e->work->seq * e->layer->context_size, width = e->layer->width;
    tpp__attention head = head_of(e, saved, sequence, n, cols);
    int64_t d = head.width, behind = cols_of(e, 1, 2) * width; /* o, then its gradient */
    char *outputs = e->in + sequence * seq * cols * width + n * d * width + behind;
    head.o = outputs;
    head.d_o = outputs + e->heads * d * width;
    head.ldo = head.ld_do = cols;
    char *row = e->out + sequence * seq * out * width;
    head.dq = row + n * d * width;
    head.dk = row + (e->heads + n / group) * d * width;
    head.dv = row + (e->heads + e->kv_heads + n / group) * d * width;
    head.lddq = head.lddk = head.lddv = out;
    head.add_kv = n % group != 0;
    return tpp__kern_attention_backward(&head);
}

tpp_status tpp__attention_exchange_backward(const tpp_layer *layer, const tpp__work *work,
                                            const tpp__attention_saved *saved,
                                            const char *grad_heads, const tpp__projected *grads,
                                            tpp__arena arena) {
    exchange e = take(layer, work->tokens, work->seq, true, &arena);
    e.work = work;
    const lane in[LANES] = {{&saved->qkv, TPP__Q, NULL, NULL},
                            {&saved->qkv, TPP__K, NULL, NULL},
                            {&saved->qkv, TPP__V, NULL, NULL},
                            {.heads = saved->heads},
                            {.heads = grad_heads}};
    const lane out[] = {
        {grads, TPP__Q, NULL, NULL}, {grads, TPP__K, NULL, NULL}, {grads, TPP__V, NULL, NULL}};
    tpp_status status = bring_in(&e, in, LANES, cols_of(&e, 3, 2));
    for (int64_t i = 0; i < work->batch * e.heads && status == TPP_OK; i++)
        status = head_backward(&e, saved, i / e.heads, i % e.heads);
    return status == TPP_OK ? send_home(&e, out, 3, cols_of(&e, 1, 2)) : status;
}
