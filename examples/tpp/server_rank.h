/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_SERVER_RANK_H
#define TPP_PROGRAM_SERVER_RANK_H

#include "server.h"

enum { MESSAGE_BYTES = 512 };

/* How far a rank came, for the sentence about its failure. */
enum server_phase { PHASE_MAKE, PHASE_LOAD, PHASE_RUN };

/* One rank: lane `lane` of stage `stage`. */
struct server_rank {
    const struct server *server;
    tpp_comm *tensor, *pipeline; /* NULL: alone */
    int32_t stage, lane;
    tpp_layer *layer;
    tpp_layer_info info;
    void *params, *scratch, *cache;
    int64_t scratch_bytes, cache_bytes;
    void *in, *out; /* [batch * longest] rows */
    /* of each text: tokens known, tokens in the cache, tokens of this step */
    int32_t **ids, *counts, *past, *lengths;
    int32_t *next; /* [batch], then 1 to end here */
    double *logits, *gathered;
    struct pick_entry *room;
    enum server_phase phase;
    tpp_status status;
    char message[MESSAGE_BYTES];
};

/* The whole life of a rank; status and message tell how it ended. */
void server_rank_run(struct server_rank *rank);
void server_rank_free(struct server_rank *rank);

#endif
