/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/check.h"
#include "base/thread.h"
#include "exec/run_check.h"
#include "exec/sim.h"
#include "exec/walker.h"

#include <stdio.h>

/* The public door: what is common to all executors is checked here, then the table is called. */

struct tpp_executor {
    tpp_allocator allocator;
    tpp_executor_ops ops;
    void *ctx;
};

tpp_status tpp_executor_create(tpp_executor **out, const tpp_executor_ops *ops, void *ctx,
                               const tpp_allocator *allocator) {
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to an executor");
    *out = NULL;
    tpp_executor_ops table;
    tpp_allocator own;
    tpp_status status = tpp__sized_read(&table, sizeof table, TPP_EXECUTOR_OWN_ROWS, ops, "ops");
    if (status == TPP_OK && !table.run)
        status = tpp__fail(TPP_ERR_INVALID, "ops.run is NULL; it must be set");
    if (status == TPP_OK)
        status = tpp__allocator_read(&own, allocator);
    if (status < 0)
        return status;
    tpp_executor *executor = tpp__alloc(&own, sizeof *executor);
    if (!executor)
        return TPP_ERR_NO_MEMORY;
    *executor = (tpp_executor){own, table, ctx};
    *out = executor;
    return TPP_OK;
}

void tpp_executor_destroy(tpp_executor *executor) {
    if (!executor)
        return;
    if (executor->ops.destroy)
        executor->ops.destroy(executor->ctx);
    tpp_allocator own = executor->allocator;
    tpp__free(&own, executor, sizeof *executor);
}

tpp_status tpp_run_query(const tpp_run *run, int64_t *bytes) {
    tpp_run own;
    tpp_schedule_info info;
    if (!bytes)
        return tpp__fail(TPP_ERR_INVALID, "bytes is NULL; it must point to a number");
    *bytes = 0;
    tpp_status status = tpp__run_read(&own, &info, run);
    if (status < 0)
        return status;
    const tpp__run_part all = {0, info.ranks};
    return own.ranks ? tpp__walk_bytes(&own, &info, all, bytes) : tpp__sim_bytes(&info, bytes);
}

tpp_status tpp_executor_query(const tpp_executor *executor, const tpp_run *run, int64_t *bytes) {
    tpp_run own;
    tpp_schedule_info info;
    if (!executor || !bytes)
        return tpp__fail(TPP_ERR_INVALID, "%s is NULL", executor ? "bytes" : "executor");
    *bytes = 0;
    tpp_status status = tpp__run_read(&own, &info, run);
    if (status == TPP_OK && executor->ops.query)
        status = executor->ops.query(executor->ctx, &own, bytes);
    if (status > 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "ops.query returned %d; it must return TPP_OK or a failure", status);
    return status;
}

/* Walkers clear the message of their thread, to tell a callback's sentence from an older one; a
 * run that succeeds must leave the caller's as it was. */
typedef struct kept_message {
    char text[TPP__MESSAGE];
} kept_message;

static void keep(kept_message *kept) {
    snprintf(kept->text, sizeof kept->text, "%s", tpp_message());
}

/* --- run -------------------------------------------------------------------------------------- */

/* The caller's report holds arrays for us; all else is ours to set. */
static tpp_status read_report(tpp_run_report *out, const tpp_run_report *in) {
    tpp_run_report given = {0};
    if (in) {
        tpp_status status = tpp__sized_read(&given, sizeof given, 0, in, "report");
        if (status < 0)
            return status;
    }
    *out = (tpp_run_report){.size = sizeof *out,
                            .row_work = given.row_work,
                            .row_peak = given.row_peak,
                            .failed_rank = -1,
                            .failed_lane = -1,
                            .failed_stage = -1,
                            .failed_micro = -1,
                            .row_memory = given.row_memory,
                            .row_peak_input = given.row_peak_input,
                            .path = given.path,
                            .path_room = given.path_room,
                            .row_first = given.row_first,
                            .row_last = given.row_last};
    if (given.path && given.path_room < 0)
        return tpp__fail(TPP_ERR_INVALID, "report.path_room = %lld; it must be at least 0",
                         (long long)given.path_room);
    return TPP_OK;
}

