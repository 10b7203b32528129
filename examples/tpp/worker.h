/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_WORKER_H
#define TPP_PROGRAM_WORKER_H

#include <tpp/tpp.h>

#include "train_config.h"

/* All-reduces, and with --sequence-parallel gathers and scatters, that a worker's chunk has started in one direction, over all micro-batches so far. */
struct traffic {
    int64_t runs; /* micro-batches that passed */
    int64_t calls, elements, bytes;
};

/* One virtual stage of a worker. */
struct piece {
    tpp_layer *layer;
    void *params, *grads, *moments;
    void *late; /* gradients of the second half of the micro-batches until the step ends; or NULL */
    int64_t grad_bytes;
    int64_t undo_bytes;   /* to take a step back */
    int32_t stage;        /* virtual */
    int32_t first, count; /* its parameters' numbers in the whole model */
    double *squares;      /* [count * blocks]: of the gradients */
    void *copies;         /* memory to sum copied K/V heads in */
    int64_t copies_bytes;
    void *tied; /* memory to sum two copies of a tied table in */
    int64_t tied_bytes;
    struct traffic forward, backward;
};

/* One rank: lane `lane` of pipeline rank `rank`, with everything that it holds. */
struct worker {
    tpp_comm *tensor; /* counts what passes; NULL when tp is 1 */
    struct piece *pieces;
    int32_t chunks;
    int32_t blocks;
    tpp_stage *stage;
};

/* How a worker fits into its team. */
struct worker_place {
    const struct train_config *config;
    const tpp_schedule *schedule;
    tpp_comm *tensor; /* group of the lanes of this rank; NULL: one */
    int32_t rank;
};

/* Make layers, memory and stage. What was made until a failure is freed by worker_destroy. */
tpp_status worker_create(struct worker *worker, const struct worker_place *place);

/* Fill the parameters; may run on any thread. */
tpp_status worker_init(struct worker *worker, uint64_t seed);

/* The stage callbacks, counting; their context is a struct worker. */
const tpp_stage_ops *worker_ops(void);

void worker_destroy(struct worker *worker);

#endif
