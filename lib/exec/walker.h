/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_EXEC_WALKER_H
#define TPP_EXEC_WALKER_H

#include "base/check.h"
#include "base/thread.h"
#include "exec/run_check.h"
#include "exec/run_report.h"

#include <assert.h>

/* A walk is one run of one schedule; a walker is one lane of one rank in it, and the only code
 * that interprets actions. The executors differ in who calls the walkers:
 *
 *   threads  a thread per walker: a walker waits where its next action has to wait.
 *   serial   a thread per lane plays the walkers of all ranks. A walker whose next action needs
 *            what another one has yet to do returns TPP_PENDING; whether it does depends on the
 *            schedule alone, never on how fast messages travel. So the threads of all lanes take
 *            the actions in the same order, and collectives inside the callbacks always meet.
 *
 *   distributed  as threads, with the walkers of one rank alone.
 *
 * Worker w of n calls the walkers w, w + n, w + 2n, ... Walker (r - part.first) * lanes + l is lane l
 * of rank r. */

enum { TPP__WALK_F = 0, TPP__WALK_B = 1 }; /* direction of a message */

typedef struct tpp__walk tpp__walk;

/* The buffers of a stash slot. A message leaves from `out` or `grad_in`; its request is kept
 * until the buffer is written again. */
typedef struct tpp__walk_slot {
    void *in;
    void *out;
    void *grad_out;
    void *grad_in;
    tpp_request request[2];
    const tpp_action *sent[2]; /* the sends that request[] belongs to */
} tpp__walk_slot;

/* What a walker did with a (chunk, micro-batch). */
typedef struct tpp__walk_cell {
    int32_t slot;
    bool sent[2]; /* its result was posted */
    bool got[2];  /* its message has arrived */
} tpp__walk_cell;

typedef struct tpp__walker {
    _Alignas(TPP__ALIGN) tpp__walk *walk;
    tpp_comm *comm;
    tpp_stage_ops ops;
    void *ctx;
    int32_t rank;
    int32_t lane;
    const tpp_action *actions;
    int64_t count;
    int64_t next;  /* action to do now */
    double since;  /* when it began to wait; 0: it did not */
    int32_t slots; /* entries of slot */
    tpp__walk_slot *slot;
    tpp__walk_cell *cells; /* [chunks * micros] */
    tpp__run_row *row;
} tpp__walker;

typedef struct tpp__walk_failure {
    tpp__lock lock;
    atomic_bool happened;
    tpp_status status;
    int32_t rank;
    int32_t lane;
    tpp_action action;
    tpp_action second; /* of an overlapped pair that failed as one: its B; else op is 0 */
    char message[TPP__MESSAGE];
} tpp__walk_failure;

struct tpp__walk {
    tpp_run run; /* lanes >= 1 */
    tpp_schedule_info info;
    tpp__run_part part; /* ranks that are walked here */
    double origin;      /* moment that the trace counts from */
    int32_t workers;    /* threads that call walkers */
    int32_t rows;       /* walkers: part.count * lanes */
    int32_t *chunk_of;  /* [stages] */
    tpp__run_row *row;
    tpp__walker *walker;
    tpp__walk_failure failure;
};

/* True when a worker has several walkers. */
static inline bool tpp__walk_plays_many(const tpp__walk *walk) {
    return walk->workers < walk->rows;
}

/* Check the run and cut its memory. `run` and `info` as tpp__run_read gave them. */
tpp_status tpp__walk_begin(tpp__walk *walk, const tpp_run *run, const tpp_schedule_info *info,
                           tpp__run_part part);

/* Bytes of run.memory that tpp__walk_begin needs. */
tpp_status tpp__walk_bytes(const tpp_run *run, const tpp_schedule_info *info, tpp__run_part part,
                           int64_t *bytes);

/* Fill the report; the walk's failure with its message, or TPP_OK. All walkers have left. */
tpp_status tpp__walk_end(tpp__walk *walk, tpp_run_report *report);

/* Note a failure of `walker` at `action` (a fused F: and the B behind it, unless flags are cleared),
 * whose sentence is this thread's message; the first one
 * stops the walk. Returns status. */
tpp_status tpp__walk_fail(tpp__walk *walk, const tpp__walker *walker, const tpp_action *action,
                          tpp_status status);

bool tpp__walk_failed(tpp__walk *walk);

/* Before the first action of a walker, on the thread that will call it. */
void tpp__walker_enter(tpp__walker *w);

/* Do actions until the end (TPP_OK), a failure (which is noted), or, when one worker has several
 * walkers, until another one must go first (TPP_PENDING). */
tpp_status tpp__walker_advance(tpp__walker *w);

/* Wait for the walker's own sends, also after a failure, and leave. All walkers of its worker
 * are at their end, or the walk has failed. */
void tpp__walker_leave(tpp__walker *w);

/* --- Between the parts of a walker --- */

static inline tpp__walk_cell *tpp__walker_cell(const tpp__walker *w, int32_t chunk, int32_t micro) {
    return &w->cells[(int64_t)chunk * w->walk->info.micros + micro];
}

static inline tpp__walk_slot *tpp__walker_slot(const tpp__walker *w, const tpp_action *a) {
    assert(w->slot && a->slot >= 0 && a->slot < w->slots);
    return &w->slot[a->slot];
}

/* Actions of the atom that begins at `a`: of an overlapped pair 2. */
static inline int tpp__walker_atom(const tpp_action *a) {
    return a->flags & TPP_ACTION_FUSED ? 2 : 1;
}

/* Put an action into the trace; times as tpp__now tells them. */
void tpp__walker_note(tpp__walker *w, const tpp_action *a, double start, double end);

/* Make sure that the message which left from a buffer of `slot` is gone; TPP_PENDING: another walker
 * of the worker must receive it first. */
tpp_status tpp__walker_vacate(tpp__walker *w, tpp__walk_slot *slot, int dir);

/* Do the atom that begins at compute action `a` (walker_compute.c). */
tpp_status tpp__walker_compute(tpp__walker *w, const tpp_action *a);

/* Block until the request is over. Meanwhile the sends of the worker's walkers move on: a
 * transport may need to be asked for that (walker_wait.c). */
tpp_status tpp__walker_wait(tpp__walker *w, tpp_request *request);

#endif
