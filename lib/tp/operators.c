/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/operators.h"

#include <stdio.h>

tpp_status tpp__f_backward_start(const tpp_layer *layer, void *grad, int64_t count,
                                 tpp_request *request) {
    request->comm = NULL;
    if (!layer->comm)
        return TPP_OK;
    return tpp_comm_all_reduce_start(layer->comm, grad, grad, count, layer->dtype, TPP_SUM_TREE,
                                     request);
}

tpp_status tpp__f_backward_finish(tpp_request *request, tpp_status status) {
    char first[TPP__MESSAGE];
    if (status == TPP_OK)
        return tpp_comm_wait(request);
    snprintf(first, sizeof first, "%s", tpp_message());
    tpp_comm_wait(request);
    tpp_message_set(first); /* not that of the wait */
    return status;
}

tpp_status tpp__g_forward(const tpp_layer *layer, void *out, int64_t count) {
    if (!layer->comm)
        return TPP_OK;
    return tpp_comm_all_reduce(layer->comm, out, out, count, layer->dtype, TPP_SUM_TREE);
}
