/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "reserve.h"
#include "say.h"
#include "server_rank.h"

/* `groups` groups of `size` ranks. A group of one needs no comm. */
static tpp_status make_groups(tpp_comm **out, int32_t groups, int32_t size) {
    tpp_comm_local_desc d = {0};
    d.size = sizeof d;
    d.timeout = -1; /* a reader of the text may pause it for as long as he likes */
    tpp_status status = TPP_OK;
    for (int32_t g = 0; g < groups && size > 1 && status == TPP_OK; g++) {
        status = tpp_comm_local_create(out + (int64_t)g * size, size, &d);
    }
    return status;
}

static void *run(void *arg) {
    server_rank_run(arg);
    return NULL;
}

/* The failure that the others followed. */
static int tell(const struct server *server, const struct server_rank *ranks, int32_t count) {
    const struct server_rank *first = NULL;
    for (int32_t i = 0; i < count; i++) {
        const struct server_rank *r = &ranks[i];
        if (r->status != TPP_OK && (!first || first->status == TPP_ERR_ABORTED)) {
            first = r;
        }
    }
    if (!first) {
        return 0;
    }
    if (first->phase == PHASE_MAKE) {
        return usage_error("the model does not fit these options: %s", first->message);
    }
    if (first->phase == PHASE_LOAD) {
        return data_error("--load %s: %s", server->config->load, first->message);
    }
    return data_error("could not write the text: %s", first->message);
}

/* All ranks at once; the calling thread waits. */
static int run_all(struct server_rank *ranks, int32_t count) {
    pthread_t *threads = reserve(count, sizeof *threads);
    int32_t started = 0;
    int failed = 0;
    while (started < count && !failed) {
        failed = pthread_create(&threads[started], NULL, run, &ranks[started]);
        started += !failed;
    }
    for (int32_t i = 0; i < count && failed; i++) {
        tpp_comm_abort(ranks[i].tensor);
        tpp_comm_abort(ranks[i].pipeline);
    }
    for (int32_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    free(threads);
    return failed ? data_error("could not start %d threads: %s", (int)count, strerror(failed)) : 0;
}

int server_run(const struct server *server) {
    int32_t tp = server->config->tp;
    int32_t pp = server->config->pp;
    int32_t count = tp * pp;
    tpp_comm **tensor = reserve(count, sizeof(tpp_comm *));   /* [pp][tp] */
    tpp_comm **pipeline = reserve(count, sizeof(tpp_comm *)); /* [tp][pp] */
    struct server_rank *ranks = reserve(count, sizeof *ranks);
    int code = 0;
    if (make_groups(tensor, pp, tp) != TPP_OK || make_groups(pipeline, tp, pp) != TPP_OK) {
        code = library_error("make the groups of ranks");
    }
    for (int32_t i = 0; i < count; i++) {
        ranks[i].server = server;
        ranks[i].stage = i / tp;
        ranks[i].lane = i % tp;
        ranks[i].tensor = tensor[i];
        ranks[i].pipeline = pipeline[i % tp * pp + i / tp];
    }
    if (count > 1) {
        tpp_blas_single_begin(); /* the ranks share this process's BLAS */
    }
    code = code ? code : run_all(ranks, count);
    code = code ? code : tell(server, ranks, count);
    if (count > 1) {
        tpp_blas_single_end();
    }
    for (int32_t i = 0; i < count; i++) {
        server_rank_free(&ranks[i]);
    }
    for (int32_t i = 0; i < count; i++) {
        tpp_comm_destroy(tensor[i]);
        tpp_comm_destroy(pipeline[i]);
    }
    free(tensor);
    free(pipeline);
    free(ranks);
    return code;
}
