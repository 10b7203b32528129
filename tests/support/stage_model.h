/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_STAGE_MODEL_H
#define TPP_SUPPORT_STAGE_MODEL_H

/* A small GPT trained for one step under a layout: its pieces dealt out to virtual stages, run by an executor. The
 * result is in full tensors, in the order of the model, whatever the layout was. */

#include <tpp/tpp.h>

typedef struct stage_layout {
    int32_t tp, pp, chunks, micros;
    tpp_schedule_kind kind;
    const char *text; /* a schedule in text form instead of kind */
    int32_t threads;  /* 1: threads executor, 0: serial, 2: a distributed one for each rank */
    int32_t blocks;
    tpp_dtype dtype;
    int32_t steps; /* runs without zeroing gradients; 0: 1 */
    int32_t tied; /* 1: the head is fused with the loss and holds a copy of the embedding's table */
    uint64_t dropout_seed;
    int32_t sequence;              /* 1: sequence parallelism */
    int32_t custom;                /* 1: a custom layer behind each block */
    int32_t recompute;             /* 1: blocks recompute nothing, attention, everything, in turn */
    const int32_t *lengths, *past; /* [STAGE_SEQUENCES]; NULL: STAGE_SEQ each; 0 */
    int32_t late;                  /* 1: gradients of both halves of the micro-batches apart */
    uint32_t flags;                /* of the schedule's description */
} stage_layout;

enum {
    STAGE_SEQUENCES = 8, /* of a step, over all micro-batches */
    STAGE_SEQ = 6,
    STAGE_VOCAB = 11,
    STAGE_HIDDEN = 16,
    STAGE_PIECES = 7, /* embedding, 4 blocks, norm, head and loss */
    STAGE_PARAMS = 2 + 4 * 12 + 2 + 1,
    STAGE_ROOM = 20000
};

typedef struct stage_result {
    double losses[STAGE_SEQUENCES]; /* sum of the token losses of each micro-batch */
    double grads[STAGE_ROOM];       /* all gradients, full tensors in the order of the model */
    double params[STAGE_ROOM];      /* the parameters likewise */
    int64_t count;
    int32_t peaks[32];
} stage_result;

/* ids and targets: [STAGE_SEQUENCES * STAGE_SEQ]. Fails the test when something fails. */
void stage_train(const stage_layout *layout, const int32_t *ids, const int32_t *targets,
                 stage_result *result);

#endif
