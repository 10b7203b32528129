/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/sched_support.h"
#include "support/sim_second.h"

#include <stdbool.h>
#include <tpp/optimize.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LARGE_M = 3, DRAWS = 20 };
#else
enum { LARGE_M = 4, DRAWS = 60 };
#endif

/* --- A problem ---------------------------------------------------------------------------------- */

enum { STAGES = 16 };

typedef struct problem {
    int32_t p, m;
    double f[STAGES], i[STAGES], w[STAGES], hold[STAGES], held[STAGES];
    double latency, limit;
} problem;

static tpp_sim_desc costs_of(const problem *q, int32_t stages) {
    return (tpp_sim_desc){.size = sizeof(tpp_sim_desc),
                          .stages = stages,
                          .forward = q->f,
                          .backward_input = q->i,
                          .backward_weight = q->w,
                          .memory = q->hold,
                          .memory_weight = q->held,
                          .latency = q->latency};
}

static tpp_optimize_desc desc_of(const problem *q, const tpp_sim_desc *costs) {
    return (tpp_optimize_desc){.size = sizeof(tpp_optimize_desc),
                               .ranks = q->p,
                               .micros = q->m,
                               .placement = TPP_PLACEMENT_LOOPED,
                               .costs = costs,
                               .memory_limit = q->limit,
                               .seconds = 60,
                               .evaluations = 20000};
}

static problem even(int32_t p, int32_t m, double f, double i, double w) {
    problem q = {.p = p, .m = m};
    for (int32_t s = 0; s < STAGES; s++) {
        q.f[s] = f;
        q.i[s] = i;
        q.w[s] = w;
        q.hold[s] = 1;
        q.held[s] = 0.5;
    }
    return q;
}

static uint32_t drawn; /* a small generator: the same numbers everywhere */

static double draw(double from, double to) {
    drawn = drawn * 1664525u + 1013904223u;
    return from + (to - from) * (drawn >> 8) / 16777216.0;
}

static problem uneven(int32_t p, int32_t m) {
    problem q = {.p = p, .m = m};
    for (int32_t s = 0; s < STAGES; s++) {
        q.f[s] = draw(0.5, 2);
        q.i[s] = draw(0.5, 2);
        q.w[s] = draw(0.2, 2);
        q.hold[s] = draw(0.6, 1);
        q.held[s] = draw(0.1, 0.6);
    }
    q.latency = draw(0, 1) < 0.5 ? 0 : draw(0, 0.8);
    q.limit = draw(0, 1) < 0.3 ? 0 : draw(1, 1.2 * m);
    return q;
}

/* --- All orders --------------------------------------------------------------------------------- */

/* Every rank's orders of m F, I and W in which each I has its F before it and each W its I, and that
 * fit the memory; then every choice of one order per rank. Times by sweeping until nothing changes. */
enum { ORDERS = 462, MOST_M = 4, MOST_P = 3 };

typedef struct orders {
    int32_t count[MOST_P];
    char order[MOST_P][ORDERS][3 * MOST_M + 1];
} orders;

static void extend(const problem *q, orders *all, int32_t r, char *text, int f, int i, int w,
                   double memory) {
    int n = f + i + w;
    if (n == 3 * q->m) {
        memcpy(all->order[r][all->count[r]++], text, (size_t)n);
        return;
    }
    if (f < q->m && (q->limit == 0 || memory + q->hold[r] <= q->limit)) {
        text[n] = 'F';
        extend(q, all, r, text, f + 1, i, w, memory + q->hold[r]);
    }
    if (i < f) {
        text[n] = 'I';
        extend(q, all, r, text, f, i + 1, w, memory - q->hold[r] + q->held[r]);
    }
    if (w < i) {
        text[n] = 'W';
        extend(q, all, r, text, f, i, w + 1, memory - q->held[r]);
    }
}

static int set(double *end, double now) {
    int changed = *end != now;
    *end = now;
    return changed;
}

