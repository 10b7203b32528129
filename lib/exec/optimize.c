/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"
#include "exec/opt_impl.h"
#include "sched/sched_impl.h"

#include <math.h>
#include <string.h>

/* --- One placement ---------------------------------------------------------------------------- */

static void put_order(const tpp__opt *o, int32_t r, tpp_schedule *s, int32_t *micros) {
    static const uint8_t ops[] = {TPP_OP_F, TPP_OP_I, TPP_OP_W};
    for (int64_t i = 0; i < o->length; i++) {
        tpp__opt_code code = o->best[r * o->length + i];
        int32_t chunk = (int32_t)(code / TPP__OPT_OPS), op = (int32_t)(code % TPP__OPT_OPS);
        int32_t *micro = &micros[code];
        s->actions[r * o->length + i] = (tpp_action){.op = ops[op],
                                                     .chunk = (uint16_t)chunk,
                                                     .stage = o->stage_at[r * o->chunks + chunk],
                                                     .micro = (*micro)++,
                                                     .peer = -1,
                                                     .slot = -1};
    }
    s->first[r + 1] = (r + 1) * o->length;
}

static tpp_status make(tpp_schedule **out, tpp__opt *o) {
    tpp_schedule *s = NULL;
    tpp_status status = tpp__sched_new(&s, &o->allocator, o->ranks, o->stages, o->micros);
    if (status < 0)
        return status;
    memcpy(s->rank_of, o->rank_of, (size_t)o->stages * sizeof *s->rank_of);
    status = tpp__sched_place(s);
    if (status == TPP_OK)
        status = tpp__sched_reserve(s, o->ranks * o->length);
    memset(o->count, 0, (size_t)(o->ranks * o->chunks * TPP__OPT_OPS) * sizeof *o->count);
    for (int32_t r = 0; r < o->ranks && status == TPP_OK; r++)
        put_order(o, r, s, tpp__opt_count(o, r, 0));
    if (status == TPP_OK)
        status = tpp_schedule_lower(s);
    if (status == TPP_OK)
        status = tpp_schedule_finish(s);
    if (status < 0)
        tpp_schedule_destroy(s);
    else
        *out = s;
    return status;
}

static double peak_of(tpp__opt *o) {
    double peak = 0;
    for (int32_t r = 0; r < o->ranks; r++) {
        double held = o->state[r];
        peak = fmax(peak, held);
        for (int64_t i = 0; i < o->length; i++) {
            tpp__opt_code code = o->best[r * o->length + i];
            int32_t s = o->stage_at[r * o->chunks + (int32_t)(code / TPP__OPT_OPS)];
            int32_t op = (int32_t)(code % TPP__OPT_OPS);
            held += op == TPP__OPT_F   ? o->hold[s]
                    : op == TPP__OPT_I ? o->hold_weight[s] - o->hold[s]
                                       : -o->hold_weight[s];
            peak = fmax(peak, held);
        }
    }
    return peak;
}

static tpp_status run(tpp_schedule **out, const tpp_optimize_desc *d, tpp_placement placement,
                      int32_t chunks, bool *stopped, tpp_optimize_report *report) {
    tpp__opt *o = NULL;
    tpp_status status = tpp__opt_new(&o, d, placement, chunks);
    if (status < 0)
        return status;
    bool optimal = false;
    o->stopped = *stopped;
    tpp__opt_search(o, &optimal);
    *stopped = o->stopped;
    status = make(out, o);
    if (status == TPP_OK)
        *report = (tpp_optimize_report){
            .size = sizeof *report,
            .cost = o->best_cost.cost,
            .lower_bound = o->bound,
            .makespan = o->makespan ? o->best_cost.cost : o->best_cost.other,
            .span = o->makespan ? o->best_cost.other : o->best_cost.cost,
            .memory_peak = peak_of(o),
            .seconds = tpp__now() - o->began,
            .evaluations = o->evaluations,
            .placement = placement,
            .optimal = optimal,
        };
    tpp__opt_free(o);
    return status;
}

/* --- The door --------------------------------------------------------------------------------- */

