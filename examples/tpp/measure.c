/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <stdlib.h>
#include <string.h>

#include "reserve.h"
#include "say.h"

enum { OPS = TPP_OP_W + 1 };

/* Seconds and number of the operations of each virtual stage. */
struct sums {
    double *seconds[OPS], *counts[OPS]; /* [stages] */
};

/* Add the durations of a trace. */
static void add_durations(const tpp_trace *trace, struct sums *sums) {
    for (int32_t row = 0; row < tpp_trace_rows(trace); row++) {
        int64_t count = 0;
        const tpp_event *events = tpp_trace_events(trace, row, &count);
        for (int64_t i = 0; i < count; i++) {
            if (events[i].op < OPS) { /* not a wait */
                sums->seconds[events[i].op][events[i].stage] += events[i].end - events[i].start;
                sums->counts[events[i].op][events[i].stage]++;
            }
        }
    }
}

/* Mean times of a stage, from the sums over all steps. */
static void take_means(struct measure *out, int32_t stage, const struct sums *sums) {
    double micros = sums->counts[TPP_OP_F][stage];
    for (int op = TPP_OP_F; op < OPS; op++) {
        double count = sums->counts[op][stage];
        double seconds = sums->seconds[op][stage];
        out->op[op][stage] = count > 0 ? seconds / count : 0;
        if (op != TPP_OP_F && micros > 0) {
            out->backward[stage] += seconds / micros;
        }
    }
    out->forward[stage] = out->op[TPP_OP_F][stage];
}

static void measure_steps(struct measure *out, const struct team *team) {
    struct sums sums;
    int32_t lanes = team->layout.tp;
    for (int op = 0; op < OPS; op++) {
        sums.seconds[op] = reserve(out->stages, sizeof(double));
        sums.counts[op] = reserve(out->stages, sizeof(double));
    }
    for (int32_t i = 0; i < out->steps; i++) {
        const struct sample *sample = sampler_get(&team->sampler, i);
        add_durations(sample->trace, &sums);
        out->makespan += sample->report.makespan / out->steps;
        for (int32_t row = 0; row < out->ranks * lanes; row++) {
            double idle = 1 - sample->row_work[row] / sample->report.makespan;
            out->idle[row / lanes] += idle / lanes / out->steps;
        }
    }
    for (int32_t s = 0; s < out->stages; s++) {
        take_means(out, s, &sums);
    }
    for (int op = 0; op < OPS; op++) {
        free(sums.seconds[op]);
        free(sums.counts[op]);
    }
}

/* Costs for the simulator, a row for each operation. */
struct costs {
    double *op[OPS]; /* [stages] */
};

static struct costs costs_new(int32_t stages) {
    struct costs costs;
    for (int op = 0; op < OPS; op++) {
        costs.op[op] = reserve(stages, sizeof(double));
    }
    return costs;
}

static void costs_free(struct costs *costs) {
    for (int op = 0; op < OPS; op++) {
        free(costs->op[op]);
    }
}

/* As measured. What a schedule does not have is not asked for, but it has to be a number. */
static void set_costs(struct costs *costs, const struct measure *m, int32_t stage) {
    for (int op = 0; op < OPS; op++) {
        costs->op[op][stage] = m->op[op][stage];
    }
}

/* Every stage takes the mean time of all. */
static void set_equal(struct costs *costs, const struct measure *m, int32_t stage) {
    for (int op = 0; op < OPS; op++) {
        double sum = 0;
        int32_t count = 0;
        for (int32_t s = 0; s < m->stages; s++) {
            sum += m->op[op][s];
            count += m->op[op][s] > 0;
        }
        costs->op[op][stage] = count > 0 ? sum / count : 0;
    }
}

/* Idle shares of the ranks, and how long a step takes. */
static tpp_status run_simulator(const struct team *team, tpp_executor *simulator, double *idle,
                                double *makespan) {
    int32_t ranks = team->layout.pp;
    double *work = reserve(ranks, sizeof *work);
    tpp_run run = {0};
    run.size = sizeof run;
    run.schedule = team->schedule;
    run.lanes = 1;
    tpp_run_report report = {0};
    report.size = sizeof report;
    report.row_work = work;
    tpp_status status = tpp_executor_query(simulator, &run, &run.memory_bytes);
    if (status == TPP_OK) {
        run.memory = reserve(run.memory_bytes, 1);
        status = tpp_executor_run(simulator, &run, &report);
    }
    /* Without a barrier steps overlap: one takes as long as the rank that is longest at it. */
    *makespan = team->config->early ? report.period : report.makespan;
    for (int32_t rank = 0; rank < ranks; rank++) {
        idle[rank] = 1 - work[rank] / *makespan;
    }
    free(run.memory);
    free(work);
    return status;
}

static tpp_status simulate(const struct measure *m, const struct team *team,
                           void (*set)(struct costs *, const struct measure *, int32_t),
                           double *idle, double *makespan) {
    struct costs costs = costs_new(m->stages);
    for (int32_t s = 0; s < m->stages; s++) {
        set(&costs, m, s);
    }
    tpp_sim_desc d = {0};
    d.size = sizeof d;
    d.stages = m->stages;
    d.forward = costs.op[TPP_OP_F];
    d.backward = costs.op[TPP_OP_B];
    d.backward_input = costs.op[TPP_OP_I];
    d.backward_weight = costs.op[TPP_OP_W];
    tpp_executor *simulator = NULL;
    tpp_status status = tpp_executor_sim_create(&simulator, &d);
    if (status == TPP_OK) {
        status = run_simulator(team, simulator, idle, makespan);
    }
    tpp_executor_destroy(simulator);
    costs_free(&costs);
    return status;
}

static tpp_status simulate_steps(struct measure *out, const struct team *team) {
    double *idle = reserve(out->ranks, sizeof *idle);
    double makespan = 0;
    tpp_status status =
        simulate(out, team, set_costs, out->idle_simulated, &out->makespan_simulated);
    if (status == TPP_OK) {
        status = simulate(out, team, set_equal, idle, &makespan);
    }
    for (int32_t rank = 0; rank < out->ranks; rank++) {
        out->bubble_equal += idle[rank] / out->ranks;
    }
    free(idle);
    return status;
}

int measure_create(struct measure *out, const struct team *team) {
    memset(out, 0, sizeof *out);
    out->steps = sampler_count(&team->sampler);
    out->stages = team->directions * team->stages;
    out->ranks = team->layout.pp;
    out->forward = reserve(out->stages, sizeof(double));
    out->backward = reserve(out->stages, sizeof(double));
    out->idle = reserve(out->ranks, sizeof(double));
    out->idle_simulated = reserve(out->ranks, sizeof(double));
    for (int op = 0; op < OPS; op++) {
        out->op[op] = reserve(out->stages, sizeof(double));
    }
    if (out->steps == 0) {
        return 0;
    }
    measure_steps(out, team);
    if (simulate_steps(out, team) != TPP_OK) {
        return library_error("simulate the schedule");
    }
    for (int32_t rank = 0; rank < out->ranks; rank++) {
        out->bubble += out->idle[rank] / out->ranks;
        out->bubble_simulated += out->idle_simulated[rank] / out->ranks;
    }
    return 0;
}

void measure_free(struct measure *measure) {
    free(measure->forward);
    free(measure->backward);
    free(measure->idle);
    free(measure->idle_simulated);
    for (int op = 0; op < OPS; op++) {
        free(measure->op[op]);
    }
    memset(measure, 0, sizeof *measure);
}
