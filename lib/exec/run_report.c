/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/run_report.h"

#include <math.h>

void tpp__run_row_clear(tpp__run_row *row, bool forward_only) {
    *row = (tpp__run_row){.first = HUGE_VAL, .forward_only = forward_only};
}

void tpp__run_row_passed(tpp__run_row *row, const tpp_schedule *schedule, int32_t depth,
                         const tpp_action *action) {
    int32_t stage = action->stage, rank = tpp_schedule_rank_of(schedule, stage);
    if ((stage + 1) % depth != 0 && tpp_schedule_rank_of(schedule, stage + 1) == rank) {
        row->used++;
        row->used_input++;
    }
    if (stage % depth != 0 && tpp_schedule_rank_of(schedule, stage - 1) == rank) {
        row->used--;
        row->used_input--;
    }
}

void tpp__run_note(const tpp_run *run, int32_t row, int32_t depth, const tpp_action *action,
                   double start, double end) {
    if (!run->trace)
        return;
    tpp_event event = {.start = start,
                       .end = end,
                       .row = row,
                       .op = action->op,
                       .chunk = action->chunk,
                       .stage = action->stage,
                       .micro = action->micro,
                       .peer = action->peer,
                       .step = run->step,
                       .flags = action->flags & TPP_ACTION_FUSED ? TPP_EVENT_FUSED : 0,
                       .direction = action->stage / depth};
    tpp_trace_add(run->trace,
                  &event); /* cannot fail: the rows were checked, a full one is not an error */
}

void tpp__run_report_fill(tpp_run_report *report, const tpp__run_row *rows, int32_t count,
                          double origin) {
    double first = HUGE_VAL, last = -HUGE_VAL;
    for (int32_t r = 0; r < count; r++) {
        if (rows[r].first > rows[r].last)
            continue;
        first = fmin(first, rows[r].first);
        last = fmax(last, rows[r].last);
    }
    report->makespan = last > first ? last - first : 0;
    for (int32_t r = 0; r < count; r++) {
        bool ran = rows[r].first <= rows[r].last;
        double span = ran ? rows[r].last - rows[r].first : 0;
        report->work = fmax(report->work, rows[r].work);
        report->bubble_global = fmax(report->bubble_global, report->makespan - rows[r].work);
        report->bubble_span = fmax(report->bubble_span, span - rows[r].work);
        report->period = fmax(report->period, span);
        if (report->row_work)
            report->row_work[r] = rows[r].work;
        if (report->row_peak)
            report->row_peak[r] = rows[r].peak;
        if (report->row_peak_input)
            report->row_peak_input[r] = rows[r].peak_input;
        if (report->row_memory)
            report->row_memory[r] = rows[r].held_peak;
        if (report->row_first)
            report->row_first[r] = ran ? rows[r].first - origin : 0;
        if (report->row_last)
            report->row_last[r] = ran ? rows[r].last - origin : 0;
    }
}
