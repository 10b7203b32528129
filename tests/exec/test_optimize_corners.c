/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/sched_support.h"
#include "support/sim_second.h"

#include <tpp/optimize.h>

enum { STAGES = 8 };

typedef struct instance {
    double f[STAGES], i[STAGES], w[STAGES], hold[STAGES], held[STAGES], state[STAGES];
    double limit, best;
} instance;

static tpp_sim_desc costs_of(const instance *q, int32_t stages) {
    return (tpp_sim_desc){.size = sizeof(tpp_sim_desc),
                          .stages = stages,
                          .forward = q->f,
                          .backward_input = q->i,
                          .backward_weight = q->w,
                          .memory = q->hold,
                          .memory_weight = q->held,
                          .memory_state = q->state};
}

static tpp_optimize_desc desc_of(const tpp_sim_desc *costs, int32_t ranks, int32_t micros) {
    return (tpp_optimize_desc){.size = sizeof(tpp_optimize_desc),
                               .ranks = ranks,
                               .micros = micros,
                               .placement = TPP_PLACEMENT_LOOPED,
                               .costs = costs,
                               .seconds = 60};
}

/* What the report says is so, by the second simulator. */
static void agrees(const tpp_schedule *s, const tpp_sim_desc *costs, const tpp_optimize_report *r,
                   double limit) {
    second w = {0};
    second_run(&w, s, costs);
    double peak = 0;
    for (int32_t k = 0; k < w.info.ranks; k++)
        peak = fmax(peak, w.row_memory[k]);
    assert_true(fabs(w.period - r->span) <= 1e-9 * r->span);
    assert_true(fabs(w.makespan - r->makespan) <= 1e-9 * r->makespan);
    assert_true(fabs(peak - r->memory_peak) <= 1e-9 * peak);
    assert_true(limit == 0 || peak <= limit * (1 + 1e-9));
    second_free(&w);
}

/* Two ranks, two chunks each, two micro-batches, whose first good orders are not the best. `best`
 * was found by going through all states (how many of each action are done) with all times that no
 * other way to the same state undercuts. */
static void test_proofs(void **state) {
    (void)state;
    const instance all[] = {
        {.f = {2, 4, 4, 3}, /* little of the limit is left beside memory_state */
         .i = {2, 2, 4, 4},
         .w = {4, 3, 2, 2},
         .hold = {1, 1, 1, 1},
         .held = {0.327985, 0, 1, 0.244097},
         .state = {16, 0, 6, 16},
         .limit = 24.2391647,
         .best = 54},
        {.f = {1, 0, 2, 2}, /* actions that take no time feed others of the same moment */
         .i = {0, 3, 1, 3},
         .w = {2, 0, 1, 2},
         .hold = {1, 1, 1, 1},
         .held = {0.413224, 0.176472, 0, 0},
         .limit = 2,
         .best = 27},
        {.f = {1, 1e-19, 1, 1e-19}, /* or none that shows beside the others */
         .i = {1e-19, 1, 1, 1},
         .w = {1, 1, 1, 1},
         .hold = {1, 1, 1, 1},
         .held = {0.361052, 0, 0.213487, 0.785853},
         .limit = 3.54641175,
         .best = 10},
    };
    const int32_t objectives[] = {TPP_OPTIMIZE_MAKESPAN, TPP_OPTIMIZE_SPAN, TPP_OPTIMIZE_SPAN};
    for (int k = 0; k < 3; k++) {
        tpp_sim_desc costs = costs_of(&all[k], 4);
        tpp_optimize_desc d = desc_of(&costs, 2, 2);
        d.chunks = 2;
        d.memory_limit = all[k].limit;
        d.objective = objectives[k];
        d.evaluations = 1500;
        tpp_optimize_report r = {.size = sizeof r};
        tpp_schedule *s;
        assert_ok(tpp_optimize(&s, &d, &r));
        agrees(s, &costs, &r, d.memory_limit);
        if (r.lower_bound > all[k].best * (1 + 1e-9) || !r.optimal ||
            fabs(r.cost - all[k].best) > 1e-9 * r.cost)
            fail_msg("%d: cost %g, bound %g, optimal %d; best %g", k, r.cost, r.lower_bound,
                     r.optimal, all[k].best);
        tpp_schedule_destroy(s);
    }
}

