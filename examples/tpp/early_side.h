/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_EARLY_SIDE_H
#define TPP_PROGRAM_EARLY_SIDE_H

#include <stdatomic.h>

#include "team.h"

/* A step as it leaves the ranks. */
struct early_record {
    int64_t step;
    double loss, norm;
    double when; /* the clock at its end */
    int redone;
    const double *micro_losses; /* [micros] */
};

/* What all sides of a training share. */
struct early_shared {
    struct team *team;
    atomic_llong last; /* step after which the ranks end; set before its norm is passed on */
    atomic_int quit;   /* set it soon */
    double *losses[2]; /* [micros] of an even and an odd step, of which one has no verdict yet */
    void (*note)(void *ctx, const struct early_record *record); /* by one side, step after step */
    void *ctx;
};

/* One lane of a pipeline rank, on the thread that plays it. */
struct early_side {
    struct early_shared *shared;
    struct worker *worker;
    tpp_comm *pipeline;
    int sums; /* gradients over mirrors and copies by itself: it is not played with them */
    tpp_comm
        *ends;    /* the ranks that hold copies of a tied table, of this lane; NULL: one, or none */
    int ties;     /* it holds one */
    void *mirror; /* memory to sum mirrored stages in, of the largest */
    int64_t mirror_bytes;
    int32_t rank, lane;
    tpp_validation *validation;
    void **undo; /* [chunks] */
    /* The step that has no verdict yet: */
    int pending;
    int stepped; /* parameters moved in advance */
    int64_t step;
    tpp_adamw_desc adamw;
    /* The run under way: */
    int drained; /* it began with parameters that were wrong: nothing is computed any more */
    int over;    /* no step follows */
};

/* What cannot be seen from the worker; other fields are set. Frees nothing when it fails. */
tpp_status early_side_open(struct early_side *side);
void early_side_close(struct early_side *side);

/* Before a run. */
void early_side_enter(struct early_side *side);

/* After the run of `step`: pass on what there is to know of the gradients, and step if by that it is
 * right. */
tpp_status early_side_step(struct early_side *side, int64_t step, double rate);

/* Wait for the verdict on that, and make it as it has to be. Gradients are 0 then. */
tpp_status early_side_settle(struct early_side *side);

/* The worker's callbacks, of which the first backward settles the step before; their context is a
 * struct early_side. */
const tpp_stage_ops *early_side_ops(void);

#endif
