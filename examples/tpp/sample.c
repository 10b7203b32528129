/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sample.h"

#include <stdlib.h>
#include <string.h>

#include "reserve.h"

/* Every compute action is an event, and so can every receive be. */
static int64_t most_events(const tpp_schedule *schedule, int32_t ranks) {
    int64_t most = 1;
    for (int32_t rank = 0; rank < ranks; rank++) {
        int64_t count = 0;
        tpp_schedule_actions(schedule, rank, &count);
        most = count > most ? count : most;
    }
    return most;
}

tpp_status sampler_create(struct sampler *sampler, const tpp_schedule *schedule, int32_t lanes,
                          int32_t capacity) {
    tpp_schedule_info info = {0};
    info.size = sizeof info;
    tpp_status status = tpp_schedule_query(schedule, &info);
    if (status != TPP_OK || capacity == 0) {
        return status;
    }
    int64_t events = most_events(schedule, info.ranks);
    sampler->rows = info.ranks * lanes;
    sampler->samples = reserve(capacity, sizeof *sampler->samples);
    sampler->row_peak = reserve(sampler->rows, sizeof *sampler->row_peak);
    sampler->step_peak = reserve(sampler->rows, sizeof *sampler->step_peak);
    for (sampler->capacity = 0; sampler->capacity < capacity && status == TPP_OK;
         sampler->capacity++) {
        struct sample *sample = &sampler->samples[sampler->capacity];
        sample->row_work = reserve(sampler->rows, sizeof *sample->row_work);
        status = tpp_trace_create(&sample->trace, sampler->rows, events, NULL);
    }
    return status;
}

tpp_trace *sampler_trace(struct sampler *sampler, int64_t step) {
    if (sampler->capacity == 0) {
        return NULL;
    }
    tpp_trace *trace = sampler->samples[step % sampler->capacity].trace;
    tpp_trace_reset(trace);
    return trace;
}

tpp_run_report *sampler_report(struct sampler *sampler, int64_t step) {
    if (sampler->capacity == 0) {
        return NULL;
    }
    struct sample *sample = &sampler->samples[step % sampler->capacity];
    memset(&sample->report, 0, sizeof sample->report);
    sample->report.size = sizeof sample->report;
    sample->report.row_work = sample->row_work;
    sample->report.row_peak = sampler->step_peak;
    return &sample->report;
}

void sampler_note(struct sampler *sampler) {
    sampler->steps++;
    for (int32_t row = 0; row < sampler->rows; row++) {
        if (sampler->step_peak[row] > sampler->row_peak[row]) {
            sampler->row_peak[row] = sampler->step_peak[row];
        }
    }
}

int32_t sampler_count(const struct sampler *sampler) {
    return sampler->steps < sampler->capacity ? (int32_t)sampler->steps : sampler->capacity;
}

const struct sample *sampler_get(const struct sampler *sampler, int32_t i) {
    int64_t step = sampler->steps - sampler_count(sampler) + i;
    return &sampler->samples[step % sampler->capacity];
}

const struct sample *sampler_typical(const struct sampler *sampler) {
    int32_t count = sampler_count(sampler);
    for (int32_t i = 0; i < count; i++) {
        const struct sample *sample = sampler_get(sampler, i);
        int32_t shorter = 0;
        for (int32_t j = 0; j < count; j++) {
            double other = sampler_get(sampler, j)->report.makespan;
            double own = sample->report.makespan;
            shorter += other < own || (other == own && j < i);
        }
        if (shorter == count / 2) {
            return sample;
        }
    }
    return NULL;
}

void sampler_destroy(struct sampler *sampler) {
    for (int32_t i = 0; i < sampler->capacity; i++) {
        tpp_trace_destroy(sampler->samples[i].trace);
        free(sampler->samples[i].row_work);
    }
    free(sampler->samples);
    free(sampler->row_peak);
    free(sampler->step_peak);
    memset(sampler, 0, sizeof *sampler);
}
