/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/exec_ranks.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 32 };

/* One rank's part of the run under way. */
typedef struct part {
    tpp_executor *executor;
    tpp_run run;
    tpp_run_report report;
    tpp_status status;
    char message[512];
} part;

typedef struct team {
    int32_t ranks, lanes;
    tpp_executor *threads; /* one for each rank */
    part parts[MOST];
    int64_t bytes[MOST]; /* of run.memory */
    tpp_each_fn fn;      /* of an each under way */
    void *arg;
} team;

static tpp_trace *traces[MOST];

void exec_ranks_trace(int32_t rank, tpp_trace *trace) {
    traces[rank] = trace;
}

static tpp_status run_one(void *arg, int32_t rank, int32_t lane) {
    part *p = &((team *)arg)->parts[rank];
    (void)lane;
    p->status = tpp_executor_run(p->executor, &p->run, &p->report);
    snprintf(p->message, sizeof p->message, "%s", tpp_message());
    return TPP_OK;
}

static tpp_status prepare(team *t, int32_t rank, const tpp_run *run, const tpp_run_report *report) {
    part *p = &t->parts[rank];
    void *memory = p->run.memory;
    int64_t need = 0;
    tpp_status status = tpp_executor_query(p->executor, run, &need);
    if (status == TPP_OK && need > t->bytes[rank]) {
        free(memory);
        memory = aligned_alloc(64, (size_t)(need + 63) / 64 * 64);
        t->bytes[rank] = need;
    }
    p->run = *run;
    p->run.ranks = run->ranks ? run->ranks + rank * t->lanes : NULL;
    p->run.trace = traces[rank];
    p->run.memory = memory;
    p->run.memory_bytes = t->bytes[rank];
    p->report = (tpp_run_report){
        .size = sizeof p->report,
        .row_work = report->row_work ? report->row_work + rank * t->lanes : NULL,
        .row_peak = report->row_peak ? report->row_peak + rank * t->lanes : NULL,
        .row_first = report->row_first ? report->row_first + rank * t->lanes : NULL,
        .row_last = report->row_last ? report->row_last + rank * t->lanes : NULL,
    };
    return status;
}

static tpp_status run(void *ctx, const tpp_run *run, tpp_run_report *report) {
    team *t = ctx;
    const part *told = NULL;
    for (int32_t r = 0; r < t->ranks; r++) {
        tpp_status status = prepare(t, r, run, report);
        if (status != TPP_OK)
            return status;
    }
    tpp_executor_each(t->threads, t->ranks, 1, run_one, t);
    for (int32_t r = 0; r < t->ranks; r++) {
        const part *p = &t->parts[r];
        bool aborted = told && told->status == TPP_ERR_ABORTED;
        if (p->status != TPP_OK && (!told || (aborted && p->status != TPP_ERR_ABORTED)))
            told = p;
        report->makespan =
            p->report.makespan > report->makespan ? p->report.makespan : report->makespan;
    }
    if (!told)
        return TPP_OK;
    report->failed_rank = told->report.failed_rank;
    report->failed_lane = told->report.failed_lane;
    report->failed_stage = told->report.failed_stage;
    report->failed_micro = told->report.failed_micro;
    report->failed_op = told->report.failed_op;
    tpp_message_set(told->message);
    return told->status;
}

static tpp_status each_one(void *arg, int32_t rank, int32_t lane) {
    team *t = arg;
    (void)lane;
    return tpp_executor_each(t->parts[rank].executor, t->ranks, t->lanes, t->fn, t->arg);
}

static tpp_status each(void *ctx, int32_t ranks, int32_t lanes, tpp_each_fn fn, void *arg) {
    team *t = ctx;
    (void)lanes;
    t->fn = fn;
    t->arg = arg;
    return tpp_executor_each(t->threads, ranks, 1, each_one, t);
}

static void destroy(void *ctx) {
    team *t = ctx;
    for (int32_t r = 0; r < t->ranks; r++) {
        tpp_executor_destroy(t->parts[r].executor);
        free(t->parts[r].run.memory);
        traces[r] = NULL;
    }
    tpp_executor_destroy(t->threads);
    free(t);
}

tpp_status exec_ranks_create(tpp_executor **out, int32_t ranks, int32_t lanes) {
    static const tpp_executor_ops ops = {
        .size = sizeof ops, .run = run, .each = each, .destroy = destroy};
    team *t = calloc(1, sizeof *t);
    t->ranks = ranks;
    t->lanes = lanes;
    tpp_status status = tpp_executor_threads_create(&t->threads, ranks, 1, NULL);
    for (int32_t r = 0; r < ranks && status == TPP_OK; r++)
        status = tpp_executor_distributed_create(&t->parts[r].executor, r, lanes, NULL);
    if (status == TPP_OK)
        status = tpp_executor_create(out, &ops, t, NULL);
    if (status != TPP_OK)
        destroy(t);
    return status;
}
