/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */

/* How much time does memory buy? For the 1.5 billion parameter model of the zero-bubble paper (Qi et
 * al. 2023, table 9: milliseconds measured on 8 GPUs) the best schedule in the memory of so many
 * micro-batches, with the stages in a row or in a V, and the proof how far from best it can be. The
 * last one is drawn into best_schedule.svg. */

#include <stdio.h>
#include <stdlib.h>
#include <tpp/optimize.h>

enum { RANKS = 8, MICROS = 24, CHUNKS = 2 };

static void must(tpp_status status) {
    if (status == TPP_OK)
        return;
    fprintf(stderr, "%s: %s\n", tpp_status_name(status), tpp_message());
    exit(1);
}

/* Costs of RANKS * chunks stages, of which a rank's together take what is measured. */
static tpp_sim_desc costs_of(double costs[5][RANKS * CHUNKS], int chunks) {
    static const double whole[5] = {18.522, 18.086, 9.337, 1, 0.366};
    for (int k = 0; k < 5; k++)
        for (int s = 0; s < RANKS * chunks; s++)
            costs[k][s] = whole[k] / chunks;
    return (tpp_sim_desc){.size = sizeof(tpp_sim_desc),
                          .stages = RANKS * chunks,
                          .forward = costs[0],
                          .backward_input = costs[1],
                          .backward_weight = costs[2],
                          .memory = costs[3],        /* a micro-batch, from F to I */
                          .memory_weight = costs[4], /* what of it is left until W */
                          .latency = 0.601};
}

static tpp_status put(void *ctx, const char *bytes, int64_t count) {
    return fwrite(bytes, 1, (size_t)count, ctx) == (size_t)count ? TPP_OK : TPP_ERR_USER;
}

static void draw(const tpp_schedule *schedule, const tpp_sim_desc *costs) {
    tpp_executor *sim;
    tpp_trace *trace;
    must(tpp_executor_sim_create(&sim, costs));
    must(tpp_trace_create(&trace, RANKS, 6 * MICROS, NULL));
    tpp_run run = {.size = sizeof run, .schedule = schedule, .trace = trace};
    must(tpp_run_query(&run, &run.memory_bytes));
    run.memory = aligned_alloc(64, (size_t)(run.memory_bytes + 63) / 64 * 64);
    must(tpp_executor_run(sim, &run, NULL));
    FILE *file = fopen("best_schedule.svg", "w");
    if (file) {
        const tpp_trace_svg_desc d = {.size = sizeof d, .title = "ZB in a V", .unit = "ms"};
        must(tpp_trace_write_svg(trace, &d, put, file));
        fclose(file);
    }
    free(run.memory);
    tpp_trace_destroy(trace);
    tpp_executor_destroy(sim);
}

int main(void) {
    double costs[5][RANKS * CHUNKS];
    printf("memory  placement  step [ms]  bubble  at least [ms]     gap\n");
    for (int memory = RANKS / 2; memory <= 2 * RANKS; memory += RANKS / 2) {
        for (int chunks = 1; chunks <= CHUNKS; chunks++) {
            tpp_sim_desc sim = costs_of(costs, chunks);
            tpp_optimize_desc d = {.size = sizeof d,
                                   .ranks = RANKS,
                                   .micros = MICROS,
                                   .placement =
                                       chunks == 1 ? TPP_PLACEMENT_LOOPED : TPP_PLACEMENT_V,
                                   .costs = &sim,
                                   .memory_limit = memory,
                                   .seconds = 60,
                                   .evaluations = 5000};
            tpp_optimize_report r = {.size = sizeof r};
            tpp_schedule *schedule;
            must(tpp_optimize(&schedule, &d, &r));
            double work = MICROS * (18.522 + 18.086 + 9.337);
            printf("%6d  %-9s  %9.1f %6.2f %%  %13.1f  %5.2f %%\n", memory,
                   chunks == 1 ? "looped" : "V", r.cost, 100 * (1 - work / r.cost), r.lower_bound,
                   100 * r.gap);
            if (memory == 2 * RANKS && chunks == CHUNKS)
                draw(schedule, &sim);
            tpp_schedule_destroy(schedule);
        }
    }
    return 0;
}
