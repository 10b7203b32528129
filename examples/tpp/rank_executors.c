/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "rank_executors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "reserve.h"

/* One rank. */
struct member {
    tpp_executor *executor;
    double later; /* it was made so many seconds after the first: its clock is behind by that */
    tpp_run run;
    int64_t room;      /* bytes of run.memory */
    tpp_trace *trace;  /* its rows */
    double *rows;      /* [3][lanes]: work, first, last */
    int32_t *row_peak; /* [lanes] */
    tpp_run_report report;
    tpp_status status;
    char message[512];
};

struct crew {
    int32_t ranks, lanes;
    tpp_executor *threads; /* one for each rank */
    struct member *members;
    tpp_each_fn fn; /* of an each under way */
    void *arg;
};

/* --- A run ------------------------------------------------------------------------------------ */

static tpp_status reserve_memory(struct member *m, const tpp_run *run) {
    int64_t need = 0;
    tpp_status status = tpp_executor_query(m->executor, run, &need);
    if (status == TPP_OK && need > m->room) {
        free(m->run.memory);
        m->run.memory = reserve(need, 1);
        m->room = need;
    }
    return status;
}

/* A trace with room for all that a rank can do in a step. */
static tpp_status reserve_trace(struct member *m, const tpp_run *run, int32_t rank, int32_t lanes) {
    int64_t count = 0;
    if (m->trace) {
        tpp_trace_reset(m->trace);
        return TPP_OK;
    }
    tpp_schedule_actions(run->schedule, rank, &count);
    return tpp_trace_create(&m->trace, lanes, count > 0 ? count : 1, NULL);
}

static tpp_status prepare(struct crew *crew, const tpp_run *run, int32_t rank) {
    struct member *m = &crew->members[rank];
    tpp_status status = reserve_memory(m, run);
    void *memory = m->run.memory;
    if (status == TPP_OK && run->trace) {
        status = reserve_trace(m, run, rank, crew->lanes);
    }
    m->run = *run;
    m->run.ranks = run->ranks + (int64_t)rank * crew->lanes;
    m->run.memory = memory;
    m->run.memory_bytes = m->room;
    m->run.trace = run->trace ? m->trace : NULL;
    memset(&m->report, 0, sizeof m->report);
    m->report.size = sizeof m->report;
    m->report.row_work = m->rows;
    m->report.row_first = m->rows + crew->lanes;
    m->report.row_last = m->rows + 2 * (int64_t)crew->lanes;
    m->report.row_peak = m->row_peak;
    return status;
}

static tpp_status run_one(void *arg, int32_t rank, int32_t lane) {
    struct member *m = &((struct crew *)arg)->members[rank];
    (void)lane;
    m->status = tpp_executor_run(m->executor, &m->run, &m->report);
    snprintf(m->message, sizeof m->message, "%s", m->status == TPP_OK ? "" : tpp_message());
    return TPP_OK;
}

static void add_events(const struct crew *crew, int32_t rank, tpp_trace *out) {
    const struct member *m = &crew->members[rank];
    for (int32_t lane = 0; lane < crew->lanes; lane++) {
        int64_t count = 0;
        const tpp_event *events = tpp_trace_events(m->trace, lane, &count);
        for (int64_t i = 0; i < count; i++) {
            tpp_event event = events[i];
            event.row += rank * crew->lanes;
            event.start += m->later;
            event.end += m->later;
            tpp_trace_add(out, &event);
        }
    }
}

/* First start and last end of all that ran. */
struct extent {
    double first, last;
};

static struct extent extent_of(const struct crew *crew) {
    struct extent all = {HUGE_VAL, -HUGE_VAL};
    for (int32_t rank = 0; rank < crew->ranks; rank++) {
        const struct member *m = &crew->members[rank];
        for (int32_t lane = 0; lane < crew->lanes; lane++) {
            if (m->report.row_last[lane] > 0) {
                all.first = fmin(all.first, m->report.row_first[lane] + m->later);
                all.last = fmax(all.last, m->report.row_last[lane] + m->later);
            }
        }
    }
    return all;
}

static void add_report(const struct crew *crew, int32_t rank, tpp_run_report *out) {
    const struct member *m = &crew->members[rank];
    for (int32_t lane = 0; lane < crew->lanes; lane++) {
        int32_t row = rank * crew->lanes + lane;
        out->bubble_global = fmax(out->bubble_global, out->makespan - m->report.row_work[lane]);
        if (out->row_work) {
            out->row_work[row] = m->report.row_work[lane];
        }
        if (out->row_peak) {
            out->row_peak[row] = m->row_peak[lane];
        }
    }
    out->work = fmax(out->work, m->report.work);
    out->bubble_span = fmax(out->bubble_span, m->report.bubble_span);
    out->period = fmax(out->period, m->report.period);
}

