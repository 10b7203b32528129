/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/opt_impl.h"

#include <math.h>

/* Branch and bound over active schedules (Giffler and Thompson 1960): of all possible actions let t
 * be the earliest end; on that rank, one of the actions that can start before t is next. With one
 * chunk this loses nothing although memory is limited: what could still stand in a gap without
 * delay would only find I and W after itself, which free memory (an I does not if W holds more). With
 * more chunks, and a limit, any action may have to wait for memory that a later one would take, so all
 * possible ones are tried that start no earlier than the one before. */

enum { MOST_ACTIONS = 96, MOST_NODES = 4000000 };

typedef struct searching {
    tpp__opt *o;
    int64_t nodes;
    bool complete; /* enough time so far */
    bool active;   /* one rank's actions only */
    int32_t depth;
} searching;

typedef struct candidate {
    double start, end;
    int32_t rank, chunk, op;
} candidate;

static int list_all(const tpp__opt *o, candidate *out) {
    int n = 0;
    for (int32_t r = 0; r < o->ranks; r++) {
        for (int32_t c = 0; c < o->chunks; c++) {
            const int32_t *count = tpp__opt_count(o, r, c);
            int32_t stage = o->stage_at[r * o->chunks + c];
            for (int32_t op = 0; op < TPP__OPT_OPS; op++) {
                int32_t ready = op == TPP__OPT_F ? o->micros : count[op - 1];
                bool fits = tpp__opt_fits(o, r, stage, op);
                double start = tpp__opt_arrival(o, stage, op, count[op]);
                if (count[op] >= ready || !fits || start < 0)
                    continue;
                start = fmax(start, o->rank[r].now);
                out[n++] = (candidate){start, start + o->time[op][stage], r, c, op};
            }
        }
    }
    return n;
}

/* Keep those that a schedule may go on with, in order of their starts. */
static int keep_next(const searching *s, candidate *list, int n, double last, int32_t last_rank) {
    candidate first = list[0];
    for (int i = 1; i < n; i++) {
        if (list[i].end < first.end)
            first = list[i];
    }
    int kept = 0;
    for (int i = 0; i < n; i++) {
        candidate c = list[i];
        bool keep = s->active
                        ? c.rank == first.rank && (c.start < first.end || c.start == first.start)
                        : c.start > last || (c.start == last && c.rank >= last_rank);
        if (!keep)
            continue;
        int at = kept++;
        for (; at > 0 && list[at - 1].start > c.start; at--)
            list[at] = list[at - 1];
        list[at] = c;
    }
    return kept;
}

static double left_of(const tpp__opt *o, int32_t r, bool with_weight) {
    double sum = 0;
    for (int32_t c = 0; c < o->chunks; c++) {
        int32_t stage = o->stage_at[r * o->chunks + c];
        for (int32_t op = 0; op < (with_weight ? TPP__OPT_OPS : TPP__OPT_W); op++)
            sum += (o->micros - tpp__opt_count(o, r, c)[op]) * o->time[op][stage];
    }
    return sum;
}

/* What the part of a schedule costs at least when it is complete. */
static double bound_here(const tpp__opt *o) {
    double bound = 0;
    for (int32_t r = 0; r < o->ranks; r++)
        bound = fmax(bound, o->rank[r].now + left_of(o, r, true) - (o->makespan ? 0 : o->head[r]));
    double down = 0; /* the way of the last gradient from rank q to rank 0 */
    for (int32_t q = 0; q < o->ranks; q++) {
        if (q > 0)
            down += o->time[TPP__OPT_I][q - 1] + o->latency[q - 1];
        if (tpp__opt_count(o, q, 0)[TPP__OPT_I] < o->micros)
            bound =
                fmax(bound, o->rank[q].now + left_of(o, q, false) + down + o->time[TPP__OPT_W][0]);
    }
    return bound;
}

static void undo_one(tpp__opt *o, const candidate *c, const tpp__opt_rank *before) {
    int32_t stage = o->stage_at[c->rank * o->chunks + c->chunk];
    int32_t micro = --tpp__opt_count(o, c->rank, c->chunk)[c->op];
    if (c->op != TPP__OPT_W)
        o->there[c->op][(int64_t)stage * o->micros + micro] = -1;
    o->rank[c->rank] = *before;
}

static void search(searching *s, double last, int32_t last_rank) {
    tpp__opt *o = s->o;
    candidate list[MOST_ACTIONS];
    if (s->depth == o->ranks * o->length) {
        tpp__opt_offer(o, tpp__opt_walk_cost(o));
        return;
    }
    s->complete =
        s->complete && ++s->nodes < MOST_NODES && (s->nodes % 1024 != 0 || tpp__opt_go_on(o));
    if (!s->complete || bound_here(o) >= o->best_cost.cost * (1 - 1e-12))
        return;
    int n = list_all(o, list);
    n = n > 0 ? keep_next(s, list, n, last, last_rank) : 0;
    for (int i = 0; i < n; i++) {
        tpp__opt_rank before = o->rank[list[i].rank];
        tpp__opt_code code = tpp__opt_code_of(list[i].chunk, list[i].op);
        o->order[list[i].rank * o->length + before.next] = code;
        tpp__opt_do(o, list[i].rank, code, list[i].start);
        s->depth++;
        /* of those that start together the ones of no length come first, whatever their ranks: others
         * may need them */
        search(s, list[i].start, list[i].end > list[i].start ? list[i].rank : 0);
        s->depth--;
        undo_one(o, &list[i], &before);
    }
}

/* Can it ever depend on the limit whether an action may be moved to an earlier gap? */
static bool memory_matters(const tpp__opt *o) {
    for (int32_t r = 0; r < o->ranks; r++) {
        double most = o->state[r];
        bool rises = false;
        for (int32_t c = 0; c < o->chunks; c++) {
            int32_t stage = o->stage_at[r * o->chunks + c];
            rises |= o->hold_weight[stage] > o->hold[stage];
            most += o->micros * fmax(o->hold[stage], o->hold_weight[stage]);
        }
        if (most > o->limit && (o->chunks > 1 || rises))
            return true;
    }
    return false;
}

bool tpp__opt_exact(tpp__opt *o) {
    if (o->ranks * o->length > MOST_ACTIONS || o->links)
        return false;
    searching s = {.o = o, .complete = true, .active = !memory_matters(o)};
    tpp__opt_walk_begin(o);
    search(&s, -1, 0);
    return s.complete;
}