/* W may hold more than F to I: then an I needs memory as well. */
static void test_weight_holds_more(void **state) {
    (void)state;
    for (int k = 0; k < 12; k++) {
        instance q = {.limit = 0};
        int32_t chunks = 1 + k % 2, ranks = 1 + k % 4;
        for (int32_t s = 0; s < STAGES; s++) {
            q.f[s] = q.i[s] = 1;
            q.w[s] = 0.5 + 0.25 * (k % 3);
            q.hold[s] = 1;
            q.held[s] = 1 + (s + k) % 4;
        }
        tpp_sim_desc costs = costs_of(&q, ranks * chunks);
        tpp_optimize_desc d = desc_of(&costs, ranks, 5);
        d.chunks = chunks;
        d.memory_limit = 5 + k / 3;
        d.evaluations = 1500;
        tpp_optimize_report r = {.size = sizeof r};
        tpp_schedule *s;
        assert_ok(tpp_optimize(&s, &d, &r));
        agrees(s, &costs, &r, d.memory_limit);
        tpp_schedule_destroy(s);
    }
    instance q = {.f = {1}, .i = {1}, .w = {1}, .hold = {2}, .held = {3}};
    tpp_sim_desc costs = costs_of(&q, 1);
    tpp_optimize_desc d = desc_of(&costs, 1, 2);
    d.memory_limit = 2.5;
    tpp_schedule *s;
    assert_fails(tpp_optimize(&s, &d, NULL), TPP_ERR_INVALID,
                 "desc.memory_limit = 2.5, but rank 0 needs 3 for one micro-batch");
}

/* Free placement, links that differ: the way back of V takes the same edges as the way there. */
static void test_links_of_halves(void **state) {
    (void)state;
    instance q = {.limit = 4};
    double latency[4] = {0.1, 0.4, 0.2, 99}, up[4] = {0.05, 0.3, 0.15, 99},
           down[4] = {99, 0.2, 0.1, 0.25};
    double v_latency[8], v_up[8] = {0}, v_down[8] = {0};
    instance half = {.limit = 0};
    for (int32_t s = 0; s < 8; s++) {
        int32_t rank = s < 4 ? s : 7 - s;
        q.f[s] = q.i[s] = q.w[s] = q.hold[s] = 4;
        half.f[s] = half.i[s] = half.w[s] = half.hold[s] = 2;
        v_latency[s] = latency[s < 3 ? s : rank > 0 ? rank - 1 : 0];
        v_up[s] = s < 4 ? up[rank] : down[rank];
        v_down[s] = s < 4 ? down[rank] : up[rank];
    }
    tpp_sim_desc costs = costs_of(&q, 4), halves = costs_of(&half, 8);
    costs.edge_latency = latency;
    costs.send_forward = up;
    costs.send_backward = down;
    halves.edge_latency = v_latency;
    halves.send_forward = v_up;
    halves.send_backward = v_down;
    costs.memory_weight = halves.memory_weight = NULL;
    tpp_optimize_desc d = desc_of(&costs, 4, 8);
    d.placement = 0;
    d.memory_limit = 16;
    d.evaluations = 2000;
    tpp_optimize_report r = {.size = sizeof r};
    tpp_schedule *s;
    assert_ok(tpp_optimize(&s, &d, &r));
    assert_int_equal(r.placement, TPP_PLACEMENT_V);
    agrees(s, &halves, &r, d.memory_limit);
    tpp_schedule_destroy(s);
}

static void fails(const tpp_sim_desc *costs, tpp_optimize_desc d, tpp_status status,
                  const char *words) {
    d.costs = costs;
    tpp_schedule *s = (tpp_schedule *)&d;
    assert_fails(tpp_optimize(&s, &d, NULL), status, words);
    assert_null(s);
}

static void test_extremes(void **state) {
    (void)state;
    instance q = {.f = {1, 1}, .i = {1, 1}, .w = {1, 1}, .hold = {1, 1}, .held = {1, 1}};
    double huge[2] = {1e308, 1e308};
    tpp_sim_desc good = costs_of(&q, 2), c = good;
    tpp_optimize_desc d = desc_of(&good, 2, 4);
    c.forward = huge;
    fails(&c, d, TPP_ERR_OVERFLOW, "the times of desc.costs add up to more than a double holds");
    c = good;
    c.latency = 1e308;
    fails(&c, d, TPP_ERR_OVERFLOW, "the times of desc.costs add up");
    c = good;
    c.memory = huge;
    fails(&c, d, TPP_ERR_OVERFLOW, "the memories of desc.costs add up");
    d.ranks = INT32_MAX;
    d.chunks = 8;
    fails(&good, d, TPP_ERR_INVALID, "it must be ranks * chunks = 17179869176");
    d = desc_of(&good, 2, 4);
    tpp_schedule *s = NULL;
    tpp_optimize_report r = {.size = 0};
    assert_fails(tpp_optimize(&s, &d, &r), TPP_ERR_INVALID, "report.size = 0");
    assert_null(s);
    r.size = sizeof r;
    for (d.placement = 0; d.placement <= TPP_PLACEMENT_LOOPED; d.placement++) {
        d.evaluations = 1; /* of each placement */
        assert_ok(tpp_optimize(&s, &d, &r));
        assert_int_equal(r.evaluations, d.placement == 0 ? 2 : 1);
        tpp_schedule_destroy(s);
        d.evaluations = 0;
        assert_ok(tpp_optimize(&s, &d, &r));
        assert_true(r.optimal && (r.gap == 0 || d.placement == 0));
        tpp_schedule_destroy(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proofs),
        cmocka_unit_test(test_weight_holds_more),
        cmocka_unit_test(test_links_of_halves),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