static tpp_status check_fields(const tpp_optimize_desc *d) {
    if (d->ranks < 1 || d->micros < 1)
        return tpp__fail(TPP_ERR_INVALID, "desc.%s = %d; it must be at least 1",
                         d->ranks < 1 ? "ranks" : "micros", d->ranks < 1 ? d->ranks : d->micros);
    if (d->placement < 0 || d->placement > TPP_PLACEMENT_V)
        return tpp__fail(TPP_ERR_INVALID, "desc.placement = %d; valid: 0 (both), 1 (LOOPED), 2 (V)",
                         d->placement);
    if (d->placement == TPP_PLACEMENT_V && d->chunks != 0 && d->chunks != 2)
        return tpp__fail(TPP_ERR_INVALID, "desc.chunks = %d; placement V has 2", d->chunks);
    int32_t most = d->placement == 0 ? 1 : TPP__SCHED_MAX_CHUNKS;
    if (d->chunks < 0 || d->chunks > most)
        return tpp__fail(TPP_ERR_INVALID, "desc.chunks = %d; valid: 0 .. %d%s", d->chunks, most,
                         d->placement == 0 ? " with placement 0" : "");
    if (d->objective != TPP_OPTIMIZE_SPAN && d->objective != TPP_OPTIMIZE_MAKESPAN)
        return tpp__fail(TPP_ERR_INVALID, "desc.objective = %d; valid: 0 (SPAN), 1 (MAKESPAN)",
                         d->objective);
    if (!isfinite(d->memory_limit) || d->memory_limit < 0)
        return tpp__fail(TPP_ERR_INVALID, "desc.memory_limit = %g; it must be finite and >= 0",
                         d->memory_limit);
    if (!isfinite(d->seconds) || d->seconds < 0)
        return tpp__fail(TPP_ERR_INVALID, "desc.seconds = %g; it must be finite and >= 0",
                         d->seconds);
    if (d->evaluations < 0)
        return tpp__fail(TPP_ERR_INVALID, "desc.evaluations = %lld; it must be >= 0",
                         (long long)d->evaluations);
    return TPP_OK;
}

/* The better of both placements. */
static tpp_status run_both(tpp_schedule **out, tpp_optimize_desc *d, tpp_optimize_report *report) {
    tpp_schedule *other = NULL;
    tpp_optimize_report second = {0};
    int64_t all = d->evaluations;
    bool stopped = false;
    d->seconds /= 2;
    d->evaluations = all - all / 2;
    tpp_status status = run(out, d, TPP_PLACEMENT_LOOPED, 1, &stopped, report);
    d->evaluations = all > 1 ? all / 2 : all; /* 0: any number */
    if (status == TPP_OK)
        status = run(&other, d, TPP_PLACEMENT_V, 2, &stopped, &second);
    if (status < 0) {
        tpp_schedule_destroy(*out);
        *out = NULL;
        return status;
    }
    double bound = fmin(report->lower_bound, second.lower_bound);
    double seconds = report->seconds + second.seconds;
    int64_t evaluations = report->evaluations + second.evaluations;
    bool better = second.cost < report->cost;
    tpp_schedule_destroy(better ? *out : other);
    if (better) {
        *out = other;
        *report = second;
    }
    report->lower_bound = bound;
    report->seconds = seconds;
    report->evaluations = evaluations;
    return TPP_OK;
}

tpp_status tpp_optimize(tpp_schedule **out, const tpp_optimize_desc *desc,
                        tpp_optimize_report *report) {
    tpp_optimize_desc d;
    tpp_optimize_report found = {0};
    bool stopped = false;
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a schedule pointer");
    *out = NULL;
    tpp_status status = tpp__sized_read(&d, sizeof d, 0, desc, "desc");
    if (status == TPP_OK && report) /* now, so that it cannot fail at the end */
        status = tpp__sized_write(report, &found, sizeof found, "report");
    if (status == TPP_OK)
        status = check_fields(&d);
    if (status < 0)
        return status;
    if (d.seconds == 0)
        d.seconds = 1;
    if (d.placement == 0)
        status = run_both(out, &d, &found);
    else
        status = run(out, &d, d.placement,
                     d.placement == TPP_PLACEMENT_V ? 2 : (d.chunks > 0 ? d.chunks : 1), &stopped,
                     &found);
    if (status < 0)
        return status;
    if (found.cost > found.lower_bound * (1 + TPP__OPT_ROUNDING))
        found.gap = (found.cost - found.lower_bound) / found.lower_bound;
    if (report)
        tpp__sized_write(report, &found, sizeof found, "report");
    return TPP_OK;
}
