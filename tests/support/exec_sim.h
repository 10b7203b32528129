/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_EXEC_SIM_H
#define TPP_SUPPORT_EXEC_SIM_H

#include <tpp/exec.h>

/* A finished schedule, made or read from its text (compute actions only); fails the test if
 * refused. */
tpp_schedule *exec_schedule(tpp_schedule_kind kind, int32_t ranks, int32_t chunks, int32_t micros,
                            int32_t group);
tpp_schedule *exec_schedule_text(const char *text);

/* |got - want| <= bound, in doubles. */
#define assert_near(got, want, bound) exec_near(__FILE__, __LINE__, #got, got, want, bound)
void exec_near(const char *file, int line, const char *what, double got, double want, double bound);

/* What a simulated run gave. At most 8 ranks. */
typedef struct exec_sim {
    tpp_run_report report;
    double work[8];
    int32_t peak[8];
    int32_t peak_input[8];
    double memory[8];
    double first[8], last[8];
    tpp_event path[1024];
    tpp_trace *trace;
} exec_sim;

void exec_sim_run(exec_sim *out, const tpp_schedule *schedule, const tpp_sim_desc *desc);

/* The same for any number of ranks, into a report whose size and arrays the caller has set. */
void exec_sim_report(const tpp_schedule *schedule, const tpp_sim_desc *desc, tpp_run_report *out);

/* All stages alike; B takes the time of both halves. */
void exec_sim_equal(exec_sim *out, const tpp_schedule *schedule, double forward, double input,
                    double weight, double latency);

/* When an action ended; fails the test if it never ran. */
double exec_sim_end(const exec_sim *sim, tpp_op op, int32_t stage, int32_t micro);

/* The events of the path follow each other without a gap, from 0 to the makespan. */
void exec_sim_check_path(const exec_sim *sim);

void exec_sim_free(exec_sim *sim);

#endif