/* Ends of rank r's actions with its neighbours' as they are; the last is returned. */
static double follow(const problem *q, const char *order, int32_t r, double f[][MOST_M],
                     double b[][MOST_M], double *first, int *changed) {
    double now = 0;
    int nf = 0, ni = 0;
    for (int k = 0; k < 3 * q->m; k++) {
        if (order[k] == 'F') {
            double at = r == 0 ? 0 : f[r - 1][nf] + q->latency;
            now = (at > now ? at : now) + q->f[r];
            if (nf == 0)
                *first = now - q->f[r];
            *changed |= set(&f[r][nf++], now);
        } else if (order[k] == 'I') {
            double at = r == q->p - 1 ? 0 : b[r + 1][ni] + q->latency;
            now = (at > now ? at : now) + q->i[r];
            *changed |= set(&b[r][ni++], now);
        } else {
            now += q->w[r];
        }
    }
    return now;
}

/* Starting from 0 the times only rise; those of orders that wait for each other never end. */
static void cost_of(const problem *q, char *const *order, double *span, double *makespan,
                    double limit) {
    double f[MOST_P][MOST_M] = {{0}}, b[MOST_P][MOST_M] = {{0}};
    for (int changed = 1; changed;) {
        changed = 0;
        *span = *makespan = 0;
        for (int32_t r = 0; r < q->p; r++) {
            double first = 0, now = follow(q, order[r], r, f, b, &first, &changed);
            *span = fmax(*span, now - first);
            *makespan = fmax(*makespan, now);
        }
        if (*makespan > limit) {
            *span = *makespan = INFINITY;
            return;
        }
    }
}

typedef struct best {
    double span, makespan;
} best;

static best brute(const problem *q) {
    static orders all;
    char text[3 * MOST_M + 1];
    double work = 0;
    memset(all.count, 0, sizeof all.count);
    for (int32_t r = 0; r < q->p; r++) {
        extend(q, &all, r, text, 0, 0, 0, 0);
        work += q->m * (q->f[r] + q->i[r] + q->w[r]) + 2 * q->m * q->latency;
    }
    best b = {INFINITY, INFINITY};
    int32_t at[MOST_P] = {0};
    for (int32_t r = 0; r < q->p;) {
        char *chosen[MOST_P];
        double span, makespan;
        for (int32_t k = 0; k < q->p; k++)
            chosen[k] = all.order[k][at[k]];
        cost_of(q, chosen, &span, &makespan, 1.01 * work);
        b.span = fmin(b.span, span);
        b.makespan = fmin(b.makespan, makespan);
        for (r = 0; r < q->p && ++at[r] == all.count[r]; r++)
            at[r] = 0;
    }
    return b;
}

/* The schedule is what the report says: by the second simulator, and within the memory. */
static void holds(const problem *q, const tpp_schedule *s, const tpp_sim_desc *costs,
                  const tpp_optimize_report *r) {
    second w = {0};
    second_run(&w, s, costs);
    assert_true(fabs(w.period - r->span) <= 1e-9 * r->span);
    assert_true(fabs(w.makespan - r->makespan) <= 1e-9 * r->makespan);
    double peak = 0;
    for (int32_t k = 0; k < q->p; k++)
        peak = fmax(peak, w.row_memory[k]);
    assert_true(fabs(peak - r->memory_peak) <= 1e-9 * peak);
    if (q->limit > 0)
        assert_true(peak <= q->limit * (1 + 1e-9));
    second_free(&w);
}

static void equals_brute(const problem *q) {
    tpp_sim_desc costs = costs_of(q, q->p);
    best b = brute(q);
    for (int32_t objective = 0; objective < 2; objective++) {
        tpp_optimize_desc d = desc_of(q, &costs);
        d.objective = objective;
        d.evaluations = 0;
        tpp_optimize_report r = {.size = sizeof r};
        tpp_schedule *s;
        assert_ok(tpp_optimize(&s, &d, &r));
        holds(q, s, &costs, &r);
        double right = objective == TPP_OPTIMIZE_SPAN ? b.span : b.makespan;
        if (fabs(r.cost - right) > 1e-9 * right || r.lower_bound > right * (1 + 1e-9) || !r.optimal)
            fail_msg("p %d m %d limit %g objective %d: cost %.12g, bound %.12g, optimal %d; brute "
                     "force %.12g",
                     q->p, q->m, q->limit, objective, r.cost, r.lower_bound, r.optimal, right);
        tpp_schedule_destroy(s);
    }
}

