/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/v_pattern.h"

#include "sched/deps.h"
#include "sched/generate.h"

#define PERIOD TPP__SCHED_PERIOD

/* A rank's time, in units. What stands in the pattern later than the unit that is being looked at is
 * not in it yet. */
typedef struct timeline {
    tpp__sched_block block;
    int32_t *busy; /* [length]: 1 + micro * 8 + op * 2 + chunk where an action starts, -1 in it */
    int32_t *held; /* [length]: forwards held after that unit */
    int32_t holds; /* after all actions so far */
    int32_t next_w[2];                    /* micro-batch whose W the pattern has next */
    int32_t after[TPP__SCHED_RESULTS][2]; /* the next action of a kind and chunk comes no earlier */
} timeline;

typedef struct planner {
    const tpp_schedule *s;
    const tpp__sched_pattern *pattern;
    timeline *ranks;
    int32_t *done; /* of tpp__sched_index: when a result is there */
    int32_t length;
} planner;

/* The micro-batch whose turn begins at `t`, -1: none. */
static int32_t turn(const planner *p, int32_t start, int32_t t) {
    int32_t since = t - start;
    return since >= 0 && since % PERIOD == 0 && since / PERIOD < p->s->micros ? since / PERIOD : -1;
}

/* The W that has waited longest, of those whose I comes before `t`. */
static bool next_weight(const planner *p, timeline *line, int32_t t, tpp_action *a) {
    int32_t oldest = t;
    for (int32_t chunk = 0; chunk < 2; chunk++) {
        int32_t since = line->block.backward[chunk] + PERIOD * line->next_w[chunk];
        if (line->next_w[chunk] == p->s->micros || since >= oldest)
            continue;
        oldest = since;
        *a = (tpp_action){.op = TPP_OP_W, .chunk = (uint16_t)chunk, .micro = line->next_w[chunk]};
    }
    if (oldest < t)
        line->next_w[a->chunk]++;
    return oldest < t;
}

/* When the pattern has the last forward of a rank begin. */
static int32_t last_forward(const planner *p, const timeline *line) {
    const int32_t *f = line->block.forward;
    return (f[0] > f[1] ? f[0] : f[1]) + PERIOD * (p->s->micros - 1);
}

/* What the pattern has a rank begin at `t`; false: nothing. W stand wherever the block leaves a unit
 * free, as long as there are forwards that need the memory. */
static bool pattern_at(const planner *p, timeline *line, int32_t t, tpp_action *a) {
    for (uint16_t chunk = 0; chunk < 2; chunk++) {
        int32_t f = turn(p, line->block.forward[chunk], t);
        int32_t b = turn(p, line->block.backward[chunk], t);
        if (f >= 0) {
            *a = (tpp_action){.op = TPP_OP_F, .chunk = chunk, .micro = f};
            return true;
        }
        if (b >= 0) {
            *a = (tpp_action){.op = p->pattern->whole ? TPP_OP_B : TPP_OP_I, .chunk = chunk};
            a->micro = b;
            return true;
        }
    }
    return !p->pattern->whole && t <= last_forward(p, line) && next_weight(p, line, t, a);
}

/* Between the last action of micro-batch 0 and the first that there is no micro-batch for, a rank
 * has no unit free. */
static bool in_steady_state(const planner *p, const timeline *line, int32_t t) {
    return t >= line->block.backward[0] + PERIOD &&
           t < line->block.forward[0] + PERIOD * p->s->micros;
}

static int32_t width_of(const tpp_action *a) {
    return a->op == TPP_OP_B ? 2 : 1;
}

/* Of the results, the one that matters for the order. */
static int32_t kind_of(const tpp_action *a) {
    return a->op == TPP_OP_F ? TPP__SCHED_F : a->op == TPP_OP_W ? TPP__SCHED_W : TPP__SCHED_I;
}

static bool is_free(const timeline *line, int32_t t, int32_t width) {
    return line->busy[t] == 0 && (width == 1 || line->busy[t + 1] == 0);
}

/* The first place, at most `t`, where `a` may stand. A forward must not make the rank hold more
 * than it may, before the place that the pattern has kept for it. */
static int32_t earliest(const planner *p, const timeline *line, const tpp_action *a, int32_t t) {
    if (p->pattern->steady && in_steady_state(p, line, t))
        return t;
    const tpp_schedule *s = p->s;
    tpp__sched_need needs[2];
    int32_t from = line->after[kind_of(a)][a->chunk];
    int n = tpp__sched_needs(s->depth, s->stages, a, needs);
    for (int i = 0; i < n; i++) {
        int32_t there = p->done[tpp__sched_index(s->stages, s->micros, needs[i])];
        from = there > from ? there : from;
    }
    if (a->op == TPP_OP_F) {
        int32_t place = t;
        while (place > from && line->held[place - 1] < p->pattern->most)
            place--;
        from = place;
    }
    while (from < t && !is_free(line, from, width_of(a)))
        from++;
    return from;
}

