/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/opt_impl.h"

#include <math.h>

/* A rank does a whole number of forwards before its first I. One fewer than fill the wait for its
 * gradient leave it idle; one more delay that I, and by it the first I of every rank before. Whether
 * all ranks can stay within an idle time is decided from the last rank to the first: each does as
 * few forwards as its own allowance asks for, which is best for all others too. */

/* Can every rank keep to `cost`, if only the time to its first I counts beside `busy` [ranks]? */
static bool possible(const tpp__opt *o, const double *busy, double cost) {
    double arrival = 0;
    for (int32_t r = o->ranks - 1; r >= 0; r--) {
        double f = o->time[TPP__OPT_F][r], head = o->head[r];
        double allowed = cost - busy[r] - (o->makespan ? head : 0);
        arrival = r + 1 < o->ranks ? arrival : head + f;
        double fill = arrival - head - allowed, room = o->limit - o->state[r];
        double most = o->hold[r] > 0 ? fmin(floor(room / o->hold[r]), o->micros) : o->micros;
        double count = f > 0 ? fmax(1, ceil(fill / f - 1e-9)) : 1;
        if (allowed < 0 || count > most || (f <= 0 && fill > 0))
            return false;
        arrival = fmax(arrival, head + count * f);
        if (r > 0)
            arrival += o->time[TPP__OPT_I][r] + o->latency[r - 1] +
                       (o->link[TPP__OPT_I][r] >= 0 ? o->send[TPP__OPT_I][r] : 0);
    }
    return true;
}

double tpp__opt_bound_warm(const tpp__opt *o, const double *busy, double bound) {
    double low = bound, step = o->time[TPP__OPT_F][0] + 1e-3 * bound;
    if (o->chunks > 1 || possible(o, busy, low * (1 + 1e-12)))
        return low;
    double high = low + step;
    for (int i = 0; i < 60 && !possible(o, busy, high); i++)
        high += step *= 2;
    for (int i = 0; i < 80; i++) {
        double middle = low + (high - low) / 2;
        if (possible(o, busy, middle))
            high = middle;
        else
            low = middle;
    }
    return low;
}
