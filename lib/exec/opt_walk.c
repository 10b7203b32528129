/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/opt_impl.h"

#include <math.h>

void tpp__opt_walk_begin(tpp__opt *o) {
    int64_t cells = (int64_t)o->stages * o->micros;
    for (int64_t i = 0; i < cells; i++)
        o->there[0][i] = o->there[1][i] = -1;
    for (int64_t i = 0; i < (int64_t)o->ranks * o->chunks * TPP__OPT_OPS; i++)
        o->count[i] = 0;
    for (int32_t r = 0; r < o->ranks; r++)
        o->rank[r] = (tpp__opt_rank){.first = -1, .memory = o->state[r]};
    for (int32_t i = 0; o->links && i < 2 * o->stages; i++)
        o->link_free[i] = 0;
}

/* When what an F or I needs from another stage is there; -1: not known yet. */
double tpp__opt_arrival(const tpp__opt *o, int32_t stage, int32_t op, int32_t micro) {
    int32_t from = op == TPP__OPT_F ? stage - 1 : stage + 1;
    if (op == TPP__OPT_W || from < 0 || from >= o->stages)
        return 0;
    return o->there[op][(int64_t)from * o->micros + micro];
}

/* When the result of an action that ends at `end` is at its reader. */
static double delivery(tpp__opt *o, int32_t stage, int32_t op, double end) {
    int32_t link = o->link[op][stage];
    if (link >= 0) {
        double start = end > o->link_free[link] ? end : o->link_free[link];
        end = o->link_free[link] = start + o->send[op][stage];
    }
    if (op == TPP__OPT_F)
        return end + o->latency[stage];
    return stage > 0 ? end + o->latency[stage - 1] : end;
}

void tpp__opt_do(tpp__opt *o, int32_t r, tpp__opt_code code, double start) {
    int32_t op = (int32_t)(code % TPP__OPT_OPS), chunk = (int32_t)(code / TPP__OPT_OPS);
    int32_t stage = o->stage_at[r * o->chunks + chunk];
    int32_t micro = tpp__opt_count(o, r, chunk)[op]++;
    tpp__opt_rank *rank = &o->rank[r];
    if (rank->first < 0)
        rank->first = start;
    rank->now = start + o->time[op][stage];
    rank->next++;
    if (op == TPP__OPT_F)
        rank->memory += o->hold[stage];
    else if (op == TPP__OPT_I)
        rank->memory -= o->hold[stage] - o->hold_weight[stage];
    else
        rank->memory -= o->hold_weight[stage];
    if (op != TPP__OPT_W)
        o->there[op][(int64_t)stage * o->micros + micro] = delivery(o, stage, op, rank->now);
}

tpp__opt_cost tpp__opt_walk_cost(const tpp__opt *o) {
    double span = 0, makespan = 0;
    for (int32_t r = 0; r < o->ranks; r++) {
        const tpp__opt_rank *rank = &o->rank[r];
        span = fmax(span, rank->now - rank->first);
        makespan = fmax(makespan, rank->now);
    }
    return o->makespan ? (tpp__opt_cost){makespan, span} : (tpp__opt_cost){span, makespan};
}

/* Do the next action of a rank's order; 1: done, 0: it must wait for another rank, -1: the order
 * is wrong or needs too much memory. */
static int step(tpp__opt *o, const tpp__opt_code *order, int32_t r) {
    tpp__opt_rank *rank = &o->rank[r];
    tpp__opt_code code = order[r * o->length + rank->next];
    int32_t op = (int32_t)(code % TPP__OPT_OPS), chunk = (int32_t)(code / TPP__OPT_OPS);
    int32_t stage = o->stage_at[r * o->chunks + chunk];
    const int32_t *count = tpp__opt_count(o, r, chunk);
    if (op != TPP__OPT_F && count[op] >= count[op - 1])
        return -1;
    if (!tpp__opt_fits(o, r, stage, op))
        return -1;
    double start = tpp__opt_arrival(o, stage, op, count[op]);
    if (start < 0)
        return 0;
    tpp__opt_do(o, r, code, start > rank->now ? start : rank->now);
    return 1;
}

tpp__opt_cost tpp__opt_evaluate(tpp__opt *o, const tpp__opt_code *order) {
    const tpp__opt_cost never = {INFINITY, INFINITY};
    o->evaluations++;
    tpp__opt_walk_begin(o);
    int64_t left = o->ranks * o->length;
    for (int64_t before = -1; left != before && left > 0;) {
        before = left;
        for (int32_t r = 0; r < o->ranks; r++) {
            int done = 1;
            while (o->rank[r].next < o->length && (done = step(o, order, r)) > 0)
                left--;
            if (done < 0)
                return never;
        }
    }
    return left > 0 ? never : tpp__opt_walk_cost(o);
}
