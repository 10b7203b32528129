/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/sched_atoms.h"

#include <math.h>
#include <stdlib.h>

/* When F and I of each stage and micro-batch end; NAN: not yet known. */
typedef struct ends {
    int32_t depth, stages, micros;
    double *f, *i;
} ends;

typedef struct lane {
    const tpp_action *next, *end;
    double first, now, work;
    int32_t held;
} lane;

static double end_of(const ends *e, const double *of, int32_t stage, int32_t micro) {
    return of[(size_t)stage * (size_t)e->micros + (size_t)micro];
}

/* NAN if it is not known yet. */
static double ready(const ends *e, const tpp_action *a) {
    double own = a->op == TPP_OP_W ? end_of(e, e->i, a->stage, a->micro) : 0, other = 0;
    if (a->op == TPP_OP_F && a->stage % e->depth > 0)
        other = end_of(e, e->f, a->stage - 1, a->micro);
    if (a->op == TPP_OP_B || a->op == TPP_OP_I) {
        own = end_of(e, e->f, a->stage, a->micro);
        if ((a->stage + 1) % e->depth > 0)
            other = end_of(e, e->i, a->stage + 1, a->micro);
    }
    return isnan(own) || isnan(other) ? NAN : fmax(own, other);
}

static double cost_of(const sched_costs *c, const tpp_action *a, int count) {
    double backward = c->i + c->w;
    if (count == 2)
        return c->fb > 0 ? c->fb : c->f + backward;
    return a->op == TPP_OP_F   ? c->f
           : a->op == TPP_OP_I ? c->i
           : a->op == TPP_OP_W ? c->w
                               : backward;
}

static void end(ends *e, lane *l, const tpp_action *a, int32_t *peak) {
    size_t at = (size_t)a->stage * (size_t)e->micros + (size_t)a->micro;
    if (a->op == TPP_OP_F)
        e->f[at] = l->now;
    if (a->op == TPP_OP_B || a->op == TPP_OP_I)
        e->i[at] = l->now;
    l->held += a->op == TPP_OP_F ? 1 : a->op == TPP_OP_I ? 0 : -1;
    *peak = l->held > *peak ? l->held : *peak;
}

/* The rank's next atom; false: it cannot be done yet. */
static bool atom(ends *e, lane *l, const sched_costs *c, int32_t *peak) {
    if (l->next == l->end)
        return false;
    int count = l->next->flags & TPP_ACTION_FUSED ? 2 : 1;
    double start = l->now;
    for (int k = 0; k < count; k++) {
        double t = ready(e, l->next + k);
        if (isnan(t))
            return false;
        start = fmax(start, t);
    }
    l->first = l->work > 0 ? l->first : start;
    l->now = start + cost_of(c, l->next, count);
    l->work += l->now - start;
    for (int k = 0; k < count; k++)
        end(e, l, l->next + k, peak);
    l->next += count;
    return true;
}

static void sum_up(const lane *lanes, int32_t ranks, sched_atoms *out) {
    double least = INFINITY;
    out->finished = true;
    for (int32_t r = 0; r < ranks; r++) {
        const lane *l = lanes + r;
        out->finished = out->finished && l->next == l->end;
        out->makespan = fmax(out->makespan, l->now);
        out->span = fmax(out->span, l->now - l->first - l->work);
        out->most = out->peak[r] > out->most ? out->peak[r] : out->most;
        least = fmin(least, l->work);
    }
    out->idle = out->makespan - least;
}

