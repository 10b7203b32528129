/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/tp_ranks.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS_MOST = 32, MESSAGE = 512, SECONDS_MOST = 120 };

typedef struct rank_thread {
    pthread_t thread;
    tpp_comm *comm;
    int32_t rank;
    tp_rank_fn fn;
    void *arg;
    tpp_status status;
    char message[MESSAGE];
} rank_thread;

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

tpp_status tp_fault(const char *file, int line, const char *text) {
    char message[MESSAGE];
    snprintf(message, sizeof message, "%s:%d: not so: %s", base_name(file), line, text);
    tpp_message_set(message);
    return TPP_ERR_USER;
}

tpp_status tp_failed(const char *file, int line, const char *text, tpp_status status) {
    char message[3 * MESSAGE];
    char inner[MESSAGE];
    snprintf(inner, sizeof inner, "%s", tpp_message());
    snprintf(message, sizeof message, "%s:%d: %s: %s: %s", base_name(file), line, text,
             tpp_status_name(status), inner);
    tpp_message_set(message);
    return status;
}

static void *run(void *arg) {
    rank_thread *r = arg;
    tpp_message_set("");
    r->status = r->fn(r->comm, r->rank, r->arg);
    snprintf(r->message, sizeof r->message, "%s", tpp_message());
    if (r->status < 0)
        tpp_comm_abort(r->comm);
    return NULL;
}

void tp_ranks_try(int32_t ranks, tp_rank_fn fn, void *arg, tpp_status *status, char *messages) {
    rank_thread threads[RANKS_MOST];
    tpp_comm *comms[RANKS_MOST];
    assert_in_range(ranks, 1, RANKS_MOST);
    assert_int_equal(tpp_comm_local_create(comms, ranks, NULL), TPP_OK);
    alarm(SECONDS_MOST);
    for (int32_t i = 0; i < ranks; i++) {
        threads[i] = (rank_thread){0};
        threads[i].comm = comms[i];
        threads[i].rank = i;
        threads[i].fn = fn;
        threads[i].arg = arg;
        assert_int_equal(pthread_create(&threads[i].thread, NULL, run, &threads[i]), 0);
    }
    for (int32_t i = 0; i < ranks; i++) {
        pthread_join(threads[i].thread, NULL);
        status[i] = threads[i].status;
        if (messages)
            memcpy(messages + (size_t)i * MESSAGE, threads[i].message, MESSAGE);
    }
    alarm(0);
    for (int32_t i = 0; i < ranks; i++)
        tpp_comm_destroy(comms[i]);
}

void tp_ranks_run(int32_t ranks, tp_rank_fn fn, void *arg) {
    tpp_status status[RANKS_MOST];
    char messages[RANKS_MOST][MESSAGE];
    int failed = 0;
    tp_ranks_try(ranks, fn, arg, status, messages[0]);
    for (int32_t i = 0; i < ranks; i++) {
        if (status[i] >= 0)
            continue;
        failed = 1;
        if (status[i] != TPP_ERR_ABORTED)
            print_error("rank %d of %d: %s\n", i, ranks, messages[i]);
    }
    if (failed)
        fail_msg("a rank failed");
}

static tpp_status refuse(void *ctx, const tpp_comm_call *call, tpp_request *request) {
    (void)ctx;
    (void)call;
    (void)request;
    return TPP_ERR_UNSUPPORTED;
}

static tpp_status never(void *ctx, tpp_request *request) {
    (void)ctx;
    (void)request;
    return TPP_ERR_UNSUPPORTED;
}

tpp_comm *tp_comm_stub(int32_t rank, int32_t size) {
    tpp_comm_ops ops = {0};
    ops.size = sizeof ops;
    ops.send = refuse;
    ops.recv = refuse;
    ops.test = never;
    tpp_comm *comm = NULL;
    assert_int_equal(tpp_comm_create(&comm, &ops, NULL, rank, size, 0, NULL), TPP_OK);
    return comm;
}