static void clear_rows(const tpp_run_report *report, int32_t rows) {
    double *const times[] = {report->row_work, report->row_memory, report->row_first,
                             report->row_last};
    int32_t *const peaks[] = {report->row_peak, report->row_peak_input};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        for (int32_t r = 0; r < rows && times[i]; r++)
            times[i][r] = 0;
    }
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++) {
        for (int32_t r = 0; r < rows && peaks[i]; r++)
            peaks[i][r] = 0;
    }
}

static tpp_status dispatch(tpp_executor *executor, const tpp_run *run, tpp_run_report *report) {
    tpp_run own;
    tpp_schedule_info info;
    tpp_status status = tpp__run_read(&own, &info, run);
    if (status < 0)
        return status;
    bool alone = (executor->ops.flags & TPP_EXECUTOR_OWN_ROWS) != 0;
    clear_rows(report, (alone ? 1 : info.ranks) * own.lanes);
    status = executor->ops.run(executor->ctx, &own, report);
    if (status > 0)
        return tpp__fail(TPP_ERR_INVALID, "ops.run returned %d; it must return TPP_OK or a failure",
                         status);
    return status;
}

tpp_status tpp_executor_run(tpp_executor *executor, const tpp_run *run, tpp_run_report *report) {
    tpp_run_report own;
    kept_message kept;
    if (!executor)
        return tpp__fail(TPP_ERR_INVALID, "executor is NULL");
    tpp_status status = read_report(&own, report);
    if (status < 0)
        return status;
    keep(&kept);
    status = dispatch(executor, run, &own);
    if (status == TPP_OK)
        tpp_message_set(kept.text);
    if (report)
        tpp__sized_write(report, &own, sizeof own, "report"); /* was read: cannot fail */
    return status;
}

/* --- each ------------------------------------------------------------------------------------- */

typedef struct each_job {
    tpp_each_fn fn;
    void *arg;
    tpp__lock lock;
    tpp_status status; /* of the lowest rank and lane that failed */
    int32_t rank;
    int32_t lane;
    kept_message message;
} each_job;

static void note(each_job *job, int32_t rank, int32_t lane, tpp_status status) {
    tpp__lock_take(&job->lock);
    bool lower = rank < job->rank || (rank == job->rank && lane < job->lane);
    if (job->status == TPP_OK || lower) {
        job->status = status;
        job->rank = rank;
        job->lane = lane;
        keep(&job->message);
    }
    tpp__lock_give(&job->lock);
}

static tpp_status call_one(void *arg, int32_t rank, int32_t lane) {
    each_job *job = arg;
    tpp_message_set("");
    tpp_status status = job->fn(job->arg, rank, lane);
    if (status > 0)
        status = tpp__fail(TPP_ERR_INVALID, "fn returned %d; it must return TPP_OK or a failure",
                           status);
    if (status < 0)
        note(job, rank, lane, status);
    return status;
}

static tpp_status call_all(const tpp_executor *executor, int32_t ranks, int32_t lanes,
                           each_job *job) {
    if (executor->ops.each)
        return executor->ops.each(executor->ctx, ranks, lanes, call_one, job);
    for (int32_t rank = 0; rank < ranks; rank++) {
        for (int32_t lane = 0; lane < lanes; lane++)
            call_one(job, rank, lane);
    }
    return TPP_OK;
}

tpp_status tpp_executor_each(tpp_executor *executor, int32_t ranks, int32_t lanes, tpp_each_fn fn,
                             void *arg) {
    if (!executor || !fn)
        return tpp__fail(TPP_ERR_INVALID, "%s is NULL", executor ? "fn" : "executor");
    if (ranks < 1 || lanes < 1)
        return tpp__fail(TPP_ERR_INVALID, "%s = %d; it must be at least 1",
                         ranks < 1 ? "ranks" : "lanes", ranks < 1 ? ranks : lanes);
    if (ranks > INT32_MAX / lanes)
        return tpp__fail(TPP_ERR_OVERFLOW, "ranks = %d times lanes = %d do not fit into 32 bits",
                         ranks, lanes);
    kept_message kept;
    each_job job = {.fn = fn, .arg = arg, .lock = TPP__LOCK_INIT};
    keep(&kept);
    tpp_status status = call_all(executor, ranks, lanes, &job);
    if (job.status < 0)
        return tpp__fail(job.status, "rank %d lane %d: %s", job.rank, job.lane, job.message.text);
    if (status > 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "ops.each returned %d; it must return TPP_OK or a failure", status);
    if (status == TPP_OK)
        tpp_message_set(kept.text);
    return status;
}