sched_atoms sched_atoms_run(const tpp_schedule *schedule, sched_costs costs) {
    sched_atoms out = {0};
    lane lanes[SCHED_ATOMS_RANKS] = {{0}};
    tpp_schedule_info info = {.size = sizeof info};
    if (tpp_schedule_query(schedule, &info) < 0 || info.ranks > SCHED_ATOMS_RANKS)
        return out;
    size_t cells = (size_t)info.stages * (size_t)info.micros;
    ends e = {info.stages / info.directions, info.stages, info.micros, NULL, NULL};
    e.f = malloc(2 * cells * sizeof *e.f);
    e.i = e.f + cells;
    for (size_t k = 0; k < 2 * cells; k++)
        e.f[k] = NAN;
    for (int32_t r = 0; r < info.ranks; r++) {
        int64_t count;
        lanes[r].next = tpp_schedule_actions(schedule, r, &count);
        lanes[r].end = lanes[r].next + count;
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t r = 0; r < info.ranks; r++) {
            while (atom(&e, lanes + r, &costs, out.peak + r))
                moved = true;
        }
    }
    free(e.f);
    sum_up(lanes, info.ranks, &out);
    return out;
}

/* --- Right or wrong --- */

int32_t sched_atoms_v(int32_t ranks, int32_t stage) {
    return stage < ranks ? stage : 2 * ranks - 1 - stage;
}

int32_t sched_atoms_two_way(int32_t ranks, int32_t stage) {
    return stage < ranks ? stage : ranks - 1 - (stage - ranks);
}

enum { HAS_F = 1, HAS_B = 2, HAS_I = 4, HAS_W = 8 };

static const char *fault_of_action(const tpp_schedule_info *info, const tpp_action *a, uint8_t *has,
                                   int32_t *last_w) {
    int bit = a->op == TPP_OP_F   ? HAS_F
              : a->op == TPP_OP_B ? HAS_B
              : a->op == TPP_OP_I ? HAS_I
                                  : HAS_W;
    if (a->stage < 0 || a->stage >= info->stages || a->micro < 0 || a->micro >= info->micros)
        return "an action is foreign";
    uint8_t *cell = has + (size_t)a->stage * (size_t)info->micros + a->micro;
    if (*cell & bit)
        return "an action is doubled";
    *cell |= (uint8_t)bit;
    if (a->flags != 0 && (a->op != TPP_OP_F || a[1].op != TPP_OP_B || a[1].flags != 0))
        return "a pair is no F and B";
    if (a->op != TPP_OP_B && a->op != TPP_OP_W)
        return NULL;
    if (last_w[a->stage] > a->micro)
        return "weight gradients are out of order";
    last_w[a->stage] = a->micro;
    return NULL;
}

static const char *fault_of_cells(const tpp_schedule_info *info, const uint8_t *has) {
    int32_t depth = info->stages / info->directions, half = (info->micros + 1) / 2;
    for (int32_t s = 0; s < info->stages; s++) {
        for (int32_t i = 0; i < info->micros; i++, has++) {
            bool here = info->directions == 1 || (s < depth) == (i < half);
            if (!here && *has)
                return "a micro-batch passes the wrong way";
            if (here && *has != (HAS_F | HAS_B) && *has != (HAS_F | HAS_I | HAS_W))
                return "an action is missing";
        }
    }
    return NULL;
}

const char *sched_atoms_fault(const tpp_schedule *schedule, int32_t directions,
                              int32_t (*rank_of)(int32_t ranks, int32_t stage)) {
    tpp_schedule_info info = {.size = sizeof info};
    if (tpp_schedule_query(schedule, &info) < 0 || info.directions != directions)
        return "it has another number of directions";
    size_t stages = (size_t)info.stages;
    uint8_t *has = calloc(stages * (size_t)info.micros, 1);
    int32_t *last_w = calloc(stages, sizeof *last_w);
    const char *fault = NULL;
    for (int32_t r = 0; r < info.ranks && !fault; r++) {
        int64_t count;
        const tpp_action *a = tpp_schedule_actions(schedule, r, &count);
        for (int64_t k = 0; k < count && !fault; k++) {
            fault = fault_of_action(&info, a + k, has, last_w);
            if (!fault && rank_of(info.ranks, a[k].stage) != r)
                fault = "an action stands on the wrong rank";
            if (!fault && a[k].flags != 0 && k + 1 == count)
                fault = "half a pair";
        }
    }
    fault = fault ? fault : fault_of_cells(&info, has);
    free(last_w);
    free(has);
    return fault;
}
