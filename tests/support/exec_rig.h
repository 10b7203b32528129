/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_EXEC_RIG_H
#define TPP_SUPPORT_EXEC_RIG_H

#include <stdatomic.h>
#include <tpp/exec.h>

/* A whole run with "layers" that compute integers, modulo 2^64, whose right values are known:
 *
 *   F: y = x * prime(stage) + micro + 1000 * lane        (x of stage 0: exec_seed)
 *   B: dx = dy * prime(stage) + x, dw += dy * x          (dy of the last stage: y + 7)
 *
 * where `stage` is that of the model: with two directions each has its micro-batches, and the sums of
 * mirrored stages belong together.
 *
 * The layers keep a stash per slot and complain, as a failing callback, when they are called
 * with a wrong slot, in a wrong order, with a pointer that should be NULL, or when `in` or
 * `grad_out` changed while they had to stay. With lanes, every callback also meets the rank's
 * other lanes in an all-reduce. */

enum { EXEC_MOST_ROWS = 32, EXEC_MOST_COUNT = 8 };

typedef int32_t exec_kind;
enum {
    EXEC_SERIAL = 1,
    EXEC_THREADS = 2,
    EXEC_DISTRIBUTED = 3 /* one for each rank, as exec_ranks.h plays them */
};

typedef struct exec_stash exec_stash;

/* One row: a lane of a rank. */
typedef struct exec_layer {
    struct exec_rig *rig;
    int32_t rank, lane;
    exec_stash *stash; /* [slots] */
    uint64_t *dw;      /* [stages]: sums */
    uint64_t *chain;   /* [stages]: depends on the order of the backwards, too */
    uint64_t *loss;    /* [micros]: what came out of the last stage, element 0 */
    int32_t calls;     /* of F, B, I and W in this run */
    int32_t pairs;     /* calls that were F and B in one */
    int32_t fail_at;   /* the call that fails; -1: none */
    tpp_status fail_with;
    const char *fail_text; /* NULL: says nothing */
    int32_t entered, left;
    tpp_comm *group; /* of the rank's lanes; NULL with one lane */
} exec_layer;

typedef struct exec_rig {
    const tpp_schedule *schedule;
    tpp_schedule_info info;
    int32_t lanes, rows;
    int64_t count; /* message elements */
    exec_kind kind;
    tpp_comm *inner[EXEC_MOST_ROWS]; /* local comms */
    tpp_comm *comms[EXEC_MOST_ROWS]; /* what the run uses: these, or wrapped around them */
    tpp_run_rank ranks[EXEC_MOST_ROWS];
    exec_layer layers[EXEC_MOST_ROWS];
    tpp_executor *executor;
    tpp_run run;
    tpp_run_report report;
    double work[EXEC_MOST_ROWS], first[EXEC_MOST_ROWS], last[EXEC_MOST_ROWS];
    int32_t peak[EXEC_MOST_ROWS];
    atomic_int aborts; /* of the layers */
    void (*hook)(struct exec_rig *rig,
                 exec_layer *layer); /* called in each callback; NULL: nothing */
} exec_rig;

/* How the pipeline's comms are wrapped; inner stays the rig's. */
typedef tpp_comm *(*exec_wrap)(tpp_comm *inner);

/* A rig with all its memory filled with 0xff; the schedule stays the caller's. */
void exec_rig_open(exec_rig *rig, const tpp_schedule *schedule, int32_t lanes, exec_kind kind,
                   exec_wrap wrap);

/* Run a step (run.step counts up). */
tpp_status exec_rig_step(exec_rig *rig);

/* Fails the test unless the results of the last step are what a direct computation gives, the
 * stash is empty, enter and leave are paired and peaks are the schedule's. */
void exec_rig_check(const exec_rig *rig, uint64_t step);

void exec_rig_close(exec_rig *rig);

/* Fail the test with the library's message. */
void exec_expect_ok(tpp_status status);

/* The callbacks (exec_layer.c). */
extern const tpp_stage_ops exec_layer_ops;
extern const tpp_stage_ops exec_layer_pair_ops; /* overlapped pairs in one call */
void exec_layer_open(exec_layer *layer, struct exec_rig *rig, int32_t row);
void exec_layer_reset(exec_layer *layer);
void exec_layer_close(exec_layer *layer);
int exec_layer_idle(const exec_layer *layer); /* no slot is in use */
uint64_t exec_seed(int32_t lane, int32_t micro, uint64_t step, int64_t k);
uint64_t exec_forward(int32_t stage, int32_t lane, int32_t micro, uint64_t x);
uint64_t exec_backward(int32_t stage, uint64_t x, uint64_t dy);

#endif