static void place(planner *p, timeline *line, const tpp_action *a, int32_t t) {
    int32_t kind = kind_of(a), end = t + width_of(a);
    line->busy[t] = 1 + a->micro * 8 + (a->op - TPP_OP_F) * 2 + a->chunk;
    if (end > t + 1)
        line->busy[t + 1] = -1;
    line->after[kind][a->chunk] = end;
    tpp__sched_need result = {kind, a->stage, a->micro};
    p->done[tpp__sched_index(p->s->stages, p->s->micros, result)] = end;
}

/* What the pattern has at `t` goes to an earlier place. */
static void pull(planner *p, timeline *line, const tpp_action *a, int32_t t) {
    int32_t to = earliest(p, line, a, t);
    place(p, line, a, to);
    if (a->op == TPP_OP_I)
        return;
    int32_t change = a->op == TPP_OP_F ? 1 : -1;
    for (int32_t i = a->op == TPP_OP_F ? to : to + width_of(a) - 1; i <= t; i++)
        line->held[i] += change;
    line->holds += change;
}

static void plan(planner *p) {
    const tpp_schedule *s = p->s;
    for (int32_t t = 0; t < p->length; t++) {
        for (int32_t r = 0; r < s->ranks; r++) {
            timeline *line = p->ranks + r;
            tpp_action a;
            line->held[t] = line->holds;
            if (!pattern_at(p, line, t, &a))
                continue;
            a.stage = a.chunk == 0 ? r : s->stages - 1 - r;
            pull(p, line, &a, t);
        }
    }
}

/* After the last forward of a rank no W must come before an I that other ranks wait for: they fill
 * what is left. */
static void plan_last_weights(planner *p) {
    for (int32_t r = 0; r < p->s->ranks; r++) {
        timeline *line = p->ranks + r;
        tpp_action a;
        while (next_weight(p, line, p->length, &a)) {
            a.stage = a.chunk == 0 ? r : p->s->stages - 1 - r;
            place(p, line, &a, earliest(p, line, &a, p->length - 1));
        }
    }
}

static void emit_all(const planner *p, tpp_schedule *s) {
    tpp__sched_emitter e = {.schedule = s, .next = s->actions};
    for (int32_t r = 0; r < s->ranks; r++) {
        for (int32_t t = 0; t < p->length; t++) {
            int32_t code = p->ranks[r].busy[t] - 1;
            if (code >= 0)
                tpp__sched_emit(&e, TPP_OP_F + code % 8 / 2, code % 2 ? s->stages - 1 - r : r,
                                code / 8);
        }
        s->first[r + 1] = e.next - s->actions;
    }
}

static int32_t length_of(const tpp_schedule *s, const tpp__sched_pattern *pattern) {
    int32_t last = 0;
    for (int32_t r = 0; r < s->ranks; r++) {
        tpp__sched_block block = pattern->block(s->ranks, r);
        last = block.backward[0] > last ? block.backward[0] : last;
    }
    return last + PERIOD * (s->micros + 1); /* within a period the last W find room */
}

static void lay_out(planner *p, tpp__arena *arena) {
    int64_t ranks = p->s->ranks, units = ranks * p->length;
    p->ranks = tpp__arena_take(arena, ranks, sizeof *p->ranks);
    int32_t *busy = tpp__arena_take(arena, units, sizeof *busy);
    int32_t *held = tpp__arena_take(arena, units, sizeof *held);
    p->done = tpp__arena_take(arena, TPP__SCHED_RESULTS * (int64_t)p->s->stages * p->s->micros,
                              sizeof *p->done);
    for (int32_t r = 0; r < ranks && p->ranks; r++) {
        p->ranks[r].block = p->pattern->block(p->s->ranks, r);
        p->ranks[r].busy = busy + (int64_t)r * p->length;
        p->ranks[r].held = held + (int64_t)r * p->length;
    }
}

tpp_status tpp__sched_from_pattern(tpp_schedule *s, const tpp__sched_pattern *pattern) {
    planner p = {.s = s, .pattern = pattern, .length = length_of(s, pattern)};
    tpp__arena arena = tpp__arena_counting();
    lay_out(&p, &arena);
    int64_t bytes = arena.used;
    void *memory = tpp__alloc(&s->allocator, bytes);
    if (!memory)
        return TPP_ERR_NO_MEMORY;
    arena = tpp__arena_over(memory, bytes);
    lay_out(&p, &arena);
    plan(&p);
    if (!pattern->whole)
        plan_last_weights(&p);
    emit_all(&p, s);
    tpp__free(&s->allocator, memory, bytes);
    return TPP_OK;
}
