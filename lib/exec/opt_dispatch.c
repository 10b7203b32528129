/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/opt_impl.h"

#include <math.h>
#include <string.h>

/* List scheduling: of all ranks the one that can start earliest does what its rules choose, with a
 * look at messages that are under way already. The rules are few numbers, which a random walk
 * varies; most of the difference is made in the warm-up, by how many forwards a rank does before
 * its first I (one too few leaves a gap, one too many delays all ranks before it). */

enum { UNBOUND = INT32_MAX };

typedef struct rules {
    bool forward_first;   /* of an F and an I that are both possible */
    bool shallow_first;   /* of several F the lowest chunk; else the highest */
    double weight_waits;  /* no W if another action can start within this part of the W's time */
    double forward_waits; /* no F if an I can start within this part of the F's time */
} rules;

typedef struct option {
    double start;
    int32_t chunk;
} option;

/* Memory for an F, for what the later chunks need to take a micro-batch that is on its way, and for
 * an I after which more is held than before. */
static bool fits(const tpp__opt *o, int32_t r, int32_t chunk) {
    double need = o->rank[r].memory, rise = 0;
    for (int32_t c = 0; c < o->chunks; c++) {
        int32_t stage = o->stage_at[r * o->chunks + c];
        rise = fmax(rise, o->hold_weight[stage] - o->hold[stage]);
        if (c == chunk || (c > chunk && tpp__opt_count(o, r, c)[TPP__OPT_F] < o->micros))
            need += o->hold[stage];
    }
    return need + rise <= o->limit;
}

static bool below_cap(const tpp__opt *o, int32_t r) {
    int32_t forwards = 0;
    if (o->caps[r] == UNBOUND)
        return true;
    for (int32_t c = 0; c < o->chunks; c++) {
        const int32_t *count = tpp__opt_count(o, r, c);
        if (count[TPP__OPT_I] > 0)
            return true;
        forwards += count[TPP__OPT_F];
    }
    return forwards < o->caps[r];
}

static option earliest_of(const tpp__opt *o, int32_t r, int32_t op, const rules *by) {
    option best = {INFINITY, 0};
    bool upwards = op == TPP__OPT_F && by->shallow_first;
    for (int32_t i = 0; i < o->chunks; i++) {
        int32_t c = upwards ? i : o->chunks - 1 - i;
        const int32_t *count = tpp__opt_count(o, r, c);
        int32_t ready = op == TPP__OPT_F ? o->micros : count[TPP__OPT_F];
        int32_t stage = o->stage_at[r * o->chunks + c];
        bool room = op == TPP__OPT_F ? fits(o, r, c) : tpp__opt_fits(o, r, stage, op);
        if (count[op] >= ready || !room)
            continue;
        double start = tpp__opt_arrival(o, stage, op, count[op]);
        if (start >= 0 && fmax(start, o->rank[r].now) < best.start)
            best = (option){fmax(start, o->rank[r].now), c};
    }
    return best;
}

/* The chunk whose I's wait for their W; -1: none. */
static int32_t weight_chunk(const tpp__opt *o, int32_t r) {
    for (int32_t c = o->chunks - 1; c >= 0; c--) {
        const int32_t *count = tpp__opt_count(o, r, c);
        if (count[TPP__OPT_W] < count[TPP__OPT_I])
            return c;
    }
    return -1;
}

static void choose(tpp__opt *o, int32_t r, int32_t op, option at) {
    o->ready[r] = at.start;
    o->choice[r] = tpp__opt_code_of(at.chunk, op);
}

static double length_of(const tpp__opt *o, int32_t r, int32_t op, int32_t chunk) {
    return o->time[op][o->stage_at[r * o->chunks + chunk]];
}

static void decide(tpp__opt *o, int32_t r, const rules *by) {
    option f = earliest_of(o, r, TPP__OPT_F, by), i = earliest_of(o, r, TPP__OPT_I, by);
    if (isfinite(f.start) && !below_cap(o, r))
        f.start = INFINITY;
    int32_t chunk = weight_chunk(o, r);
    double now = o->rank[r].now, next = fmin(f.start, i.start);
    double patience = chunk >= 0 ? by->weight_waits * length_of(o, r, TPP__OPT_W, chunk) : 0;
    if (chunk >= 0 && next > now && next - now >= patience) {
        choose(o, r, TPP__OPT_W, (option){now, chunk});
        return;
    }
    bool waits = isfinite(f.start) &&
                 i.start - f.start <= by->forward_waits * length_of(o, r, TPP__OPT_F, f.chunk);
    bool forward = by->forward_first ? f.start <= i.start && !(waits && i.start > f.start)
                                     : f.start < i.start && !waits;
    choose(o, r, forward ? TPP__OPT_F : TPP__OPT_I, forward ? f : i);
}

/* The rank that gets the result of the action just done; -1: none. */
static int32_t reader(const tpp__opt *o, int32_t r, tpp__opt_code code) {
    int32_t op = (int32_t)(code % TPP__OPT_OPS), chunk = (int32_t)(code / TPP__OPT_OPS);
    int32_t stage = o->stage_at[r * o->chunks + chunk];
    int32_t to = op == TPP__OPT_F ? stage + 1 : op == TPP__OPT_I ? stage - 1 : -1;
    return to >= 0 && to < o->stages ? o->rank_of[to] : -1;
}

