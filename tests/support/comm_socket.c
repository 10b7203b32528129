/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/comm_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = 256 };

/* What stands before a message on the line. */
typedef struct head {
    uint64_t tag;
    uint64_t bytes;
} head;

/* A send or receive under way. */
typedef struct operation {
    bool used, over;
    tpp_status result;
    tpp_comm_kind kind;
    int32_t peer;
    uint64_t order;
    head head;
    const char *from; /* of a send */
    char *to;         /* of a receive */
    uint64_t moved;   /* bytes of head and message that are on the line */
} operation;

/* A message that has arrived, in whole or in part. */
typedef struct parcel {
    struct parcel *next;
    head head;
    char bytes[];
} parcel;

typedef struct line {
    int fd;
    bool gone;
    head head;       /* of the message that is arriving */
    parcel *parcel;  /* it; NULL: its head is not complete */
    uint64_t filled; /* bytes of head, or of the message */
    parcel *first;   /* arrived before their receives */
} line;

typedef struct sockets {
    int32_t size;
    uint64_t orders;
    line lines[COMM_SOCKET_MOST];
    operation operations[MOST];
} sockets;

int comm_mesh_open(comm_mesh *mesh, int32_t size) {
    mesh->size = size;
    for (int32_t a = 0; a < size; a++) {
        mesh->fd[a][a] = -1;
        for (int32_t b = a + 1; b < size; b++) {
            int ends[2];
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
                return -1;
            mesh->fd[a][b] = ends[0];
            mesh->fd[b][a] = ends[1];
        }
    }
    return 0;
}

void comm_mesh_keep(comm_mesh *mesh, int32_t rank) {
    for (int32_t a = 0; a < mesh->size; a++) {
        for (int32_t b = 0; b < mesh->size; b++) {
            if (a != b && a != rank)
                close(mesh->fd[a][b]);
        }
    }
}

static void finish(operation *o, tpp_status result) {
    o->over = true;
    o->result = result;
}

/* The oldest operation of a kind with a peer that is not over; with `tag`, of this tag. */
static operation *oldest(sockets *me, int32_t peer, tpp_comm_kind kind, const uint64_t *tag) {
    operation *found = NULL;
    for (int i = 0; i < MOST; i++) {
        operation *o = &me->operations[i];
        if (o->used && !o->over && o->peer == peer && o->kind == kind &&
            (!tag || o->head.tag == *tag) && (!found || o->order < found->order))
            found = o;
    }
    return found;
}

static void lose(line *l) {
    l->gone = true;
}

/* Bytes moved by a call of send or recv; 0: none now. */
static uint64_t moved(line *l, ssize_t n) {
    if (n > 0)
        return (uint64_t)n;
    if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        lose(l);
    return 0;
}

static void push(sockets *me, int32_t peer) {
    line *l = &me->lines[peer];
    operation *o;
    while (!l->gone && (o = oldest(me, peer, TPP_COMM_SEND, NULL))) {
        bool in_head = o->moved < sizeof o->head;
        const char *from =
            in_head ? (const char *)&o->head + o->moved : o->from + (o->moved - sizeof o->head);
        uint64_t left = (in_head ? sizeof o->head : sizeof o->head + o->head.bytes) - o->moved;
        uint64_t n = left ? moved(l, send(l->fd, from, left, MSG_DONTWAIT | MSG_NOSIGNAL)) : 0;
        o->moved += n;
        if (o->moved == sizeof o->head + o->head.bytes)
            finish(o, TPP_OK);
        else if (n == 0)
            return;
    }
}

static void deliver(operation *o, parcel *p) {
    if (p->head.bytes == o->head.bytes) {
        memcpy(o->to, p->bytes, p->head.bytes);
        finish(o, TPP_OK);
    } else {
        tpp_message_set("the message has another size");
        finish(o, TPP_ERR_MISMATCH);
    }
    free(p);
}

static void keep(line *l, parcel *p) {
    parcel **end = &l->first;
    while (*end)
        end = &(*end)->next;
    *end = p;
}