static void test_brute_even(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 3; p++) {
        for (int32_t m = 1; m <= LARGE_M; m++) {
            problem q = even(p, m, 1, 1, 1);
            q.limit = p; /* as 1F1B */
            equals_brute(&q);
            if (p == 3 && m == 4)
                continue; /* 10^8 orders are enough once */
            q = even(p, m, 1, 1.2, 0.8);
            equals_brute(&q);
            q.limit = 2 * p - 1; /* as ZB-H2 */
            equals_brute(&q);
            q.latency = 0.3;
            q.limit = 1;
            equals_brute(&q);
        }
    }
}

static void test_brute_uneven(void **state) {
    (void)state;
    drawn = 7;
    for (int k = 0; k < DRAWS; k++) {
        int32_t p = 1 + k % 3, m = p == 3 ? 1 + k % 2 + (k % 15 == 2) : 1 + k % LARGE_M;
        problem q = uneven(p, m);
        equals_brute(&q);
    }
}

/* --- Larger ones: never below the bound, whatever else is tried --------------------------------- */

/* Any built-in order that fits is no better than what was found, and costs no less than the bound. */
static void against_built_in(const problem *q, int32_t chunks, tpp_placement placement) {
    static const tpp_schedule_kind kinds[] = {
        TPP_SCHEDULE_1F1B, TPP_SCHEDULE_ZB_H1,  TPP_SCHEDULE_ZB_H2, TPP_SCHEDULE_ZB_INTERLEAVED,
        TPP_SCHEDULE_ZB_V, TPP_SCHEDULE_V_HALF, TPP_SCHEDULE_V_MIN, TPP_SCHEDULE_GPIPE};
    tpp_sim_desc costs = costs_of(q, q->p * chunks);
    tpp_optimize_desc d = desc_of(q, &costs);
    d.placement = placement;
    d.chunks = chunks;
    d.evaluations = 300;
    tpp_optimize_report r = {.size = sizeof r};
    tpp_schedule *s;
    assert_ok(tpp_optimize(&s, &d, &r));
    holds(q, s, &costs, &r);
    assert_true(r.lower_bound <= r.cost);
    tpp_schedule_destroy(s);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        tpp_schedule_desc kind = sched_desc(kinds[k], q->p, chunks, q->m, 0);
        if (tpp_schedule_make(&s, &kind) < 0)
            continue;
        second w = {0};
        second_run(&w, s, &costs);
        double peak = 0;
        for (int32_t i = 0; i < q->p; i++)
            peak = fmax(peak, w.row_memory[i]);
        bool same = tpp_schedule_rank_of(s, q->p) == (placement == TPP_PLACEMENT_V ? q->p - 1 : 0);
        if ((chunks == 1 || same) && (q->limit == 0 || peak <= q->limit)) {
            assert_true(w.period >= r.lower_bound * (1 - 1e-9));
            assert_true(w.period >= r.cost * (1 - 1e-9));
        }
        second_free(&w);
        tpp_schedule_destroy(s);
    }
}

static void test_random(void **state) {
    (void)state;
    drawn = 11;
    for (int k = 0; k < DRAWS; k++) {
        int32_t p = 1 + k % 8, m = 1 + k % 11;
        problem q = uneven(p, m);
        q.limit = k % 4 == 0 ? 0 : draw(2.2, 2 * p + 2);
        against_built_in(&q, 1, TPP_PLACEMENT_LOOPED);
        against_built_in(&q, 2, TPP_PLACEMENT_LOOPED);
        against_built_in(&q, 2, TPP_PLACEMENT_V);
    }
}

/* --- How it behaves ------------------------------------------------------------------------------ */

static char *found(const tpp_optimize_desc *d) {
    tpp_schedule *s;
    assert_ok(tpp_optimize(&s, d, NULL));
    char *text = sched_text(s);
    tpp_schedule_destroy(s);
    return text;
}

static void test_deterministic(void **state) {
    (void)state;
    drawn = 3;
    problem q = uneven(5, 9);
    q.limit = 4;
    tpp_sim_desc costs = costs_of(&q, 5);
    tpp_optimize_desc d = desc_of(&q, &costs);
    d.evaluations = 3000;
    d.seed = 5;
    char *a = found(&d), *b = found(&d);
    assert_string_equal(a, b);
    free(a);
    free(b);
}

