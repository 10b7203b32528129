/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "exec/crew.h"

static void play(void *arg, int32_t row) {
    tpp__walk *walk = arg;
    tpp__walker *w = &walk->walker[row];
    tpp_message_set("");
    tpp__walker_enter(w);
    tpp__walker_advance(w);
    tpp__walker_leave(w);
}

tpp_status tpp_executor_threads_create(tpp_executor **out, int32_t ranks, int32_t lanes,
                                       const tpp_allocator *allocator) {
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to an executor");
    *out = NULL;
    if (ranks < 1 || lanes < 1)
        return tpp__fail(TPP_ERR_INVALID, "%s = %d; it must be at least 1",
                         ranks < 1 ? "ranks" : "lanes", ranks < 1 ? ranks : lanes);
    if (ranks > INT32_MAX / lanes)
        return tpp__fail(TPP_ERR_OVERFLOW, "ranks = %d times lanes = %d do not fit into 32 bits",
                         ranks, lanes);
    const tpp__crew_desc desc = {
        .ranks = ranks, .lanes = lanes, .workers = ranks * lanes, .play = play};
    return tpp__crew_create(out, &desc, allocator);
}
