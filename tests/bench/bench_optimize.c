/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/sched_support.h"
#include "support/zb_tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tpp/optimize.h>

/* Searches for the rows of the zero-bubble paper's table 5 that its authors searched for (ZB-1p,
 * ZB-2p; Qi et al. 2023), looped as theirs and in a V with the same memory: bubble rate found, and no
 * order's rate is below the bound. Goal, looped: not above the published rate within 1 s, 10 s for 32
 * ranks. Run with TPP_SOURCE_DIR set. */

enum { RANKS = 32 };

static double costs[5][2 * RANKS];

static tpp_optimize_report search(int p, int m, int times, const zb_times *t, const zb_model *z,
                                  int chunks) {
    const double whole[5] = {t->f, t->b, t->w, 34.0 * z->hidden + 5.0 * z->heads * z->seq,
                             32.0 * z->hidden};
    for (int k = 0; k < 5; k++)
        for (int s = 0; s < p * chunks; s++)
            costs[k][s] = whole[k] / chunks;
    tpp_sim_desc sim = {.size = sizeof sim,
                        .stages = p * chunks,
                        .forward = costs[0],
                        .backward_input = costs[1],
                        .backward_weight = costs[2],
                        .memory = costs[3],
                        .memory_weight = costs[4],
                        .latency = t->comm};
    tpp_optimize_desc d = {.size = sizeof d,
                           .ranks = p,
                           .micros = m,
                           .placement = chunks == 1 ? TPP_PLACEMENT_LOOPED : TPP_PLACEMENT_V,
                           .costs = &sim,
                           .memory_limit = times * p * whole[3],
                           .seconds = p > 16 ? 10 : 1};
    tpp_optimize_report r = {.size = sizeof r};
    tpp_schedule *s;
    if (tpp_optimize(&s, &d, &r) < 0) {
        fprintf(stderr, "%s\n", tpp_message());
        exit(1);
    }
    tpp_schedule_destroy(s);
    return r;
}

static void row(const char *title, int p, int m, int times, double published, const zb_times *t,
                const zb_model *z) {
    double work = m * (t->f + t->b + t->w);
    tpp_optimize_report a = search(p, m, times, t, z, 1), v = search(p, m, times, t, z, 2);
    printf("%-24s %9.4f | %8.5f %8.5f %7.3f s | %8.5f %8.5f %7.3f s%s\n", title, published,
           1 - work / a.cost, 1 - work / a.lower_bound, a.seconds, 1 - work / v.cost,
           1 - work / v.lower_bound, v.seconds,
           1 - work / a.cost > published + 0.00005 ? "  ABOVE" : "");
    fflush(stdout);
}

int main(void) {
    char *rates = sched_file("zb_bubble_rates.csv"),
         *profiled = sched_file("zb_profiled_times.csv"), *models = sched_file("zb_models.csv");
    if (!rates || !profiled || !models) {
        fprintf(stderr, "set TPP_SOURCE_DIR to the source tree\n");
        return 2;
    }
    printf("%-24s published | looped   bound       time | V        bound       time\n", "row");
    for (const char *line = strchr(rates, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
        char model[16], title[64];
        int p, m, times;
        double published;
        if (sscanf(line + 1, "%15[^,],%d,%d,ZB-%dp,%lf", model, &p, &m, &times, &published) != 5)
            continue;
        zb_times t = zb_times_of(profiled, model, p, m);
        zb_model z = zb_model_of(models, model);
        snprintf(title, sizeof title, "%s p %d m %d ZB-%dp", model, p, m, times);
        row(title, p, m, times, published, &t, &z);
    }
    free(rates);
    free(profiled);
    free(models);
    return 0;
}