static int32_t stop(void *ctx, const tpp_optimize_state *state) {
    assert_true(isfinite(state->cost) && state->cost >= state->lower_bound);
    ++*(int *)ctx;
    return 1;
}

static void test_stopped(void **state) {
    (void)state;
    drawn = 4;
    problem q = uneven(8, 40);
    tpp_sim_desc costs = costs_of(&q, 8);
    tpp_optimize_desc d = desc_of(&q, &costs);
    int calls = 0;
    d.evaluations = 0;
    d.seconds = 50;
    d.progress = stop;
    d.progress_ctx = &calls;
    tpp_optimize_report r = {.size = sizeof r};
    tpp_schedule *s;
    assert_ok(tpp_optimize(&s, &d, &r));
    assert_true(calls == 1 || (calls == 0 && r.optimal));
    assert_true(r.seconds < 20);
    tpp_schedule_destroy(s);
}

/* Free placement: V may take what looped cannot reach (1.5B of Qi et al. 2023, 24 micro-batches). */
static void test_both_placements(void **state) {
    (void)state;
    problem q = even(8, 24, 18.522, 18.086, 9.337);
    q.limit = 16;
    q.latency = 0.601;
    tpp_sim_desc costs = costs_of(&q, 8);
    tpp_optimize_desc d = desc_of(&q, &costs);
    d.placement = 0;
    d.evaluations = 4000;
    tpp_optimize_report r = {.size = sizeof r};
    tpp_schedule *s;
    assert_ok(tpp_optimize(&s, &d, &r));
    assert_int_equal(r.placement, TPP_PLACEMENT_V);
    double work = 24 * (18.522 + 18.086 + 9.337);
    assert_true((r.cost - work) / r.cost < 0.01); /* looped: 0.0433 at best */
    tpp_schedule_destroy(s);
}

static void refuses(problem q, tpp_optimize_desc change, tpp_status status, const char *words) {
    tpp_sim_desc costs = costs_of(&q, q.p);
    tpp_optimize_desc d = change;
    d.costs = change.costs ? change.costs : &costs;
    tpp_schedule *s = (tpp_schedule *)&d;
    assert_fails(tpp_optimize(&s, &d, NULL), status, words);
    assert_null(s);
}

static void test_refusals(void **state) {
    (void)state;
    problem q = even(4, 8, 1, 1, 1);
    tpp_optimize_desc good = desc_of(&q, NULL), d = good;
    d.ranks = 0;
    refuses(q, d, TPP_ERR_INVALID, "desc.ranks = 0; it must be at least 1");
    d = good;
    d.ranks = 5;
    refuses(q, d, TPP_ERR_INVALID, "desc.costs.stages = 4; it must be ranks * chunks = 5");
    d = good;
    d.placement = 3;
    refuses(q, d, TPP_ERR_INVALID, "desc.placement = 3; valid: 0 (both), 1 (LOOPED), 2 (V)");
    d = good;
    d.memory_limit = 0.5;
    refuses(q, d, TPP_ERR_INVALID,
            "desc.memory_limit = 0.5, but rank 0 needs 1 for one micro-batch");
    d = good;
    d.memory_limit = NAN;
    refuses(q, d, TPP_ERR_INVALID, "desc.memory_limit = nan");
    d = good;
    d.seconds = -1;
    refuses(q, d, TPP_ERR_INVALID, "desc.seconds = -1");
    d = good;
    d.objective = 2;
    refuses(q, d, TPP_ERR_INVALID, "desc.objective = 2");
    d = good;
    d.size = 4;
    refuses(q, d, TPP_ERR_INVALID, "desc.size");
    q.f[2] = -1;
    refuses(q, good, TPP_ERR_INVALID, "forward[2] = -1");
    assert_fails(tpp_optimize(NULL, &good, NULL), TPP_ERR_INVALID, "out is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_brute_even), cmocka_unit_test(test_brute_uneven),
        cmocka_unit_test(test_random),     cmocka_unit_test(test_deterministic),
        cmocka_unit_test(test_stopped),    cmocka_unit_test(test_both_placements),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
