/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/sim.h"

#include "base/check.h"
#include "exec/run_check.h"

#include <math.h>
#include <stddef.h>

#define FLAGS (TPP_SIM_BLOCKING | TPP_SIM_BARRIER | TPP_SIM_PAPER_EDGES)

/* --- Running ---------------------------------------------------------------------------------- */

static tpp_status check_done(const tpp__sim_run *s) {
    for (int32_t rank = 0; rank < s->info.ranks; rank++) {
        int64_t count;
        tpp_schedule_actions(s->run->schedule, rank, &count);
        if (s->next[rank] < count)
            return tpp__fail(TPP_ERR_DEADLOCK, "rank %d cannot go on at its action %lld", rank,
                             (long long)s->next[rank]);
    }
    return TPP_OK;
}

/* Costs are finite, but sums of them need not be. */
static tpp_status check_time(const tpp_run_report *report) {
    if (isfinite(report->makespan))
        return TPP_OK;
    return tpp__fail(TPP_ERR_OVERFLOW, "the times of this run add up to more than a double holds");
}

static tpp_status check_run(const tpp__sim *sim, const tpp_run *run, const tpp_schedule_info *info,
                            int64_t *need) {
    if (info->stages != sim->stages)
        return tpp__fail(TPP_ERR_INVALID,
                         "run.schedule has %d stages; the simulator was made for %d", info->stages,
                         sim->stages);
    tpp_status status = tpp__run_check_trace(run, info->ranks);
    if (status == TPP_OK)
        status = tpp__sim_bytes(info, need);
    return status < 0 ? status : tpp__run_check_memory(run, *need);
}

static tpp_status run(void *ctx, const tpp_run *given, tpp_run_report *report) {
    tpp_run own;
    tpp_schedule_info info;
    int64_t need = 0;
    tpp_status status = tpp__run_read(&own, &info, given);
    if (status == TPP_OK)
        status = check_run(ctx, &own, &info, &need);
    if (status < 0)
        return status;
    tpp__sim_run s = {.sim = ctx, .run = &own, .report = report};
    tpp__arena arena = tpp__arena_over(own.memory, need);
    tpp__sim_cut(&s, &arena, &info);
    tpp__sim_begin(&s);
    tpp__sim_walk(&s);
    tpp__run_report_fill(report, s.row, info.ranks, 0);
    if (s.sim->flags & TPP_SIM_BARRIER)
        report->period = report->makespan;
    status = check_done(&s);
    if (status == TPP_OK)
        status = check_time(report);
    if (status == TPP_OK && report->path)
        tpp__sim_path(&s);
    return status;
}

static tpp_status query(void *ctx, const tpp_run *given, int64_t *bytes) {
    tpp_run own;
    tpp_schedule_info info;
    (void)ctx;
    tpp_status status = tpp__run_read(&own, &info, given);
    return status < 0 ? status : tpp__sim_bytes(&info, bytes);
}

/* --- Life ------------------------------------------------------------------------------------- */

static void destroy(void *ctx) {
    tpp__sim *s = ctx;
    tpp_allocator allocator = s->allocator;
    tpp__free(&allocator, s, s->bytes);
}

tpp_status tpp_executor_sim_create(tpp_executor **out, const tpp_sim_desc *desc) {
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to an executor");
    *out = NULL;
    tpp_sim_desc d;
    tpp_allocator own;
    tpp_status status = tpp__sized_read(&d, sizeof d, FLAGS, desc, "desc");
    if (status == TPP_OK)
        status = tpp__sim_check(&d);
    if (status == TPP_OK)
        status = tpp__allocator_read(&own, d.allocator);
    if (status < 0)
        return status;
    tpp__arena need = tpp__arena_counting();
    tpp__sim_lay_out(&need, d.stages);
    void *memory = tpp__alloc(&own, need.used);
    if (!memory)
        return TPP_ERR_NO_MEMORY;
    tpp__arena arena = tpp__arena_over(memory, need.used);
    tpp__sim *s = tpp__sim_lay_out(&arena, d.stages);
    s->allocator = own;
    s->bytes = need.used;
    tpp__sim_set(s, &d);
    const tpp_executor_ops ops = {
        .size = sizeof ops, .run = run, .destroy = destroy, .query = query};
    status = tpp_executor_create(out, &ops, s, d.allocator);
    if (status < 0)
        destroy(s);
    return status;
}
