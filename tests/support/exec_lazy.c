/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/exec_lazy.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { MOST = 256 };

typedef struct operation {
    int used, posted, lost, bad;
    int32_t asks; /* until it begins */
    tpp_comm_call call;
    tpp_request inner;
} operation;

typedef struct lazy {
    tpp_comm *inner;
    exec_lazy_desc desc;
    uint32_t random;
    int32_t sends;
    operation operations[MOST];
} lazy;

static _Atomic int64_t made, ended;

int64_t exec_lazy_made(void) {
    return atomic_load(&made);
}

int64_t exec_lazy_ended(void) {
    return atomic_load(&ended);
}

static int32_t draw(lazy *z) {
    z->random = z->random * 1664525u + 1013904223u;
    return (int32_t)(z->random >> 8) % (z->desc.most_asked + 1);
}

static tpp_status post(lazy *z, operation *o) {
    const tpp_comm_call *c = &o->call;
    o->posted = 1;
    if (c->kind == TPP_COMM_SEND)
        return tpp_comm_send_start(z->inner, c->in, c->count, c->dtype, c->peer, c->tag, &o->inner);
    return tpp_comm_recv_start(z->inner, c->out, c->count, c->dtype, c->peer, c->tag, &o->inner);
}

static tpp_status begin(void *ctx, const tpp_comm_call *call, tpp_request *request) {
    lazy *z = ctx;
    for (int i = 0; i < MOST; i++) {
        operation *o = &z->operations[i];
        if (o->used)
            continue;
        *o = (operation){.used = 1, .asks = draw(z), .call = *call};
        o->bad = call->kind == TPP_COMM_SEND && z->sends == z->desc.fail_at;
        o->lost = call->kind == TPP_COMM_SEND && z->sends++ == z->desc.drop_at;
        request->reserved[0] = (uint64_t)i;
        atomic_fetch_add(&made, 1);
        return z->desc.most_asked > 0 || o->lost ? TPP_OK : post(z, o);
    }
    tpp_message_set("more requests under way than a test needs");
    return TPP_ERR_COMM;
}

static tpp_status test(void *ctx, tpp_request *request) {
    lazy *z = ctx;
    operation *o = &z->operations[request->reserved[0]];
    tpp_status status = TPP_OK;
    if (o->asks-- > 0)
        return TPP_PENDING;
    if (!o->lost && !o->posted)
        status = post(z, o);
    if (!o->lost && status == TPP_OK)
        status = tpp_comm_test(&o->inner);
    if (status == TPP_OK && o->bad) {
        tpp_message_set("the line was cut");
        status = TPP_ERR_COMM;
    }
    if (status != TPP_PENDING) {
        o->used = 0;
        atomic_fetch_add(&ended, 1);
    }
    return status;
}

static void stop(void *ctx) {
    tpp_comm_abort(((lazy *)ctx)->inner);
}

/* What inner still holds of a failed run lies in this memory. */
static void destroy(void *ctx) {
    lazy *z = ctx;
    for (int i = 0; i < MOST; i++) {
        operation *o = &z->operations[i];
        if (!o->used || !o->inner.comm)
            continue;
        tpp_comm_abort(z->inner);
        tpp_comm_wait(&o->inner);
    }
    free(z);
}

tpp_comm *exec_lazy_create(tpp_comm *inner, const exec_lazy_desc *desc) {
    lazy *z = calloc(1, sizeof *z);
    tpp_comm_ops ops = {.size = sizeof ops,
                        .send = begin,
                        .recv = begin,
                        .test = test,
                        .abort = desc->cannot_abort ? NULL : stop,
                        .destroy = destroy};
    tpp_comm *out = NULL;
    z->inner = inner;
    z->desc = *desc;
    z->random = 12345u + 77u * (uint32_t)tpp_comm_rank(inner);
    tpp_comm_create(&out, &ops, z, tpp_comm_rank(inner), tpp_comm_size(inner), desc->timeout, NULL);
    return out;
}
