/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"
#include "exec/opt_impl.h"

#include <math.h>
#include <string.h>

uint32_t tpp__opt_random(tpp__opt *o, uint32_t below) {
    o->random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    uint64_t z = o->random;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (uint32_t)((z >> 32) * below >> 32);
}

bool tpp__opt_offer(tpp__opt *o, tpp__opt_cost cost) {
    if (!tpp__opt_better(cost, o->best_cost))
        return false;
    o->best_cost = cost;
    memcpy(o->best, o->order, (size_t)(o->ranks * o->length) * sizeof *o->best);
    return true;
}

/* Equal but for rounding. */
static bool reached(const tpp__opt *o) {
    return o->best_cost.cost <= o->bound * (1 + TPP__OPT_ROUNDING);
}

static void tell(tpp__opt *o, double now) {
    if (!o->desc.progress || now - o->told < 0.1)
        return;
    o->told = now;
    tpp_optimize_state state = {.size = sizeof state,
                                .seconds = now - o->began,
                                .cost = o->best_cost.cost,
                                .lower_bound = o->bound,
                                .evaluations = o->evaluations};
    o->stopped |= o->desc.progress(o->desc.progress_ctx, &state) != 0;
}

bool tpp__opt_go_on(tpp__opt *o) {
    double now = tpp__now();
    tell(o, now);
    return !o->stopped && !reached(o) && now - o->began < o->desc.seconds &&
           (o->desc.evaluations == 0 || o->evaluations < o->desc.evaluations);
}

void tpp__opt_search(tpp__opt *o, bool *optimal) {
    o->began = o->told = tpp__now();
    o->bound = tpp__opt_bound(o);
    tpp__opt_seeds(o);
    tpp__opt_dispatch_search(o);
    bool proved = !reached(o) && tpp__opt_exact(o);
    if (proved)
        o->bound = o->best_cost.cost;
    else
        tpp__opt_local(o);
    *optimal = proved || reached(o);
    o->bound = fmin(o->bound, o->best_cost.cost);
}
