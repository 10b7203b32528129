/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/check.h"
#include "base/thread.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <tpp/optimize.h>

enum { KINDS = 3, ALL_ACTIONS = 20000000 }; /* so many simulated actions try all splits */

typedef struct split {
    const tpp_optimize_layers_desc *desc;
    tpp_allocator allocator;
    tpp_schedule_info info;
    int64_t bytes;
    double *cost[KINDS]; /* [stages] of the split being tried */
    double *sum[KINDS];  /* [layers + 1] running sums */
    int32_t *first;      /* [depth + 1] being tried */
    int32_t *best;       /* [depth + 1] */
    int64_t run_bytes;
    void *run_memory;
    tpp_run_report found; /* of the best */
    double best_cost;
    int64_t evaluations;
} split;

static void lay_out(split *s, tpp__arena *arena) {
    for (int k = 0; k < KINDS; k++) {
        s->cost[k] = tpp__arena_take(arena, s->info.stages, sizeof(double));
        s->sum[k] = tpp__arena_take(arena, s->desc->layers + 1, sizeof(double));
    }
    s->first = tpp__arena_take(arena, s->info.depth + 1, sizeof *s->first);
    s->best = tpp__arena_take(arena, s->info.depth + 1, sizeof *s->best);
    s->run_memory = tpp__arena_take(arena, s->run_bytes, 1);
}

/* --- One split -------------------------------------------------------------------------------- */

static tpp_status simulate(split *s, tpp_run_report *report) {
    for (int k = 0; k < KINDS; k++) {
        for (int32_t i = 0; i < s->info.stages; i++) {
            const int32_t *at = s->first + i % s->info.depth;
            s->cost[k][i] = s->sum[k][at[1]] - s->sum[k][at[0]];
        }
    }
    const tpp_sim_desc costs = {.size = sizeof costs,
                                .stages = s->info.stages,
                                .forward = s->cost[0],
                                .backward_input = s->cost[1],
                                .backward_weight = s->cost[2],
                                .latency = s->desc->latency,
                                .allocator = &s->allocator};
    const tpp_run run = {.size = sizeof run,
                         .schedule = s->desc->schedule,
                         .memory = s->run_memory,
                         .memory_bytes = s->run_bytes};
    tpp_executor *sim;
    tpp_status status = tpp_executor_sim_create(&sim, &costs);
    if (status < 0)
        return status;
    s->evaluations++;
    status = tpp_executor_run(sim, &run, report);
    tpp_executor_destroy(sim);
    return status;
}

/* Simulate s->first; *better tells whether it became the best. */
static tpp_status offer(split *s, bool *better) {
    tpp_run_report report = {.size = sizeof report};
    tpp_status status = simulate(s, &report);
    double cost = s->desc->objective == TPP_OPTIMIZE_SPAN ? report.period : report.makespan;
    *better = status == TPP_OK && cost < s->best_cost;
    if (*better) {
        s->best_cost = cost;
        s->found = report;
        memcpy(s->best, s->first, (size_t)(s->info.depth + 1) * sizeof *s->best);
    }
    return status;
}

/* --- Where to begin --------------------------------------------------------------------------- */

static double work_of(const split *s, int32_t from, int32_t to) {
    double work = 0;
    for (int k = 0; k < KINDS; k++)
        work += s->sum[k][to] - s->sum[k][from];
    return work;
}

/* Fill stages from the first one, each as far as `most` work allows; true if all layers fit. */
static bool pack(split *s, double most) {
    int32_t layers = s->desc->layers, depth = s->info.depth, at = 0;
    for (int32_t i = 0; i < depth; i++) {
        int32_t end = at + 1, last = layers - (depth - 1 - i);
        while (end < last && work_of(s, at, end + 1) <= most)
            end++;
        s->first[i] = at;
        at = end;
    }
    s->first[depth] = layers;
    return at == layers;
}

/* The split whose largest stage is smallest, by bisection; its work is returned. */
static double pack_evenly(split *s) {
    double low = 0, high = work_of(s, 0, s->desc->layers);
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (pack(s, middle))
            high = middle;
        else
            low = middle;
    }
    pack(s, high);
    return high;
}

/* --- The searches ----------------------------------------------------------------------------- */

/* Boundary i moves by d if both its stages keep a layer. */
static bool shift(split *s, int32_t i, int32_t d) {
    int32_t to = s->first[i] + d;
    if (to <= s->first[i - 1] || to >= s->first[i + 1])
        return false;
    s->first[i] = to;
    return true;
}

/* Two moves at once; a move by 0 is none. */
static tpp_status try_pair(split *s, int32_t i, int32_t di, int32_t j, int32_t dj, bool *better) {
    memcpy(s->first, s->best, (size_t)(s->info.depth + 1) * sizeof *s->first);
    *better = false;
    bool moved = shift(s, i, di) && (dj == 0 || shift(s, j, dj));
    return moved ? offer(s, better) : TPP_OK;
}

/* All single moves, then all pairs of boundaries at most `far` apart. */
static tpp_status improve(split *s, bool *better) {
    enum { far = 8 };
    *better = false;
    for (int32_t gap = 0; gap <= far; gap++) {
        for (int32_t i = 1; i + gap < s->info.depth; i++) {
            for (int32_t way = 0; way < (gap == 0 ? 2 : 4); way++) {
                int32_t di = way & 1 ? 1 : -1, dj = gap == 0 ? 0 : (way & 2 ? 1 : -1);
                tpp_status status = try_pair(s, i, di, i + gap, dj, better);
                if (status < 0 || *better)
                    return status;
            }
        }
    }
    return TPP_OK;
}

