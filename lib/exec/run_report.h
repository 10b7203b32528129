/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_EXEC_RUN_REPORT_H
#define TPP_EXEC_RUN_REPORT_H

#include "base/alloc.h"

#include <tpp/exec.h>

/* What a row (a rank, or a lane of it) did so far. A cache line each: rows are filled by
 * different threads. */
typedef struct tpp__run_row {
    _Alignas(TPP__ALIGN) double first; /* start of its first action; > last: none yet */
    double last;                       /* end of its last action */
    double work;                       /* sum of its actions */
    double held;                       /* bytes; the simulator's */
    double held_peak;                  /* most of them at once */
    int32_t used;                      /* stash slots in use */
    int32_t peak;                      /* most of them at once */
    int32_t used_input;                /* slots whose I or B is to come */
    int32_t peak_input;                /* most of them at once */
    bool forward_only;                 /* a slot is free again after F, see _passed */
} tpp__run_row;

void tpp__run_row_clear(tpp__run_row *row, bool forward_only);

/* Count a compute action. */
static inline void tpp__run_row_add(tpp__run_row *row, const tpp_action *action, double start,
                                    double end) {
    if (row->first > start)
        row->first = start;
    row->last = end;
    row->work += end - start;
    if (action->op == TPP_OP_F) {
        row->peak = ++row->used > row->peak ? row->used : row->peak;
        row->peak_input = ++row->used_input > row->peak_input ? row->used_input : row->peak_input;
    }
    bool ends = action->op == TPP_OP_B || row->forward_only;
    row->used -= ends || action->op == TPP_OP_W;
    row->used_input -= ends || action->op == TPP_OP_I;
}

/* After an F of a schedule without backwards: a next stage on the same rank still reads its slot, and
 * the slot of a stage before on the same rank is free now. */
void tpp__run_row_passed(tpp__run_row *row, const tpp_schedule *schedule, int32_t depth,
                         const tpp_action *action);

/* Put an action into a trace, if there is one. Fused is what has the flag, F or B. */
void tpp__run_note(const tpp_run *run, int32_t row, int32_t depth, const tpp_action *action,
                   double start, double end);

/* Times and peaks of all rows into the report; moments count from `origin`. */
void tpp__run_report_fill(tpp_run_report *report, const tpp__run_row *rows, int32_t count,
                          double origin);

#endif