static void pull(sockets *me, int32_t peer) {
    line *l = &me->lines[peer];
    while (!l->gone) {
        char *to = l->parcel ? l->parcel->bytes : (char *)&l->head;
        uint64_t whole = l->parcel ? l->head.bytes : sizeof l->head;
        if (l->filled < whole) {
            uint64_t n = moved(l, recv(l->fd, to + l->filled, whole - l->filled, MSG_DONTWAIT));
            if (n == 0)
                return;
            l->filled += n;
        }
        if (l->filled < whole)
            continue;
        l->filled = 0;
        if (!l->parcel) {
            l->parcel = calloc(1, sizeof *l->parcel + l->head.bytes);
            l->parcel->head = l->head;
            continue;
        }
        operation *o = oldest(me, peer, TPP_COMM_RECV, &l->head.tag);
        if (o)
            deliver(o, l->parcel);
        else
            keep(l, l->parcel);
        l->parcel = NULL;
    }
}

/* The receive's message may have come before it. */
static void look_up(line *l, operation *o) {
    for (parcel **at = &l->first; *at; at = &(*at)->next) {
        if ((*at)->head.tag != o->head.tag)
            continue;
        parcel *p = *at;
        *at = p->next;
        deliver(o, p);
        return;
    }
}

static uint64_t width(tpp_dtype dtype) {
    return dtype == TPP_BF16 ? 2 : dtype == TPP_F32 || dtype == TPP_I32 ? 4 : 8;
}

static tpp_status start(void *ctx, const tpp_comm_call *call, tpp_request *request) {
    sockets *me = ctx;
    int at = 0;
    while (at < MOST && me->operations[at].used)
        at++;
    if (at == MOST)
        return TPP_ERR_COMM;
    operation *o = &me->operations[at];
    *o = (operation){.used = true,
                     .kind = call->kind,
                     .peer = call->peer,
                     .order = me->orders++,
                     .head = {call->tag, (uint64_t)call->count * width(call->dtype)},
                     .from = call->in,
                     .to = call->out};
    request->reserved[0] = (uint64_t)at;
    if (call->kind == TPP_COMM_RECV)
        look_up(&me->lines[call->peer], o);
    return TPP_OK;
}

static tpp_status test(void *ctx, tpp_request *request) {
    sockets *me = ctx;
    operation *o = &me->operations[request->reserved[0]];
    for (int32_t peer = 0; peer < me->size; peer++) {
        push(me, peer);
        pull(me, peer);
    }
    if (!o->over && me->lines[o->peer].gone) {
        tpp_message_set("the line to another rank is closed");
        finish(o, TPP_ERR_ABORTED);
    }
    o->used = !o->over;
    return o->over ? o->result : TPP_PENDING;
}

static void stop(void *ctx) {
    const sockets *me = ctx;
    for (int32_t peer = 0; peer < me->size; peer++) {
        if (me->lines[peer].fd >= 0)
            shutdown(me->lines[peer].fd, SHUT_RDWR);
    }
}

static void destroy(void *ctx) {
    sockets *me = ctx;
    for (int32_t peer = 0; peer < me->size; peer++) {
        line *l = &me->lines[peer];
        if (l->fd >= 0)
            close(l->fd);
        free(l->parcel);
        while (l->first) {
            parcel *p = l->first;
            l->first = p->next;
            free(p);
        }
    }
    free(me);
}

tpp_status comm_socket_create(tpp_comm **out, const comm_mesh *mesh, int32_t rank, double timeout) {
    static const tpp_comm_ops ops = {.size = sizeof ops,
                                     .send = start,
                                     .recv = start,
                                     .test = test,
                                     .abort = stop,
                                     .destroy = destroy};
    sockets *me = calloc(1, sizeof *me);
    if (!me)
        return TPP_ERR_NO_MEMORY;
    me->size = mesh->size;
    for (int32_t peer = 0; peer < mesh->size; peer++) {
        me->lines[peer].fd = mesh->fd[rank][peer];
        me->lines[peer].gone = peer == rank;
    }
    return tpp_comm_create(out, &ops, me, rank, mesh->size, timeout, NULL);
}
