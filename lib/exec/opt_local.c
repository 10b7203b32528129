/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/opt_impl.h"

#include <string.h>

/* From the best order on, single actions move to other places of their rank. A move that costs
 * nothing is kept, so that the search can cross plateaus. */

enum { FAR = 24 }; /* an action moves by less than this */

static void move(tpp__opt_code *order, int64_t from, int64_t to) {
    tpp__opt_code code = order[from];
    if (from < to)
        memmove(order + from, order + from + 1, (size_t)(to - from) * sizeof *order);
    else
        memmove(order + to + 1, order + to, (size_t)(from - to) * sizeof *order);
    order[to] = code;
}

void tpp__opt_local(tpp__opt *o) {
    if (o->length < 2 || !(o->best_cost.cost < 1e300))
        return;
    memcpy(o->order, o->best, (size_t)(o->ranks * o->length) * sizeof *o->order);
    tpp__opt_cost now = o->best_cost;
    while (tpp__opt_go_on(o)) {
        tpp__opt_code *order = o->order + tpp__opt_random(o, (uint32_t)o->ranks) * o->length;
        int64_t from = tpp__opt_random(o, (uint32_t)o->length);
        int64_t by = 1 + tpp__opt_random(o, FAR - 1);
        int64_t to = tpp__opt_random(o, 2) ? from + by : from - by;
        if (to < 0 || to >= o->length || order[from] == order[to])
            continue;
        move(order, from, to);
        tpp__opt_cost cost = tpp__opt_evaluate(o, o->order);
        if (tpp__opt_better(now, cost)) {
            move(order, to, from);
            continue;
        }
        now = cost;
        tpp__opt_offer(o, cost);
    }
}
