/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/exec_sim.h"
#include "support/sched_support.h"
#include "support/zb_tables.h"

#include <tpp/optimize.h>

/* What the authors of the zero-bubble paper found by search (ZB-1p and ZB-2p of table 5), with the
 * memory of p or 2 p micro-batches: M_B = 34 h + 5 a s bytes a token and layer until I, M_W = 32 h
 * until W. */

enum { RANKS = 32 };

typedef struct problem {
    double f[RANKS], i[RANKS], w[RANKS], hold[RANKS], held[RANKS];
    tpp_sim_desc costs;
} problem;

static void fill(problem *q, int32_t p, const zb_times *t, const zb_model *z) {
    for (int32_t r = 0; r < p; r++) {
        q->f[r] = t->f;
        q->i[r] = t->b;
        q->w[r] = t->w;
        q->hold[r] = 34.0 * z->hidden + 5.0 * z->heads * z->seq;
        q->held[r] = 32.0 * z->hidden;
    }
    q->costs = (tpp_sim_desc){.size = sizeof q->costs,
                              .stages = p,
                              .forward = q->f,
                              .backward_input = q->i,
                              .backward_weight = q->w,
                              .memory = q->hold,
                              .memory_weight = q->held,
                              .latency = t->comm};
}

/* The rate is that of the simulator, which also says what the schedule holds. */
static double rate_of(const problem *q, int32_t m, const tpp_schedule *s, double limit) {
    double memory[RANKS];
    tpp_run_report report = {.size = sizeof report, .row_memory = memory};
    exec_sim_report(s, &q->costs, &report);
    for (int32_t r = 0; r < q->costs.stages; r++)
        assert_true(memory[r] <= limit * (1 + 1e-9));
    return (report.period - m * (q->f[0] + q->i[0] + q->w[0])) / report.period;
}

static int wrong;

static void row(const problem *q, const char *title, int32_t m, int32_t times, double published) {
    int32_t p = q->costs.stages;
    double limit = (double)times * p * q->hold[0];
    tpp_optimize_desc d = {.size = sizeof d,
                           .ranks = p,
                           .micros = m,
                           .placement = TPP_PLACEMENT_LOOPED,
                           .costs = &q->costs,
                           .memory_limit = limit,
                           .seconds = 600,
                           .evaluations = 5000};
    tpp_optimize_report r = {.size = sizeof r};
    tpp_schedule *s;
    assert_ok(tpp_optimize(&s, &d, &r));
    double rate = rate_of(q, m, s, limit);
    if (!(rate <= published + 0.00005) || !r.optimal) { /* four decimals were printed */
        print_error("%s: %.6f, published %.4f, bound %.6f, %lld evaluations\n", title, rate,
                    published, r.lower_bound, (long long)r.evaluations);
        wrong++;
    }
    tpp_schedule_destroy(s);
}

/* Each row is reached or beaten, and proved: no order of a looped placement does better. */
static void test_rows(void **state) {
    char *rates = sched_file("zb_bubble_rates.csv"),
         *profiled = sched_file("zb_profiled_times.csv"), *models = sched_file("zb_models.csv");
    int compared = 0;
    (void)state;
    assert_true(rates && profiled && models);
    for (const char *line = strchr(rates, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
        char model[16], title[64];
        int p, m, times;
        double published;
        if (sscanf(line + 1, "%15[^,],%d,%d,ZB-%dp,%lf", model, &p, &m, &times, &published) != 5)
            continue;
        zb_times t = zb_times_of(profiled, model, p, m);
        zb_model z = zb_model_of(models, model);
        problem q;
        fill(&q, p, &t, &z);
        snprintf(title, sizeof title, "%s p %d m %d ZB-%dp", model, p, m, times);
        row(&q, title, m, times, published);
        compared++;
    }
    assert_int_equal(compared, 24);
    assert_int_equal(wrong, 0);
    free(rates);
    free(profiled);
    free(models);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