static tpp__opt_cost dispatch(tpp__opt *o, const rules *by) {
    o->evaluations++;
    tpp__opt_walk_begin(o);
    for (int32_t r = 0; r < o->ranks; r++)
        decide(o, r, by);
    for (int64_t left = o->ranks * o->length; left > 0; left--) {
        int32_t r = 0;
        for (int32_t q = 1; q < o->ranks; q++)
            r = o->ready[q] < o->ready[r] ? q : r;
        if (!isfinite(o->ready[r]))
            return (tpp__opt_cost){INFINITY, INFINITY};
        tpp__opt_code code = o->choice[r];
        o->order[r * o->length + o->rank[r].next] = code;
        tpp__opt_do(o, r, code, o->ready[r]);
        int32_t to = reader(o, r, code);
        o->ready[r] = INFINITY;
        if (o->rank[r].next < o->length)
            decide(o, r, by);
        if (to >= 0 && to != r && o->rank[to].next < o->length)
            decide(o, to, by);
    }
    return tpp__opt_walk_cost(o);
}

/* --- The random walk over rules --------------------------------------------------------------- */

/* Warm-ups from the last rank to the first, one chunk: a rank takes one forward more if it would
 * else wait longer than `part` of a forward for its first I. */
static void warm_up(tpp__opt *o, double part) {
    double back = 0; /* when I of the rank after starts, counted from the start of its first F */
    for (int32_t r = o->ranks - 1; r >= 0; r--) {
        double f = o->time[TPP__OPT_F][r], wait = f;
        if (r + 1 < o->ranks)
            wait = o->head[r + 1] - o->head[r] + back + o->time[TPP__OPT_I][r + 1] + o->latency[r];
        double count = f > 0 ? floor(wait / f + 1 - part + 1e-9) : 1;
        double room = o->hold[r] > 0 ? floor((o->limit - o->state[r]) / o->hold[r]) : INFINITY;
        count = fmin(fmax(1, count), fmin(room, o->micros));
        o->caps[r] = (int32_t)count;
        back = fmax(wait, count * f);
    }
}

static rules vary(tpp__opt *o, const rules *from) {
    rules v = *from;
    for (uint32_t times = 1 + tpp__opt_random(o, 3); times > 0; times--) {
        int32_t *cap = &o->caps[tpp__opt_random(o, (uint32_t)o->ranks)];
        if (*cap != UNBOUND)
            *cap += tpp__opt_random(o, 2) ? 1 : -1;
        *cap = *cap < 1 ? 1 : *cap;
    }
    if (tpp__opt_random(o, 4) == 0)
        v.weight_waits = tpp__opt_random(o, 2) ? tpp__opt_random(o, 64) / 64.0 : 0;
    if (tpp__opt_random(o, 4) == 0)
        v.forward_waits = tpp__opt_random(o, 2) ? tpp__opt_random(o, 64) / 64.0 : 0;
    if (tpp__opt_random(o, 16) == 0)
        v.forward_first = !v.forward_first;
    if (tpp__opt_random(o, 16) == 0)
        v.shallow_first = !v.shallow_first;
    return v;
}

/* A grid of rules to begin with; the best is returned. */
static rules begin(tpp__opt *o) {
    rules best = {0};
    tpp__opt_cost cost = {INFINITY, INFINITY};
    for (int32_t k = 0; k < o->ranks; k++)
        o->best_caps[k] = UNBOUND;
    for (int i = 0; i < 4 * 12 && tpp__opt_go_on(o); i++) {
        rules r = {.forward_waits = i & 1 ? 0.3 : 0.02, .shallow_first = i & 2};
        int row = i / 4;
        if (o->chunks > 1 || row == 11) {
            for (int32_t k = 0; k < o->ranks; k++)
                o->caps[k] = UNBOUND;
            r.weight_waits = row / 12.0;
        } else {
            r.weight_waits = i & 2 ? 0.3 : 0.02;
            warm_up(o, 1 - row / 10.0);
        }
        tpp__opt_cost got = dispatch(o, &r);
        tpp__opt_offer(o, got);
        if (tpp__opt_better(got, cost)) {
            cost = got;
            best = r;
            memcpy(o->best_caps, o->caps, (size_t)o->ranks * sizeof *o->caps);
        }
    }
    return best;
}

void tpp__opt_dispatch_search(tpp__opt *o) {
    size_t bytes = (size_t)o->ranks * sizeof *o->caps;
    rules best = begin(o);
    if (!tpp__opt_go_on(o))
        return;
    memcpy(o->caps, o->best_caps, bytes);
    tpp__opt_cost cost = dispatch(o, &best);
    int64_t fruitless = 0, enough = 400 + 40 * (int64_t)o->ranks;
    for (; fruitless < enough && tpp__opt_go_on(o); fruitless++) {
        memcpy(o->caps, o->best_caps, bytes);
        rules r = vary(o, &best);
        tpp__opt_cost got = dispatch(o, &r);
        tpp__opt_offer(o, got);
        if (!tpp__opt_better(cost, got) && isfinite(got.cost)) {
            fruitless = tpp__opt_better(got, cost) ? 0 : fruitless;
            cost = got;
            best = r;
            memcpy(o->best_caps, o->caps, bytes);
        }
    }
}
