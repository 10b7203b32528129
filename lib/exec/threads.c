/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "exec/crew.h"

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
    const tpp__crew_desc desc = {.ranks = ranks,
                                 .lanes = lanes,
                                 .own = TPP__CREW_ALL,
                                 .workers = ranks * lanes,
                                 .play = tpp__crew_play_one};
    return tpp__crew_create(out, &desc, allocator);
}
