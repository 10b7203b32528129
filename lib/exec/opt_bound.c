/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/opt_impl.h"

#include <math.h>

static double time_of(const tpp__opt *o, int32_t op, int32_t stage) {
    return o->time[op][stage];
}

static int32_t lowest(const tpp__opt *o, int32_t r) {
    return o->stage_at[r * o->chunks];
}

static int32_t highest(const tpp__opt *o, int32_t r) {
    return o->stage_at[r * o->chunks + o->chunks - 1];
}

/* From the end of an action of a stage to its result at the next reader, at least. */
static double travel(const tpp__opt *o, int32_t op, int32_t stage) {
    double on_link = o->link[op][stage] >= 0 ? o->send[op][stage] : 0;
    return on_link + (op == TPP__OPT_F ? o->latency[stage] : o->latency[stage - 1]);
}

/* From the start of F(from, i) to the earliest start of I(to, i), to >= from. */
static double round_trip(const tpp__opt *o, int32_t from, int32_t to) {
    double sum = 0;
    for (int32_t s = from; s < o->stages; s++)
        sum += time_of(o, TPP__OPT_F, s) + (s + 1 < o->stages ? travel(o, TPP__OPT_F, s) : 0);
    for (int32_t s = o->stages - 1; s > to; s--)
        sum += time_of(o, TPP__OPT_I, s) + travel(o, TPP__OPT_I, s);
    return sum;
}

/* Work of all chunks of a rank for one micro-batch. */
static double work_of(const tpp__opt *o, int32_t r, bool with_weight) {
    double sum = 0;
    for (int32_t c = 0; c < o->chunks; c++) {
        int32_t s = o->stage_at[r * o->chunks + c];
        sum += time_of(o, TPP__OPT_F, s) + time_of(o, TPP__OPT_I, s);
        sum += with_weight ? time_of(o, TPP__OPT_W, s) : 0;
    }
    return sum;
}

/* Something to fill time with: `count` pieces of `time`, each needs `memory`. */
typedef struct filler {
    double time, memory;
    double count;
} filler;

/* The most time that pieces fill in `room`, if they may be cut: no whole choice fills more. */
static double fill_cut(filler *f, int n, double room) {
    double filled = 0;
    for (int done = 0; done < n; done++) {
        int best = done;
        for (int i = done + 1; i < n; i++) {
            if (f[i].time * f[best].memory > f[best].time * f[i].memory)
                best = i;
        }
        filler take = f[best];
        f[best] = f[done];
        double count = take.memory > 0 ? fmin(take.count, room / take.memory) : take.count;
        filled += count * take.time;
        room -= count * take.memory;
    }
    return filled;
}

enum { FILLERS = 64 }; /* chunks that are looked at one by one; of more, nothing is claimed */

/* How many forwards fit at most before the first I of a rank. */
static double forwards_before(const tpp__opt *o, int32_t r) {
    double least = INFINITY;
    for (int32_t c = 0; c < o->chunks; c++)
        least = fmin(least, o->hold[o->stage_at[r * o->chunks + c]]);
    double room = o->limit - o->state[r];
    double all = (double)o->chunks * o->micros;
    return least > 0 && isfinite(room) ? fmin(all, floor(room / least)) : all;
}

/* Before its first I a rank can do nothing but forwards, and these only as memory holds. */
static double idle_begin(const tpp__opt *o, int32_t r) {
    filler f[FILLERS] = {0};
    if (o->chunks > FILLERS)
        return 0;
    double longest = 0, count = forwards_before(o, r);
    for (int32_t c = 0; c < o->chunks; c++) {
        int32_t s = o->stage_at[r * o->chunks + c];
        f[c] = (filler){time_of(o, TPP__OPT_F, s), o->hold[s], o->micros};
        longest = fmax(longest, f[c].time);
    }
    double filled = fmin(fill_cut(f, o->chunks, o->limit - o->state[r]), count * longest);
    return fmax(0, round_trip(o, lowest(o, r), highest(o, r)) - filled);
}

/* Between its last F, which is of its highest stage, and the I of the same micro-batch a rank can do
 * only I and W of what its memory holds beside that one. */
static double idle_end_cut(const tpp__opt *o, int32_t r, double room) {
    filler f[2 * FILLERS] = {0};
    for (int32_t c = 0; c < o->chunks; c++) {
        int32_t s = o->stage_at[r * o->chunks + c];
        double w = time_of(o, TPP__OPT_W, s);
        f[2 * c] = (filler){time_of(o, TPP__OPT_I, s) + w, o->hold[s], o->micros - 1};
        f[2 * c + 1] = (filler){w, o->hold_weight[s], o->micros - 1};
    }
    return fill_cut(f, 2 * o->chunks, room);
}

