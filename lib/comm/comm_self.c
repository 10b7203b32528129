/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <tpp/comm.h>

#include "base/check.h"

tpp_status tpp_comm_self_create(tpp_comm **out, const tpp_allocator *allocator) {
    /* A group of one thread: nothing in it ever waits, and splits and aborts come for free. */
    tpp_comm_local_desc desc = {.size = sizeof desc, .allocator = allocator};
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a handle");
    return tpp_comm_local_create(out, 1, &desc);
}
