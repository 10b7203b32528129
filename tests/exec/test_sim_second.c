/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/sim_case.h"
#include "support/sim_second.h"

/* The simulator against a second one, which is written in another way: all it reports, every event
 * of its trace, and every step of its critical path. */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
enum { SCHEDULES = 2500 };
#else
enum { SCHEDULES = 25000 };
#endif
enum { COSTS = 4, KINDS = 32 }; /* costs for each schedule */

static second truth; /* its memory is used again and again */

/* What the library says of a run. */
typedef struct told {
    tpp_run_report report;
    double work[SECOND_RANKS], memory[SECOND_RANKS];
    int32_t peak[SECOND_RANKS], peak_input[SECOND_RANKS];
    tpp_trace *trace;
} told;

static void must(tpp_status status) {
    if (status != TPP_OK)
        fail_msg("%s: %s", tpp_status_name(status), tpp_message());
}

static void *room(void **memory, int64_t *has, int64_t need) {
    if (need > *has) {
        free(*memory);
        *has = (need + 63) / 64 * 64;
        *memory = aligned_alloc(64, (size_t)*has);
    }
    return *memory;
}

static void simulate(told *t, tpp_executor *e, const tpp_schedule *s, bool all) {
    static void *memory, *path;
    static int64_t memory_bytes, path_bytes;
    tpp_run run = {.size = sizeof run, .schedule = s};
    tpp_schedule_info info = {.size = sizeof info};
    *t = (told){.report.size = sizeof t->report};
    must(tpp_schedule_query(s, &info));
    must(tpp_run_query(&run, &run.memory_bytes));
    run.memory = room(&memory, &memory_bytes, run.memory_bytes);
    memset(run.memory, 0xff, (size_t)run.memory_bytes);
    t->report.row_work = t->work;
    t->report.row_peak = t->peak;
    t->report.row_peak_input = t->peak_input;
    if (all) {
        int64_t events = info.actions + info.ranks;
        must(tpp_trace_create(&t->trace, info.ranks, info.actions + 1, NULL));
        run.trace = t->trace;
        t->report.row_memory = t->memory;
        t->report.path = room(&path, &path_bytes, events * (int64_t)sizeof *t->report.path);
        t->report.path_room = events;
    }
    must(tpp_executor_run(e, &run, &t->report));
}

/* --- Figures ---------------------------------------------------------------------------------- */

#define same(got, want, slack) check_same(__LINE__, #got, got, want, slack)

static void check_same(int line, const char *what, double got, double want, double slack) {
    if (!(fabs(got - want) <= slack))
        fail_msg("line %d: %s is %.17g, the second simulator says %.17g", line, what, got, want);
}

static void compare_figures(const told *t, double slack) {
    slack *= truth.makespan;
    same(t->report.makespan, truth.makespan, 0);
    same(t->report.period, truth.period, 0);
    same(t->report.work, truth.work, slack);
    same(t->report.bubble_global, truth.bubble_global, slack);
    same(t->report.bubble_span, truth.bubble_span, slack);
    for (int32_t r = 0; r < truth.info.ranks; r++) {
        same(t->work[r], truth.row_work[r], slack);
        same(t->peak[r], truth.row_peak[r], 0);
        same(t->peak_input[r], truth.row_peak_input[r], 0);
    }
}

static void compare_memory(const told *t, double slack) {
    for (int32_t r = 0; r < truth.info.ranks; r++)
        same(t->memory[r], truth.row_memory[r], slack * truth.row_memory[r]);
}

/* The same actions, in the same order, at the same times. */
static void compare_trace(const told *t) {
    for (int32_t r = 0; r < truth.info.ranks; r++) {
        int64_t count, events, at = 0;
        const tpp_action *a = tpp_schedule_actions(truth.schedule, r, &count);
        const tpp_event *e = tpp_trace_events(t->trace, r, &events);
        for (int64_t i = 0; i < count; i++) {
            if (a[i].op > TPP_OP_W)
                continue;
            assert_true(at < events);
            const second_node *n =
                &truth.nodes[second_find(&truth, a[i].op, a[i].stage, a[i].micro)];
            assert_true(e[at].op == a[i].op && e[at].stage == a[i].stage &&
                        e[at].micro == a[i].micro && e[at].chunk == a[i].chunk);
            same(e[at].start, n->start, 0);
            same(e[at].end, n->end, 0);
            at++;
        }
        if (truth.step[r] >= 0) {
            assert_true(at < events && e[at].op == TPP_OP_STEP);
            same(e[at].start, truth.nodes[truth.step[r]].start, 0);
            same(e[at].end, truth.nodes[truth.step[r]].end, 0);
            at++;
        }
        assert_int_equal(at, events);
    }
}

/* --- The critical path ------------------------------------------------------------------------ */

/* Messages that take no time, one after the other on a link. */
enum { BETWEEN = 16 };

/* True when `from` is what `to` had to wait for to the last, perhaps by messages that take no time,
 * which the path leaves out. */
static bool explains(int32_t from, int32_t to, int depth) {
    const second_node *v = &truth.nodes[to];
    const second_arc *arc = second_between(&truth, from, to);
    if (arc && truth.nodes[from].end + arc->lag == v->start)
        return true;
    for (int32_t e = depth > 0 ? v->arcs_in : -1; e >= 0; e = truth.arcs[e].next_in) {
        const second_node *m = &truth.nodes[truth.arcs[e].from];
        if (m->takes == 0 && truth.arcs[e].lag == 0 && m->end == v->start &&
            explains(from, truth.arcs[e].from, depth - 1))
            return true;
    }
    return false;
}