/* With one chunk all whole choices can be looked at. */
static double idle_end_whole(const tpp__opt *o, int32_t s, double room) {
    double w = time_of(o, TPP__OPT_W, s), both = time_of(o, TPP__OPT_I, s) + w, most = 0;
    for (int32_t a = 0; a < o->micros && a * o->hold[s] <= room; a++) {
        double rest = o->micros - 1 - a;
        if (o->hold_weight[s] > 0 && isfinite(room))
            rest = fmin(rest, floor((room - a * o->hold[s]) / o->hold_weight[s] + 1e-9));
        most = fmax(most, a * both + rest * w);
    }
    return most;
}

static double idle_end(const tpp__opt *o, int32_t r) {
    int32_t top = highest(o, r);
    if (o->chunks > FILLERS)
        return 0;
    double room = o->limit - o->state[r] - o->hold[top];
    double filled = o->chunks == 1 ? idle_end_whole(o, top, room) : idle_end_cut(o, r, room);
    double wait = round_trip(o, top, top) - time_of(o, TPP__OPT_F, top);
    return fmax(0, wait - filled);
}

/* Idle time within the span of a rank after its first I; 0 if the two waits may overlap: when all
 * forwards fit before the first I. */
static double idle_after(const tpp__opt *o, int32_t r) {
    bool apart = forwards_before(o, r) < (double)o->chunks * o->micros;
    return apart ? idle_end(o, r) : 0;
}

static double idle_of(const tpp__opt *o, int32_t r) {
    return fmax(idle_begin(o, r) + idle_after(o, r), idle_end(o, r));
}

/* All F and I of rank q lie before the end of the last I of its lowest stage, and that gradient goes
 * on down to the lowest stage of rank r < q, which has a W then. Counted from moment 0. */
static double end_after(const tpp__opt *o, int32_t r, int32_t q) {
    double end = o->head[q] + idle_begin(o, q) + o->micros * work_of(o, q, false);
    for (int32_t s = lowest(o, q); s > lowest(o, r); s--)
        end += travel(o, TPP__OPT_I, s) + time_of(o, TPP__OPT_I, s - 1);
    return end + time_of(o, TPP__OPT_W, lowest(o, r));
}

/* All F of rank q, then the last one's way to the end of the pipeline and back to rank r. */
static double end_after_forwards(const tpp__opt *o, int32_t r, int32_t q) {
    double end = o->head[q];
    for (int32_t c = 0; c < o->chunks; c++)
        end += o->micros * time_of(o, TPP__OPT_F, o->stage_at[q * o->chunks + c]);
    int32_t top = highest(o, q), low = lowest(o, r);
    end += round_trip(o, top, low < top ? top : low) - time_of(o, TPP__OPT_F, top);
    for (int32_t s = top; s > low; s--)
        end += time_of(o, TPP__OPT_I, s) + travel(o, TPP__OPT_I, s);
    return end + time_of(o, TPP__OPT_I, low) + time_of(o, TPP__OPT_W, low);
}

/* Each micro-batch holds memory at least from the start of its F until its gradient is back and its
 * I is done, and a part of it while W runs: memory times time, which the limit times the span of the
 * rank must cover. */
static double filled_memory(const tpp__opt *o, int32_t r) {
    double room = o->limit - o->state[r], volume = 0;
    if (!isfinite(room) || room <= 0)
        return 0;
    for (int32_t c = 0; c < o->chunks; c++) {
        int32_t s = o->stage_at[r * o->chunks + c];
        volume += o->hold[s] * (round_trip(o, s, s) + time_of(o, TPP__OPT_I, s)) +
                  o->hold_weight[s] * time_of(o, TPP__OPT_W, s);
    }
    return o->micros * volume / room;
}

double tpp__opt_bound(tpp__opt *o) {
    double bound = 0;
    for (int32_t r = 0; r < o->ranks; r++) {
        o->busy[r] = o->micros * work_of(o, r, true) + idle_after(o, r);
        double end = o->head[r] + o->micros * work_of(o, r, true) + idle_of(o, r);
        end = fmax(end, o->head[r] + filled_memory(o, r));
        for (int32_t q = 0; q < o->ranks; q++) {
            if (q >= r)
                end = fmax(end, end_after(o, r, q));
            end = fmax(end, end_after_forwards(o, r, q));
        }
        bound = fmax(bound, o->makespan ? end : end - o->head[r]);
    }
    return tpp__opt_bound_warm(o, o->busy, bound) * (1 - 1e-12);
}
