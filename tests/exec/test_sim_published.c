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

/* Bubble rates of the zero-bubble paper (Qi et al. 2023, tables 3, 5 and 9) from its profiled times.
 * A rate is idle time of a step by the whole step, which is the longest span of a stage; messages
 * take T_comm and occupy nobody. */

/* Idle time by the whole step, all stages alike; `v` chunks share the times of a stage. */
static double rate_of(tpp_schedule_kind kind, int32_t p, int32_t v, int32_t m, const zb_times *t,
                      uint32_t flags) {
    tpp_schedule *s = exec_schedule(kind, p, v, m, 0);
    double *numbers = malloc(3 * (size_t)(p * v) * sizeof *numbers);
    tpp_sim_desc d = {.size = sizeof d,
                      .flags = flags,
                      .stages = p * v,
                      .forward = numbers,
                      .backward_input = numbers + p * v,
                      .backward_weight = numbers + 2 * p * v,
                      .latency = t->comm};
    for (int32_t i = 0; i < p * v; i++) {
        numbers[i] = t->f / v;
        numbers[p * v + i] = t->b / v;
        numbers[2 * p * v + i] = t->w / v;
    }
    tpp_run_report report = {.size = sizeof report};
    exec_sim_report(s, &d, &report);
    tpp_schedule_destroy(s);
    free(numbers);
    return (report.period - m * (t->f + t->b + t->w)) / report.period;
}

/* ZB-1p is the paper's search within the memory of 1F1B: it finds ZB-H1's time. */
static tpp_schedule_kind kind_of(const char *name) {
    static const struct {
        const char *name;
        tpp_schedule_kind kind;
    } kinds[] = {{"1F1B", TPP_SCHEDULE_1F1B},
                 {"1F1B-I", TPP_SCHEDULE_INTERLEAVED},
                 {"ZB-H1", TPP_SCHEDULE_ZB_H1},
                 {"ZB-1p", TPP_SCHEDULE_ZB_H1},
                 {"ZB-H2", TPP_SCHEDULE_ZB_H2}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, name) == 0)
            return kinds[i].kind;
    }
    return 0; /* ZB-2p: found by a search */
}

static void test_rates(void **state) {
    char *rates = sched_file("zb_bubble_rates.csv"),
         *profiled = sched_file("zb_profiled_times.csv"), *models = sched_file("zb_models.csv");
    int compared = 0, wrong = 0;
    (void)state;
    assert_true(rates && profiled && models);
    for (const char *line = strchr(rates, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
        char model[16], name[16];
        int p, m;
        double want;
        assert_int_equal(sscanf(line + 1, "%15[^,],%d,%d,%15[^,],%lf", model, &p, &m, name, &want),
                         5);
        tpp_schedule_kind kind = kind_of(name);
        if (kind == 0)
            continue;
        zb_times t = zb_times_of(profiled, model, p, m);
        int interleaved = kind == TPP_SCHEDULE_INTERLEAVED;
        double got = rate_of(kind, p, interleaved ? zb_model_of(models, model).chunks : 1, m, &t,
                             interleaved ? TPP_SIM_PAPER_EDGES : 0);
        compared++;
        if (!(fabs(got - want) <= 0.00005)) { /* equal in the four decimals that were printed */
            print_error("%s p %d m %d %s: %.6f, published %.4f\n", model, p, m, name, got, want);
            wrong++;
        }
    }
    assert_int_equal(compared, 60);
    assert_int_equal(wrong, 0);
    free(rates);
    free(profiled);
    free(models);
}

/* With all edges the interleaved order takes longer than published, by up to 0.0035 of the step. */
static void test_all_edges(void **state) {
    char *profiled = sched_file("zb_profiled_times.csv");
    zb_times t = zb_times_of(profiled, "1.5B", 8, 24);
    (void)state;
    double paper = rate_of(TPP_SCHEDULE_INTERLEAVED, 8, 3, 24, &t, TPP_SIM_PAPER_EDGES);
    double all = rate_of(TPP_SCHEDULE_INTERLEAVED, 8, 3, 24, &t, 0);
    assert_true(all > paper && all < paper + 0.0035);
    free(profiled);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_all_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