static void check_path(const told *t) {
    double now = 0;
    int32_t before = -1;
    assert_true(t->report.path_count <= t->report.path_room);
    for (int64_t i = 0; i < t->report.path_count; i++) {
        const tpp_event *e = &t->report.path[i];
        int32_t node = second_find(&truth, e->op, e->stage, e->micro);
        assert_int_equal(e->row, tpp_schedule_rank_of(truth.schedule, e->stage));
        if (node == before)
            continue; /* the second of a pair */
        same(e->start, now, 0);
        same(e->start, truth.nodes[node].start, 0);
        if (e->op < TPP_OP_SEND_F || e->op == TPP_OP_STEP)
            same(e->end, truth.nodes[node].end, 0);
        if (before >= 0 && !explains(before, node, BETWEEN))
            fail_msg("event %lld of the path does not explain the next one", (long long)i - 1);
        now = e->end;
        before = node;
    }
    same(now, truth.makespan, 0);
}

/* --- Cases ------------------------------------------------------------------------------------ */

static void compare(const tpp_schedule *s, const sim_costs *c, bool exact) {
    double slack = exact ? 0 : 1e-9;
    told quick, all;
    tpp_executor *e;
    must(tpp_executor_sim_create(&e, &c->desc));
    simulate(&quick, e, s, false);
    simulate(&all, e, s, true);
    second_run(&truth, s, &c->desc);
    assert_int_equal(truth.done, truth.node_count);
    compare_figures(&quick, slack);
    compare_figures(&all, slack);
    compare_memory(&all, slack);
    compare_trace(&all);
    check_path(&all);
    tpp_trace_destroy(all.trace);
    tpp_executor_destroy(e);
}

static void compare_draws(const tpp_schedule *s, uint64_t *random, int draws) {
    static sim_costs costs;
    tpp_schedule_info info = {.size = sizeof info};
    must(tpp_schedule_query(s, &info));
    for (int i = 0; i < draws; i++) {
        sim_costs_draw(&costs, random, info.stages, i % 2);
        compare(s, &costs, i % 2);
    }
}

static tpp_schedule *made(int32_t kind, int32_t p, int32_t v, int32_t m) {
    tpp_schedule *s = NULL;
    tpp_schedule_desc d = {.size = sizeof d, .kind = kind, .ranks = p, .chunks = v, .micros = m};
    if (tpp_schedule_kind_name(kind))
        tpp_schedule_make(&s, &d);
    return s; /* NULL: the kind is not for this */
}

static void test_every_small_one(void **state) {
    uint64_t random = 1;
    int64_t count = 0;
    (void)state;
    for (int32_t kind = 0; kind < KINDS; kind++) {
        for (int32_t p = 1; p <= 4; p++) {
            for (int32_t m = 1; m <= 6; m++) {
                for (int32_t v = 1; v <= 2; v++) {
                    tpp_schedule *s = made(kind, p, v, m);
                    count += s != NULL;
                    if (s)
                        compare_draws(s, &random, 8);
                    tpp_schedule_destroy(s);
                }
            }
        }
    }
    assert_true(count >= 24 * 5); /* at least the kinds that were there at first */
    second_free(&truth);
}

static int32_t skewed(uint64_t *random, int32_t largest) {
    return sim_between(random, 1, sim_between(random, 1, largest));
}

static void test_random(void **state) {
    uint64_t random = 2;
    (void)state;
    for (int i = 0; i < SCHEDULES; i++) {
        int32_t p = skewed(&random, 16), m = skewed(&random, 64), v = skewed(&random, 8);
        tpp_schedule *s = NULL;
        if (sim_between(&random, 0, 2) == 0)
            s = sim_order(&random, p, v, m);
        while (!s)
            s = made(sim_between(&random, 1, KINDS - 1), p, sim_random(&random) % 2 ? v : 0, m);
        compare_draws(s, &random, COSTS);
        tpp_schedule_destroy(s);
    }
    second_free(&truth);
}

/* A rank may have no stage: forwards alone, and forwards and backwards, the middle rank has none. */
static void test_idle_rank(void **state) {
    const int32_t rank_of[] = {2, 0, 2};
    uint64_t random = 3;
    (void)state;
    for (int32_t halves = 0; halves < 3; halves++) {
        tpp_schedule_build_desc d = {
            .size = sizeof d, .ranks = 3, .stages = 3, .micros = 2, .rank_of = rank_of};
        tpp_schedule *s;
        must(tpp_schedule_build(&s, &d));
        for (int32_t i = 0; i < 6; i++)
            must(tpp_schedule_add(s, rank_of[i / 2], TPP_OP_F, i / 2, i % 2, 0));
        for (int32_t i = 0; i < 6 && halves > 0; i++)
            must(tpp_schedule_add(s, rank_of[2 - i / 2], halves > 1 ? TPP_OP_I : TPP_OP_B,
                                  2 - i / 2, i % 2, 0));
        for (int32_t i = 0; i < 6 && halves > 1; i++)
            must(tpp_schedule_add(s, rank_of[i / 2], TPP_OP_W, i / 2, i % 2, 0));
        must(tpp_schedule_lower(s));
        must(tpp_schedule_finish(s));
        compare_draws(s, &random, 40);
        tpp_schedule_destroy(s);
    }
    second_free(&truth);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_small_one),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_idle_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
