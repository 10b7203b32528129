/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/exec_sim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check(tpp_status status) {
    if (status != TPP_OK)
        fail_msg("%s: %s", tpp_status_name(status), tpp_message());
}

void exec_near(const char *file, int line, const char *what, double got, double want,
               double bound) {
    if (fabs(got - want) <= bound)
        return;
    print_error("%s is %.17g, not %.17g\n", what, got, want);
    _fail(file, line);
}

tpp_schedule *exec_schedule(tpp_schedule_kind kind, int32_t ranks, int32_t chunks, int32_t micros,
                            int32_t group) {
    tpp_schedule *s;
    tpp_schedule_desc d = {.size = sizeof d,
                           .kind = kind,
                           .ranks = ranks,
                           .chunks = chunks,
                           .micros = micros,
                           .group = group};
    check(tpp_schedule_make(&s, &d));
    return s;
}

tpp_schedule *exec_schedule_text(const char *text) {
    tpp_schedule *s;
    check(tpp_schedule_parse(&s, text, (int64_t)strlen(text), NULL));
    check(tpp_schedule_lower(s));
    check(tpp_schedule_finish(s));
    return s;
}

void exec_sim_run(exec_sim *out, const tpp_schedule *schedule, const tpp_sim_desc *desc) {
    tpp_executor *e;
    tpp_schedule_info info = {.size = sizeof info};
    tpp_run run = {.size = sizeof run, .schedule = schedule};
    int64_t bytes;
    memset(out, 0, sizeof *out);
    out->report.size = sizeof out->report;
    out->report.row_work = out->work;
    out->report.row_peak = out->peak;
    out->report.row_peak_input = out->peak_input;
    out->report.row_memory = out->memory;
    out->report.row_first = out->first;
    out->report.row_last = out->last;
    out->report.path = out->path;
    out->report.path_room = sizeof out->path / sizeof *out->path;
    check(tpp_schedule_query(schedule, &info));
    check(tpp_run_query(&run, &bytes));
    void *memory = aligned_alloc(64, (size_t)bytes);
    memset(memory, 0xff, (size_t)bytes);
    run.memory = memory;
    run.memory_bytes = bytes;
    check(tpp_trace_create(&out->trace, info.ranks, info.actions + 1, NULL));
    run.trace = out->trace;
    check(tpp_executor_sim_create(&e, desc));
    check(tpp_executor_run(e, &run, &out->report));
    exec_sim_check_path(out);
    tpp_executor_destroy(e);
    free(memory);
}

void exec_sim_report(const tpp_schedule *schedule, const tpp_sim_desc *desc, tpp_run_report *out) {
    tpp_executor *e;
    tpp_run run = {.size = sizeof run, .schedule = schedule};
    check(tpp_run_query(&run, &run.memory_bytes));
    run.memory = aligned_alloc(64, (size_t)run.memory_bytes);
    check(tpp_executor_sim_create(&e, desc));
    check(tpp_executor_run(e, &run, out));
    tpp_executor_destroy(e);
    free(run.memory);
}

void exec_sim_equal(exec_sim *out, const tpp_schedule *schedule, double forward, double input,
                    double weight, double latency) {
    tpp_schedule_info info = {.size = sizeof info};
    double costs[3][64];
    check(tpp_schedule_query(schedule, &info));
    assert_true(info.stages <= 64);
    for (int32_t i = 0; i < info.stages; i++) {
        costs[0][i] = forward;
        costs[1][i] = input;
        costs[2][i] = weight;
    }
    tpp_sim_desc d = {.size = sizeof d,
                      .stages = info.stages,
                      .forward = costs[0],
                      .backward_input = costs[1],
                      .backward_weight = costs[2],
                      .latency = latency};
    exec_sim_run(out, schedule, &d);
}

double exec_sim_end(const exec_sim *sim, tpp_op op, int32_t stage, int32_t micro) {
    for (int32_t r = 0; r < tpp_trace_rows(sim->trace); r++) {
        int64_t count;
        const tpp_event *e = tpp_trace_events(sim->trace, r, &count);
        for (int64_t i = 0; i < count; i++) {
            if (e[i].op == op && e[i].stage == stage && e[i].micro == micro)
                return e[i].end;
        }
    }
    fail_msg("op %d of stage %d, micro-batch %d never ran", op, stage, micro);
    return 0;
}

void exec_sim_check_path(const exec_sim *sim) {
    double now = 0;
    assert_true(sim->report.path_count <= sim->report.path_room);
    for (int64_t i = 0; i < sim->report.path_count; i++) {
        const tpp_event *e = &sim->path[i];
        bool pair = i > 0 && e->start == e[-1].start && e->row == e[-1].row;
        if (e->start != now && !(pair && e->end == now))
            fail_msg("event %lld of the path starts at %.17g, not %.17g", (long long)i, e->start,
                     now);
        now = e->end;
    }
    assert_near(now, sim->report.makespan, 0);
}

void exec_sim_free(exec_sim *sim) {
    tpp_trace_destroy(sim->trace);
}
