/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/operators.h"

#include <stdio.h>
#include <string.h>

void *tpp__room_take(const tpp_layer *layer, int64_t tokens, int64_t cols, tpp__arena *arena) {
    if (!tpp__is_parted(layer))
        return NULL;
    int64_t rows = tpp__part_of(layer, tokens).room * layer->ranks;
    return tpp__arena_take(arena, rows * cols, layer->width);
}

/* Of a matrix of all ranks' rows, those that have no token. They are last. */
static void clear_rest(const tpp_layer *layer, int64_t tokens, int64_t cols, void *room) {
    int64_t rows = tpp__part_of(layer, tokens).room * layer->ranks, row = cols * layer->width;
    memset((char *)room + tokens * row, 0, (size_t)((rows - tokens) * row));
}

static char *own_part(const tpp_layer *layer, tpp__part part, int64_t cols, void *room) {
    return (char *)room + layer->rank * part.room * cols * layer->width;
}

tpp_status tpp__gather_start(const tpp_layer *layer, int64_t tokens, int64_t cols, const void *x,
                             void *room, tpp_request *request) {
    request->comm = NULL;
    if (!room)
        return TPP_OK;
    tpp__part part = tpp__part_of(layer, tokens);
    int64_t bytes = part.count * cols * layer->width;
    char *own = own_part(layer, part, cols, room);
    if (bytes > 0)
        memcpy(own, x, (size_t)bytes);
    memset(own + bytes, 0, (size_t)(part.room * cols * layer->width - bytes));
    return tpp_comm_all_gather_start(layer->comm, own, room, part.room * cols, layer->dtype,
                                     request);
}

tpp_status tpp__gather(const tpp_layer *layer, int64_t tokens, int64_t cols, const void *x,
                       void *room, const void **whole) {
    tpp_request request;
    tpp_status status = tpp__gather_start(layer, tokens, cols, x, room, &request);
    *whole = room ? room : x;
    return status == TPP_OK ? tpp_comm_wait(&request) : status;
}

tpp_status tpp__f_backward_start(const tpp_layer *layer, int64_t tokens, int64_t cols,
                                 void *partial, void *grad, tpp__sum *sum) {
    *sum = (tpp__sum){.request = {.comm = NULL}};
    if (!layer->comm)
        return TPP_OK;
    if (!layer->sequence)
        return tpp_comm_all_reduce_start(layer->comm, grad, grad, tokens * cols, layer->dtype,
                                         TPP_SUM_TREE, &sum->request);
    tpp__part part = tpp__part_of(layer, tokens);
    clear_rest(layer, tokens, cols, partial);
    sum->from = own_part(layer, part, cols, partial);
    sum->to = grad;
    sum->bytes = part.count * cols * layer->width;
    return tpp_comm_reduce_scatter_start(layer->comm, partial, own_part(layer, part, cols, partial),
                                         part.room * cols, layer->dtype, TPP_SUM_TREE,
                                         &sum->request);
}

tpp_status tpp__wait_for(tpp_request *request, tpp_status status) {
    char first[TPP__MESSAGE];
    if (status == TPP_OK)
        return tpp_comm_wait(request);
    snprintf(first, sizeof first, "%s", tpp_message());
    tpp_comm_wait(request);
    tpp_message_set(first); /* not that of the wait */
    return status;
}

tpp_status tpp__f_backward_finish(tpp__sum *sum, tpp_status status) {
    status = tpp__wait_for(&sum->request, status);
    if (status == TPP_OK && sum->bytes > 0)
        memcpy(sum->to, sum->from, (size_t)sum->bytes);
    return status;
}

tpp_status tpp__g_forward(const tpp_layer *layer, int64_t tokens, int64_t cols, void *partial,
                          void *out) {
    tpp__sum sum;
    tpp_status status = tpp__f_backward_start(layer, tokens, cols, partial, out, &sum);
    return status == TPP_OK ? tpp__f_backward_finish(&sum, status) : status;
}
