/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "exec/crew.h"

/* One pipeline rank of a run whose other ranks are elsewhere: its walkers meet theirs in messages
 * alone, and a failure reaches them by an aborted comm. */

tpp_status tpp_executor_distributed_create(tpp_executor **out, int32_t rank, int32_t lanes,
                                           const tpp_allocator *allocator) {
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to an executor");
    *out = NULL;
    if (rank < 0)
        return tpp__fail(TPP_ERR_INVALID, "rank = %d; it must be at least 0", rank);
    if (lanes < 1)
        return tpp__fail(TPP_ERR_INVALID, "lanes = %d; it must be at least 1", lanes);
    const tpp__crew_desc desc = {
        .lanes = lanes, .own = rank, .workers = lanes, .play = tpp__crew_play_one};
    return tpp__crew_create(out, &desc, allocator);
}