static tpp_status climb(split *s) {
    bool better;
    pack_evenly(s);
    tpp_status status = offer(s, &better);
    for (int32_t i = 0; i < s->info.depth && status == TPP_OK; i++) {
        int32_t count;
        status = tpp_schedule_partition(s->desc->layers, s->info.depth, i, &s->first[i], &count);
    }
    s->first[s->info.depth] = s->desc->layers;
    if (status == TPP_OK)
        status = offer(s, &better);
    for (better = true; better && status == TPP_OK;)
        status = improve(s, &better);
    return status;
}

static tpp_status try_all(split *s, int32_t stage) {
    bool better;
    if (stage == s->info.depth)
        return offer(s, &better);
    int32_t last = s->desc->layers - (s->info.depth - stage);
    for (int32_t at = s->first[stage - 1] + 1; at <= last; at++) {
        s->first[stage] = at;
        tpp_status status = try_all(s, stage + 1);
        if (status < 0)
            return status;
    }
    return TPP_OK;
}

/* True when simulating every split is little work. */
static bool few(const split *s) {
    double splits = 1;
    for (int32_t i = 1; i < s->info.depth; i++)
        splits = splits * (s->desc->layers - i) / i;
    return splits * (double)s->info.actions <= ALL_ACTIONS;
}

static tpp_status search(split *s) {
    s->best_cost = INFINITY;
    if (!few(s))
        return climb(s);
    s->first[0] = 0;
    s->first[s->info.depth] = s->desc->layers;
    return try_all(s, 1);
}

/* --- The door --------------------------------------------------------------------------------- */

static tpp_status check_costs(const char *name, const double *costs, int32_t layers) {
    if (!costs)
        return tpp__fail(TPP_ERR_INVALID, "desc.%s is NULL; it must have %d entries", name, layers);
    for (int32_t i = 0; i < layers; i++) {
        if (!isfinite(costs[i]) || costs[i] < 0)
            return tpp__fail(TPP_ERR_INVALID, "desc.%s[%d] = %g; a cost must be finite and >= 0",
                             name, i, costs[i]);
    }
    return TPP_OK;
}

static tpp_status check(const tpp_optimize_layers_desc *d, tpp_schedule_info *info) {
    tpp_status status = tpp_schedule_query(d->schedule, info);
    if (status < 0)
        return status;
    if (!info->finished)
        return tpp__fail(TPP_ERR_INVALID, "desc.schedule is not finished");
    if (d->layers < info->depth)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.layers = %d, but the schedule has %d stages, and each needs a layer",
                         d->layers, info->depth);
    if (d->objective != TPP_OPTIMIZE_SPAN && d->objective != TPP_OPTIMIZE_MAKESPAN)
        return tpp__fail(TPP_ERR_INVALID, "desc.objective = %d; valid: 0 (SPAN), 1 (MAKESPAN)",
                         d->objective);
    status = check_costs("forward", d->forward, d->layers);
    if (status == TPP_OK)
        status = check_costs("backward_input", d->backward_input, d->layers);
    return status < 0 ? status : check_costs("backward_weight", d->backward_weight, d->layers);
}

static tpp_status begin(split *s) {
    const double *costs[KINDS] = {s->desc->forward, s->desc->backward_input,
                                  s->desc->backward_weight};
    const tpp_run run = {.size = sizeof run, .schedule = s->desc->schedule};
    tpp_status status = tpp_run_query(&run, &s->run_bytes);
    if (status == TPP_OK)
        status = tpp__allocator_read(&s->allocator, s->desc->allocator);
    if (status < 0)
        return status;
    tpp__arena arena = tpp__arena_counting();
    lay_out(s, &arena);
    s->bytes = arena.used;
    void *memory = tpp__alloc(&s->allocator, s->bytes);
    if (!memory)
        return TPP_ERR_NO_MEMORY;
    arena = tpp__arena_over(memory, s->bytes);
    lay_out(s, &arena);
    for (int k = 0; k < KINDS; k++) {
        s->sum[k][0] = 0;
        for (int32_t i = 0; i < s->desc->layers; i++)
            s->sum[k][i + 1] = s->sum[k][i] + costs[k][i];
    }
    return TPP_OK;
}

/* A rank has as many stages as chunks at most, and the largest stage no less than the packed one. */
static double bound_of(split *s) {
    return pack_evenly(s) * s->info.micros / s->info.directions;
}

tpp_status tpp_optimize_layers(int32_t *first, const tpp_optimize_layers_desc *desc,
                               tpp_optimize_report *report) {
    tpp_optimize_layers_desc d;
    split s = {.info.size = sizeof s.info};
    if (!first)
        return tpp__fail(TPP_ERR_INVALID,
                         "first is NULL; it must have room for stages + 1 indices");
    tpp_status status = tpp__sized_read(&d, sizeof d, 0, desc, "desc");
    if (status == TPP_OK)
        status = check(&d, &s.info);
    s.desc = &d;
    if (status == TPP_OK)
        status = begin(&s);
    if (status != TPP_OK)
        return status;
    double began = tpp__now();
    status = search(&s);
    tpp_optimize_report found = {.size = sizeof found,
                                 .cost = s.best_cost,
                                 .makespan = s.found.makespan,
                                 .span = s.found.period,
                                 .seconds = tpp__now() - began,
                                 .evaluations = s.evaluations,
                                 .optimal = few(&s)};
    if (status == TPP_OK) {
        memcpy(first, s.best, (size_t)(s.info.depth + 1) * sizeof *first);
        found.lower_bound = fmin(bound_of(&s), found.cost);
        found.gap = found.cost > 0 ? (found.cost - found.lower_bound) / found.cost : 0;
    }
    tpp__free(&s.allocator, s.cost[0], s.bytes);
    if (status < 0 || !report)
        return status;
    return tpp__sized_write(report, &found, sizeof found, "report");
}