/* The failure that the others followed. */
static tpp_status tell(const struct crew *crew, tpp_run_report *report) {
    const struct member *first = NULL;
    for (int32_t rank = 0; rank < crew->ranks; rank++) {
        const struct member *m = &crew->members[rank];
        if (m->status != TPP_OK && (!first || first->status == TPP_ERR_ABORTED)) {
            first = m;
        }
    }
    if (!first) {
        return TPP_OK;
    }
    report->failed_rank = first->report.failed_rank;
    report->failed_lane = first->report.failed_lane;
    report->failed_stage = first->report.failed_stage;
    report->failed_micro = first->report.failed_micro;
    report->failed_op = first->report.failed_op;
    tpp_message_set(first->message);
    return first->status;
}

static tpp_status run(void *ctx, const tpp_run *run, tpp_run_report *report) {
    struct crew *crew = ctx;
    tpp_status status = TPP_OK;
    for (int32_t rank = 0; rank < crew->ranks && status == TPP_OK; rank++) {
        status = prepare(crew, run, rank);
    }
    if (status == TPP_OK) {
        status = tpp_executor_each(crew->threads, crew->ranks, 1, run_one, crew);
    }
    if (status != TPP_OK) {
        return status;
    }
    struct extent all = extent_of(crew);
    report->makespan = fmax(all.last - all.first, 0);
    for (int32_t rank = 0; rank < crew->ranks; rank++) {
        add_report(crew, rank, report);
        if (run->trace) {
            add_events(crew, rank, run->trace);
        }
    }
    return tell(crew, report);
}

/* --- The rest --------------------------------------------------------------------------------- */

static tpp_status each_one(void *arg, int32_t rank, int32_t lane) {
    const struct crew *crew = arg;
    (void)lane;
    return tpp_executor_each(crew->members[rank].executor, crew->ranks, crew->lanes, crew->fn,
                             crew->arg);
}

static tpp_status each(void *ctx, int32_t ranks, int32_t lanes, tpp_each_fn fn, void *arg) {
    struct crew *crew = ctx;
    (void)lanes;
    crew->fn = fn;
    crew->arg = arg;
    return tpp_executor_each(crew->threads, ranks, 1, each_one, crew);
}

static void destroy(void *ctx) {
    struct crew *crew = ctx;
    for (int32_t rank = 0; rank < crew->ranks; rank++) {
        struct member *m = &crew->members[rank];
        tpp_executor_destroy(m->executor);
        tpp_trace_destroy(m->trace);
        free(m->run.memory);
        free(m->rows);
        free(m->row_peak);
    }
    tpp_executor_destroy(crew->threads);
    free(crew->members);
    free(crew);
}

static tpp_status open_members(struct crew *crew) {
    double origin = 0;
    tpp_status status = TPP_OK;
    for (int32_t rank = 0; rank < crew->ranks && status == TPP_OK; rank++) {
        struct member *m = &crew->members[rank];
        double now = clock_seconds();
        origin = rank == 0 ? now : origin;
        m->later = now - origin;
        m->rows = reserve(3 * (int64_t)crew->lanes, sizeof *m->rows);
        m->row_peak = reserve(crew->lanes, sizeof *m->row_peak);
        status = tpp_executor_distributed_create(&m->executor, rank, crew->lanes, NULL);
    }
    return status;
}

tpp_status rank_executors_create(tpp_executor **out, int32_t ranks, int32_t lanes) {
    tpp_executor_ops ops = {0};
    ops.size = sizeof ops;
    ops.run = run;
    ops.each = each;
    ops.destroy = destroy;
    struct crew *crew = reserve(1, sizeof *crew);
    crew->ranks = ranks;
    crew->lanes = lanes;
    crew->members = reserve(ranks, sizeof *crew->members);
    tpp_status status = tpp_executor_threads_create(&crew->threads, ranks, 1, NULL);
    if (status == TPP_OK) {
        status = open_members(crew);
    }
    if (status == TPP_OK) {
        status = tpp_executor_create(out, &ops, crew, NULL);
    }
    if (status != TPP_OK) {
        destroy(crew);
    }
    return status;
}
