/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tpp/exec.h>

/* What the executors cost: time per action with callbacks that do nothing, a step of known work
 * against the simulator, and the simulator's own speed. */

enum { REPEATS = 30 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(tpp_status status) {
    if (status == TPP_OK)
        return;
    fprintf(stderr, "%s: %s\n", tpp_status_name(status), tpp_message());
    exit(1);
}

static tpp_schedule *schedule_of(tpp_schedule_kind kind, int32_t p, int32_t v, int32_t m) {
    tpp_schedule *s;
    tpp_schedule_desc d = {.size = sizeof d, .kind = kind, .ranks = p, .chunks = v, .micros = m};
    must(tpp_schedule_make(&s, &d));
    return s;
}

static double busy_seconds;

static tpp_status work(void *ctx, const tpp_stage_call *call) {
    (void)ctx;
    (void)call;
    double end = now() + busy_seconds;
    while (busy_seconds > 0 && now() < end)
        ;
    return TPP_OK;
}

static void open_run(tpp_run *run, const tpp_schedule *s) {
    int64_t bytes;
    *run = (tpp_run){.size = sizeof *run,
                     .schedule = s,
                     .ranks = run->ranks,
                     .message_count = 64,
                     .message_dtype = TPP_F32};
    must(tpp_run_query(run, &bytes));
    run->memory = aligned_alloc(64, (size_t)bytes);
    run->memory_bytes = bytes;
}

/* Shortest step over the repeats. The report is that of the shortest one. */
static double shortest(tpp_executor *e, tpp_run *run, tpp_run_report *best) {
    double least = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        tpp_run_report report = {.size = sizeof report};
        double start = now();
        must(tpp_executor_run(e, run, &report));
        double took = now() - start;
        run->step++;
        if (took < least) {
            least = took;
            *best = report;
        }
    }
    return least;
}

static void real_run(int threads, const tpp_schedule *s, tpp_run_report *report, double *seconds) {
    static const tpp_stage_ops ops = {.size = sizeof ops, .forward = work, .backward = work};
    tpp_schedule_info info = {.size = sizeof info};
    tpp_comm *comms[64] = {0};
    tpp_run_rank ranks[64];
    tpp_executor *e;
    tpp_run run = {.ranks = ranks};
    must(tpp_schedule_query(s, &info));
    if (info.ranks > 1)
        must(tpp_comm_local_create(comms, info.ranks, NULL));
    for (int32_t r = 0; r < info.ranks; r++)
        ranks[r] = (tpp_run_rank){.comm = comms[r], .ops = &ops};
    open_run(&run, s);
    if (threads)
        must(tpp_executor_threads_create(&e, info.ranks, 1, NULL));
    else
        must(tpp_executor_serial_create(&e, 1, NULL));
    *seconds = shortest(e, &run, report);
    tpp_executor_destroy(e);
    for (int32_t r = 0; r < info.ranks; r++)
        tpp_comm_destroy(comms[r]);
    free(run.memory);
}

static void overhead(const char *name, int threads, int32_t p, int32_t m) {
    tpp_schedule *s = schedule_of(TPP_SCHEDULE_1F1B, p, 1, m);
    tpp_schedule_info info = {.size = sizeof info};
    tpp_run_report report;
    double seconds;
    must(tpp_schedule_query(s, &info));
    busy_seconds = 0;
    real_run(threads, s, &report, &seconds);
    printf("%-8s p %d m %d, empty callbacks: %.3f us per action (%lld actions with messages)\n",
           name, p, m, 1e6 * seconds / (double)info.actions, (long long)info.actions);
    tpp_schedule_destroy(s);
}

static double simulate(const tpp_schedule *s, double forward, double backward, double *seconds) {
    tpp_schedule_info info = {.size = sizeof info};
    tpp_run run = {0};
    tpp_executor *e;
    tpp_run_report report = {.size = sizeof report};
    must(tpp_schedule_query(s, &info));
    double *f = malloc(2 * (size_t)info.stages * sizeof *f), *b = f + info.stages;
    for (int32_t i = 0; i < info.stages; i++) {
        f[i] = forward;
        b[i] = backward;
    }
    tpp_sim_desc d = {.size = sizeof d, .stages = info.stages, .forward = f, .backward = b};
    must(tpp_executor_sim_create(&e, &d));
    open_run(&run, s);
    *seconds = shortest(e, &run, &report);
    tpp_executor_destroy(e);
    free(run.memory);
    free(f);
    return report.makespan;
}

/* A step whose callbacks keep the core busy for a known time, against the simulator. */
static void against_simulator(int32_t p, int32_t m) {
    tpp_schedule *s = schedule_of(TPP_SCHEDULE_1F1B, p, 1, m);
    tpp_run_report report;
    double seconds, unused;
    busy_seconds = 1e-3;
    real_run(1, s, &report, &seconds);
    double each = report.work / (2.0 * m); /* as measured */
    double model = simulate(s, each, each, &unused);
    printf("threads  p %d m %d, busy callbacks: step %.3f ms, simulated %.3f ms, ratio %.3f\n", p,
           m, 1e3 * report.makespan, 1e3 * model, report.makespan / model);
    tpp_schedule_destroy(s);
}

static void sim_speed(int32_t p, int32_t v, int32_t m) {
    tpp_schedule *s = schedule_of(TPP_SCHEDULE_INTERLEAVED, p, v, m);
    double seconds, compute = 2.0 * p * v * m;
    simulate(s, 1, 2, &seconds);
    printf("simulate interleaved p %d v %d m %d: %.3f ms, %.1f million compute actions/s\n", p, v,
           m, 1e3 * seconds, 1e-6 * compute / seconds);
    tpp_schedule_destroy(s);
}

int main(void) {
    overhead("serial", 0, 1, 1000);
    overhead("serial", 0, 4, 250);
    overhead("threads", 1, 1, 1000);
    overhead("threads", 1, 2, 500);
    overhead("threads", 1, 4, 250);
    against_simulator(2, 8);
    sim_speed(8, 2, 128);
    sim_speed(64, 2, 1024);
    return 0;
}
