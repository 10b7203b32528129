/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "pipe_run.h"

#include <stdlib.h>
#include <string.h>

#include "../reserve.h"
#include "../say.h"

double pipe_share(double a, double b) {
    return b > 0 ? a / b : 0;
}

static void reserve_arrays(struct pipe_run *out, const tpp_schedule_info *info) {
    tpp_run_report *r = &out->report;
    r->size = sizeof *r;
    r->row_work = reserve(info->ranks, sizeof *r->row_work);
    r->row_peak = reserve(info->ranks, sizeof *r->row_peak);
    r->row_peak_input = reserve(info->ranks, sizeof *r->row_peak_input);
    r->row_memory = reserve(info->ranks, sizeof *r->row_memory);
    r->row_first = reserve(info->ranks, sizeof *r->row_first);
    r->row_last = reserve(info->ranks, sizeof *r->row_last);
    out->peak_to_w = reserve(info->ranks, sizeof *out->peak_to_w);
    out->peak_to_i = reserve(info->ranks, sizeof *out->peak_to_i);
    r->path_room = info->actions + info->ranks;
    r->path = lengthen(NULL, r->path_room, sizeof *r->path); /* mostly never touched */
}

static tpp_status execute(struct pipe_run *out, const struct pipe_source *source,
                          tpp_executor *simulator) {
    tpp_run run = {0};
    run.size = sizeof run;
    run.schedule = source->schedule;
    run.trace = out->trace;
    tpp_status status = tpp_run_query(&run, &run.memory_bytes);
    if (status == TPP_OK) {
        run.memory = reserve(run.memory_bytes, 1);
        status = tpp_executor_run(simulator, &run, &out->report);
    }
    free(run.memory);
    return status;
}

/* Room for all actions of a rank and its optimizer step. */
static tpp_status make_trace(struct pipe_run *out, const struct pipe_source *source) {
    int64_t most = 0;
    for (int32_t rank = 0; rank < source->info.ranks; rank++) {
        int64_t count = 0;
        tpp_schedule_actions(source->schedule, rank, &count);
        most = count > most ? count : most;
    }
    return tpp_trace_create(&out->trace, source->info.ranks, most + 1, NULL);
}

static int path_part(tpp_op op) {
    switch (op) {
    case TPP_OP_F:
        return PATH_FORWARD;
    case TPP_OP_B:
        return PATH_BACKWARD;
    case TPP_OP_I:
        return PATH_INPUT;
    case TPP_OP_W:
        return PATH_WEIGHT;
    case TPP_OP_STEP:
        return PATH_STEP;
    default:
        return PATH_MESSAGES;
    }
}

static void sum_up(struct pipe_run *out, const struct pipe_source *source) {
    const tpp_run_report *r = &out->report;
    for (int32_t rank = 0; rank < source->info.ranks; rank++) {
        double unit = pipe_source_unit(source, rank);
        double span = r->row_last[rank] - r->row_first[rank];
        out->peak_to_w[rank] = r->row_peak[rank] * unit;
        out->peak_to_i[rank] = r->row_peak_input[rank] * unit;
        out->span = span > out->span ? span : out->span;
        out->memory_peak =
            r->row_memory[rank] > out->memory_peak ? r->row_memory[rank] : out->memory_peak;
    }
    for (int64_t i = 0; i < r->path_count; i++) {
        const tpp_event *e = &r->path[i];
        int pair = (e->flags & TPP_EVENT_FUSED) != 0; /* two events with the same times */
        int kind = pair ? PATH_PAIRS : path_part(e->op);
        out->path[kind].count++;
        out->path[kind].time += e->end - e->start;
        i += pair;
    }
}

int pipe_run_make(struct pipe_run *out, const struct pipe_source *source,
                  const struct pipe_costs *costs, int pictures) {
    memset(out, 0, sizeof *out);
    reserve_arrays(out, &source->info);
    tpp_executor *simulator = NULL;
    tpp_status status = pictures ? make_trace(out, source) : TPP_OK;
    if (status == TPP_OK) {
        status = tpp_executor_sim_create(&simulator, &costs->desc);
    }
    if (status == TPP_OK) {
        status = execute(out, source, simulator);
    }
    tpp_executor_destroy(simulator);
    if (status != TPP_OK) {
        return library_error("simulate the schedule");
    }
    sum_up(out, source);
    return 0;
}

void pipe_run_free(struct pipe_run *run) {
    tpp_run_report *r = &run->report;
    void *const arrays[] = {r->row_work,   r->row_peak,    r->row_peak_input,
                            r->row_memory, r->row_first,   r->row_last,
                            r->path,       run->peak_to_w, run->peak_to_i};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        free(arrays[i]);
    }
    tpp_trace_destroy(run->trace);
    memset(run, 0, sizeof *run);
}
