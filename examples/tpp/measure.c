/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <stdlib.h>
#include <string.h>

#include "reserve.h"
#include "say.h"

/* Add the durations of a trace's F and B to sums per virtual stage. */
static void add_durations(const tpp_trace *trace, double *forward, double *backward,
                          double *counts) {
    for (int32_t row = 0; row < tpp_trace_rows(trace); row++) {
        int64_t count = 0;
        const tpp_event *events = tpp_trace_events(trace, row, &count);
        for (int64_t i = 0; i < count; i++) {
            if (events[i].op == TPP_OP_F) {
                forward[events[i].stage] += events[i].end - events[i].start;
                counts[events[i].stage]++; /* as many F as B */
            } else if (events[i].op == TPP_OP_B) {
                backward[events[i].stage] += events[i].end - events[i].start;
            }
        }
    }
}

static void measure_steps(struct measure *out, const struct team *team) {
    double *counts = reserve(out->stages, sizeof *counts);
    int32_t lanes = team->layout.tp;
    for (int32_t i = 0; i < out->steps; i++) {
        const struct sample *sample = sampler_get(&team->sampler, i);
        add_durations(sample->trace, out->forward, out->backward, counts);
        out->makespan += sample->report.makespan / out->steps;
        for (int32_t row = 0; row < out->ranks * lanes; row++) {
            double idle = 1 - sample->row_work[row] / sample->report.makespan;
            out->idle[row / lanes] += idle / lanes / out->steps;
        }
    }
    for (int32_t s = 0; s < out->stages; s++) {
        out->forward[s] /= counts[s];
        out->backward[s] /= counts[s];
    }
    free(counts);
}

static tpp_status simulate(struct measure *out, const struct team *team, tpp_executor *simulator) {
    double *work = reserve(out->ranks, sizeof *work);
    tpp_run run = {0};
    run.size = sizeof run;
    run.schedule = team->schedule;
    run.lanes = 1;
    run.message_dtype = team->run.message_dtype;
    run.message_count = team->run.message_count;
    tpp_run_report report = {0};
    report.size = sizeof report;
    report.row_work = work;
    tpp_status status = tpp_run_query(&run, &run.memory_bytes);
    if (status == TPP_OK) {
        run.memory = reserve(run.memory_bytes, 1);
        status = tpp_executor_run(simulator, &run, &report);
    }
    /* Without a barrier steps overlap: one takes as long as the rank that is longest at it. */
    out->makespan_simulated = team->config->early ? report.period : report.makespan;
    for (int32_t rank = 0; rank < out->ranks; rank++) {
        out->idle_simulated[rank] = 1 - work[rank] / out->makespan_simulated;
    }
    free(run.memory);
    free(work);
    return status;
}

static tpp_status simulate_steps(struct measure *out, const struct team *team) {
    tpp_sim_desc d = {0};
    d.size = sizeof d;
    d.stages = out->stages;
    d.forward = out->forward;
    d.backward = out->backward;
    tpp_executor *simulator = NULL;
    tpp_status status = tpp_executor_sim_create(&simulator, &d);
    if (status == TPP_OK) {
        status = simulate(out, team, simulator);
    }
    tpp_executor_destroy(simulator);
    return status;
}

int measure_create(struct measure *out, const struct team *team) {
    memset(out, 0, sizeof *out);
    out->steps = sampler_count(&team->sampler);
    out->stages = team->stages;
    out->ranks = team->layout.pp;
    out->forward = reserve(out->stages, sizeof(double));
    out->backward = reserve(out->stages, sizeof(double));
    out->idle = reserve(out->ranks, sizeof(double));
    out->idle_simulated = reserve(out->ranks, sizeof(double));
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

double measure_ideal_bubble(const struct team *team) {
    int32_t others = team->layout.pp - 1;
    return others / ((double)team->layout.chunks * team->config->micros + others);
}

void measure_free(struct measure *measure) {
    free(measure->forward);
    free(measure->backward);
    free(measure->idle);
    free(measure->idle_simulated);
    memset(measure, 0, sizeof *measure);
}
