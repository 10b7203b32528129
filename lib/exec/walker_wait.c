/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm_impl.h"
#include "exec/walker.h"

#include <sched.h>
#include <time.h>

/* Ask once after every send under way of one walker. */
static void push(tpp__walker *w) {
    for (int32_t s = 0; s < w->slots; s++) {
        for (int dir = 0; dir < 2; dir++) {
            tpp_status status = tpp_comm_test(&w->slot[s].request[dir]);
            if (status < 0)
                tpp__walk_fail(w->walk, w, w->slot[s].sent[dir], status);
        }
    }
}

/* The same for all walkers of the worker that plays `w`. */
static void push_all(const tpp__walker *w) {
    tpp__walk *walk = w->walk;
    int32_t row = (int32_t)(w - walk->walker) % walk->workers;
    for (; row < walk->rows; row += walk->workers)
        push(&walk->walker[row]);
}

/* Give the core away, then sleep for longer and longer. */
static void pause_for(int32_t round) {
    if (round < 100)
        return;
    if (round < 200) {
        sched_yield();
        return;
    }
    int32_t doubled = round - 200 < 8 ? round - 200 : 8;
    struct timespec pause = {0, 1000L << doubled};
    nanosleep(&pause, NULL);
}

static tpp_status poll(tpp__walker *w, tpp_request *request) {
    double deadline = tpp__comm_deadline(w->comm);
    for (int32_t round = 0;; round += round < 1000) {
        tpp_status status = tpp_comm_test(request);
        if (status != TPP_PENDING)
            return status;
        if (deadline > 0 && tpp__now() > deadline) {
            status = tpp__comm_wait(w->comm, request, deadline); /* which says that it is late */
            request->comm = NULL;
            return status;
        }
        push_all(w);
        pause_for(round);
    }
}

tpp_status tpp__walker_wait(tpp__walker *w, tpp_request *request) {
    bool sleeps = w->comm->ops.wait && !tpp__walk_plays_many(w->walk);
    return sleeps ? tpp_comm_wait(request) : poll(w, request);
}
