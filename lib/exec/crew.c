/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/crew.h"

#include "base/check.h"

typedef struct crew {
    tpp_allocator allocator;
    tpp__crew_desc desc;
    double origin; /* moment of creation: traces of several runs count from it */
    tpp__pool *pool;
} crew;

static tpp_status check_size(const crew *c, int32_t ranks, int32_t lanes) {
    if (lanes != c->desc.lanes)
        return tpp__fail(TPP_ERR_INVALID, "lanes = %d; the executor was made for %d", lanes,
                         c->desc.lanes);
    if (c->desc.ranks > 0 && ranks != c->desc.ranks)
        return tpp__fail(TPP_ERR_INVALID, "ranks = %d; the executor was made for %d", ranks,
                         c->desc.ranks);
    if (c->desc.own >= ranks)
        return tpp__fail(TPP_ERR_INVALID, "ranks = %d; the executor was made for rank %d", ranks,
                         c->desc.own);
    return TPP_OK;
}

static tpp__run_part part_of(const crew *c, int32_t ranks) {
    return c->desc.own == TPP__CREW_ALL ? (tpp__run_part){0, ranks}
                                        : (tpp__run_part){c->desc.own, 1};
}

static tpp_status query(void *ctx, const tpp_run *given, int64_t *bytes) {
    crew *c = ctx;
    tpp_run own;
    tpp_schedule_info info;
    tpp_status status = tpp__run_read(&own, &info, given);
    if (status == TPP_OK)
        status = check_size(c, info.ranks, own.lanes);
    return status < 0 ? status : tpp__walk_bytes(&own, &info, part_of(c, info.ranks), bytes);
}

static tpp_status run(void *ctx, const tpp_run *given, tpp_run_report *report) {
    crew *c = ctx;
    tpp_run own;
    tpp_schedule_info info;
    tpp__walk walk = {
        .origin = c->origin, .workers = c->desc.workers, .failure = {.lock = TPP__LOCK_INIT}};
    tpp_status status = tpp__run_read(&own, &info, given);
    if (status == TPP_OK)
        status = check_size(c, info.ranks, own.lanes);
    if (status == TPP_OK)
        status = tpp__walk_begin(&walk, &own, &info, part_of(c, info.ranks));
    if (status < 0)
        return status;
    tpp__pool_run(c->pool, c->desc.play, &walk);
    return tpp__walk_end(&walk, report);
}

/* --- each ------------------------------------------------------------------------------------- */

typedef struct each_job {
    tpp_each_fn fn;
    void *arg;
    int32_t first; /* rank */
    int32_t rows;
    int32_t lanes;
    int32_t workers;
} each_job;

static void call_own(void *arg, int32_t worker) {
    const each_job *job = arg;
    for (int32_t row = worker; row < job->rows; row += job->workers)
        job->fn(job->arg, job->first + row / job->lanes,
                row % job->lanes); /* tpp_executor_each keeps the failures */
}

static tpp_status each(void *ctx, int32_t ranks, int32_t lanes, tpp_each_fn fn, void *arg) {
    crew *c = ctx;
    tpp_status status = check_size(c, ranks, lanes);
    if (status < 0)
        return status;
    tpp__run_part part = part_of(c, ranks);
    each_job job = {fn, arg, part.first, part.count * lanes, lanes, c->desc.workers};
    tpp__pool_run(c->pool, call_own, &job);
    return TPP_OK;
}

void tpp__crew_play_one(void *arg, int32_t row) {
    tpp__walk *walk = arg;
    tpp__walker *w = &walk->walker[row];
    tpp_message_set("");
    tpp__walker_enter(w);
    tpp__walker_advance(w);
    tpp__walker_leave(w);
}

/* --- Life ------------------------------------------------------------------------------------- */

static void destroy(void *ctx) {
    crew *c = ctx;
    tpp_allocator allocator = c->allocator;
    tpp__pool_destroy(c->pool);
    tpp__free(&allocator, c, sizeof *c);
}

tpp_status tpp__crew_create(tpp_executor **out, const tpp__crew_desc *desc,
                            const tpp_allocator *allocator) {
    tpp_allocator own;
    tpp_status status = tpp__allocator_read(&own, allocator);
    if (status < 0)
        return status;
    crew *c = tpp__alloc(&own, sizeof *c);
    if (!c)
        return TPP_ERR_NO_MEMORY;
    *c = (crew){.allocator = own, .desc = *desc, .origin = tpp__now()};
    status = tpp__pool_create(&c->pool, desc->workers, &own);
    if (status == TPP_OK) {
        const tpp_executor_ops ops = {
            .size = sizeof ops,
            .flags = desc->own == TPP__CREW_ALL ? 0 : TPP_EXECUTOR_OWN_ROWS,
            .run = run,
            .each = each,
            .destroy = destroy,
            .query = query,
        };
        status = tpp_executor_create(out, &ops, c, allocator);
    }
    if (status < 0)
        destroy(c);
    return status;
}
