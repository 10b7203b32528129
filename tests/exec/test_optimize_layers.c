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

enum { LAYERS = 200, STAGES = 16 };

typedef struct model {
    double f[LAYERS], i[LAYERS], w[LAYERS];
} model;

static uint32_t drawn;

static double draw(double from, double to) {
    drawn = drawn * 1664525u + 1013904223u;
    return from + (to - from) * (drawn >> 8) / 16777216.0;
}

static void fill(model *a, int32_t layers) {
    for (int32_t k = 0; k < layers; k++) {
        a->f[k] = draw(0.5, 2);
        a->i[k] = draw(0.5, 2);
        a->w[k] = draw(0.2, 2);
    }
}

static double part(const double *costs, int32_t from, int32_t to) {
    double sum = 0;
    for (int32_t k = from; k < to; k++)
        sum += costs[k];
    return sum;
}

/* What a split costs, by the second simulator. */
static second cost_of(const model *a, const tpp_schedule *s, const int32_t *first) {
    double f[STAGES], i[STAGES], w[STAGES];
    tpp_schedule_info info = {.size = sizeof info};
    assert_ok(tpp_schedule_query(s, &info));
    for (int32_t k = 0; k < info.stages; k++) {
        const int32_t *at = first + k % info.depth;
        f[k] = part(a->f, at[0], at[1]);
        i[k] = part(a->i, at[0], at[1]);
        w[k] = part(a->w, at[0], at[1]);
    }
    tpp_sim_desc d = {.size = sizeof d,
                      .stages = info.stages,
                      .forward = f,
                      .backward_input = i,
                      .backward_weight = w,
                      .latency = 0.1};
    second out = {0};
    second_run(&out, s, &d);
    return out;
}

static tpp_optimize_layers_desc desc_of(const model *a, int32_t layers, const tpp_schedule *s) {
    return (tpp_optimize_layers_desc){.size = sizeof(tpp_optimize_layers_desc),
                                      .layers = layers,
                                      .forward = a->f,
                                      .backward_input = a->i,
                                      .backward_weight = a->w,
                                      .schedule = s,
                                      .latency = 0.1};
}

/* Every split of `layers` over 4 stages. */
static double brute(const model *a, int32_t layers, const tpp_schedule *s, bool span) {
    double best = INFINITY;
    for (int32_t x = 1; x < layers - 2; x++) {
        for (int32_t y = x + 1; y < layers - 1; y++) {
            for (int32_t z = y + 1; z < layers; z++) {
                const int32_t first[] = {0, x, y, z, layers};
                second got = cost_of(a, s, first);
                best = fmin(best, span ? got.period : got.makespan);
                second_free(&got);
            }
        }
    }
    return best;
}

static void test_brute(void **state) {
    (void)state;
    static const struct {
        tpp_schedule_kind kind;
        int32_t ranks, chunks;
    } cases[] = {{TPP_SCHEDULE_1F1B, 4, 1},        {TPP_SCHEDULE_ZB_H1, 4, 1},
                 {TPP_SCHEDULE_INTERLEAVED, 2, 2}, {TPP_SCHEDULE_ZB_V, 2, 2},
                 {TPP_SCHEDULE_DUALPIPE, 4, 2},    {TPP_SCHEDULE_GPIPE, 4, 1}};
    drawn = 5;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        for (int32_t objective = 0; objective < 2; objective++) {
            model a;
            fill(&a, 10);
            tpp_schedule *s = sched_made(cases[k].kind, cases[k].ranks, cases[k].chunks, 8, 0);
            tpp_optimize_layers_desc d = desc_of(&a, 10, s);
            d.objective = objective;
            tpp_optimize_report r = {.size = sizeof r};
            int32_t first[STAGES + 1];
            assert_ok(tpp_optimize_layers(first, &d, &r));
            double right = brute(&a, 10, s, objective == TPP_OPTIMIZE_SPAN);
            assert_true(fabs(r.cost - right) <= 1e-9 * right);
            assert_int_equal(r.optimal, 1);
            assert_true(r.lower_bound <= right * (1 + 1e-9));
            second got = cost_of(&a, s, first);
            assert_true(fabs(r.span - got.period) <= 1e-9 * right);
            assert_true(fabs(r.makespan - got.makespan) <= 1e-9 * right);
            second_free(&got);
            tpp_schedule_destroy(s);
        }
    }
}

/* A large vocabulary's head at the end: the last stage gets fewer blocks, and the step is shorter than
 * with the even split. */
static void test_model_with_head(void **state) {
    (void)state;
    model a;
    for (int32_t k = 0; k < 82; k++)
        a.f[k] = a.i[k] = a.w[k] = k == 0 ? 0.05 : k == 81 ? 4 : 1;
    tpp_schedule *s = sched_made(TPP_SCHEDULE_INTERLEAVED, 8, 2, 32, 0);
    tpp_optimize_layers_desc d = desc_of(&a, 82, s);
    tpp_optimize_report r = {.size = sizeof r};
    int32_t first[STAGES + 1], even[STAGES + 1], count;
    assert_ok(tpp_optimize_layers(first, &d, &r));
    assert_int_equal(first[0], 0);
    assert_int_equal(first[16], 82);
    for (int32_t k = 0; k < 16; k++) {
        assert_true(first[k] < first[k + 1]);
        assert_ok(tpp_schedule_partition(82, 16, k, &even[k], &count));
    }
    even[16] = 82;
    second got = cost_of(&a, s, even);
    assert_true(r.cost < 0.95 * got.period);
    second_free(&got);
    assert_true(first[16] - first[15] < 4);
    assert_int_equal(r.optimal, 0);
    tpp_schedule_destroy(s);
}

static void test_refusals(void **state) {
    (void)state;
    model a;
    fill(&a, 10);
    tpp_schedule *s = sched_made(TPP_SCHEDULE_1F1B, 4, 1, 8, 0);
    tpp_schedule *raw = sched_created(TPP_SCHEDULE_1F1B, 4, 1, 8, 0);
    int32_t first[5];
    tpp_optimize_layers_desc d = desc_of(&a, 3, s);
    assert_fails(tpp_optimize_layers(first, &d, NULL), TPP_ERR_INVALID,
                 "desc.layers = 3, but the schedule has 4 stages");
    d = desc_of(&a, 10, raw);
    assert_fails(tpp_optimize_layers(first, &d, NULL), TPP_ERR_INVALID, "not finished");
    d = desc_of(&a, 10, s);
    d.backward_weight = NULL;
    assert_fails(tpp_optimize_layers(first, &d, NULL), TPP_ERR_INVALID,
                 "desc.backward_weight is NULL");
    a.f[9] = NAN;
    d = desc_of(&a, 10, s);
    assert_fails(tpp_optimize_layers(first, &d, NULL), TPP_ERR_INVALID, "desc.forward[9] = nan");
    assert_fails(tpp_optimize_layers(NULL, &d, NULL), TPP_ERR_INVALID, "first is NULL");
    tpp_schedule_destroy(s);
    tpp_schedule_destroy(raw);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_brute),
        cmocka_unit_test(test_model_with_head),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
