/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "../say.h"
#include "simulate_report.h"

static void write_list(struct json *j, const char *key, const double *numbers, int32_t count) {
    json_array(j, key);
    for (int32_t i = 0; i < count; i++) {
        json_real(j, NULL, numbers[i]);
    }
    json_end_array(j);
}

static void write_path(struct json *j, const struct pipe_run *run) {
    static const char *const names[PATH_PARTS] = {
        [PATH_FORWARD] = "forward",      [PATH_BACKWARD] = "backward",
        [PATH_INPUT] = "backward_input", [PATH_WEIGHT] = "backward_weight",
        [PATH_PAIRS] = "overlapped",     [PATH_MESSAGES] = "messages",
        [PATH_STEP] = "optimizer",
    };
    json_object(j, "critical_path");
    for (int i = 0; i < PATH_PARTS; i++) {
        json_object(j, names[i]);
        json_real(j, "time", run->path[i].time);
        json_int(j, "count", run->path[i].count);
        json_end_object(j);
    }
    json_end_object(j);
}

void simulate_json_keys(struct json *j, const struct pipe_source *source,
                        const struct pipe_run *run) {
    const tpp_run_report *r = &run->report;
    int32_t ranks = source->info.ranks;
    json_real(j, "makespan", r->makespan);
    json_real(j, "span", run->span);
    json_real(j, "period", r->period);
    json_real(j, "work", r->work);
    json_real(j, "bubble_global", r->bubble_global);
    json_real(j, "bubble_span", r->bubble_span);
    json_real(j, "bubble_global_of_total", pipe_share(r->bubble_global, r->makespan));
    json_real(j, "bubble_global_of_ideal", pipe_share(r->bubble_global, r->work));
    json_real(j, "bubble_span_of_total", pipe_share(r->bubble_span, run->span));
    json_real(j, "bubble_span_of_ideal", pipe_share(r->bubble_span, r->work));
    write_list(j, "peak_to_w", run->peak_to_w, ranks);
    write_list(j, "peak_to_i", run->peak_to_i, ranks);
    json_real(j, "memory_peak", run->memory_peak);
    write_list(j, "memory_by_rank", r->row_memory, ranks);
    write_list(j, "work_by_rank", r->row_work, ranks);
    write_list(j, "start_by_rank", r->row_first, ranks);
    write_list(j, "end_by_rank", r->row_last, ranks);
    write_path(j, run);
}

int simulate_print_json(FILE *out, const struct pipe_source *source, const struct pipe_run *run) {
    struct json j = {.out = out};
    json_object(&j, NULL);
    schedule_json_facts(&j, "tpp-simulate/1", source);
    simulate_json_keys(&j, source, run);
    json_end_object(&j);
    fputc('\n', out);
    if (fflush(out) || ferror(out)) {
        return system_error("the JSON object cannot be written to stdout");
    }
    return 0;
}
