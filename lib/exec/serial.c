/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "exec/crew.h"

/* One pass over the walkers of a lane, in rank order. TPP_OK: all are at their end. */
static tpp_status pass(tpp__walk *walk, int32_t lane, bool *moved) {
    tpp_status all = TPP_OK;
    for (int32_t row = lane; row < walk->rows; row += walk->workers) {
        tpp__walker *w = &walk->walker[row];
        int64_t before = w->next;
        tpp_status status = tpp__walker_advance(w);
        *moved = *moved || w->next != before;
        if (status < 0)
            return status;
        if (status == TPP_PENDING)
            all = TPP_PENDING;
    }
    return all;
}

static void stuck(tpp__walk *walk, int32_t lane) {
    const tpp__walker *w = &walk->walker[lane];
    while (w->next == w->count)
        w += walk->workers;
    tpp__walk_fail(walk, w, &w->actions[w->next],
                   tpp__fail(TPP_ERR_DEADLOCK, "no rank of the lane can go on"));
}

static void play(void *arg, int32_t lane) {
    tpp__walk *walk = arg;
    bool moved = true;
    tpp_status status = TPP_PENDING;
    tpp_message_set("");
    for (int32_t row = lane; row < walk->rows; row += walk->workers)
        tpp__walker_enter(&walk->walker[row]);
    while (status == TPP_PENDING && moved) {
        moved = false;
        status = pass(walk, lane, &moved);
    }
    if (status == TPP_PENDING)
        stuck(walk, lane);
    for (int32_t row = lane; row < walk->rows; row += walk->workers)
        tpp__walker_leave(&walk->walker[row]);
}

tpp_status tpp_executor_serial_create(tpp_executor **out, int32_t lanes,
                                      const tpp_allocator *allocator) {
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to an executor");
    *out = NULL;
    if (lanes < 1)
        return tpp__fail(TPP_ERR_INVALID, "lanes = %d; it must be at least 1", lanes);
    const tpp__crew_desc desc = {
        .lanes = lanes, .own = TPP__CREW_ALL, .workers = lanes, .play = play};
    return tpp__crew_create(out, &desc, allocator);
}
