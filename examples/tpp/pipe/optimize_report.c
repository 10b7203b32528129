/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "optimize_report.h"

#include <inttypes.h>

#include "../say.h"
#include "../stop.h"
#include "simulate_report.h"

static const char *placement_name(const struct optimize_result *r) {
    return option_choice_name(placement_choices, r->report->placement);
}

int optimize_print_json(FILE *out, const struct optimize_result *result) {
    const tpp_optimize_report *r = result->report;
    struct json j = {.out = out};
    json_object(&j, NULL);
    schedule_json_facts(&j, "tpp-optimize/1", result->source);
    json_string(&j, "placement", placement_name(result));
    json_real(&j, "cost", r->cost);
    json_real(&j, "lower_bound", r->lower_bound);
    json_real(&j, "gap", r->gap);
    json_bool(&j, "optimal", r->optimal);
    json_real(&j, "memory_limit", result->config->memory_limit);
    json_real(&j, "seconds", r->seconds);
    json_int(&j, "evaluations", r->evaluations);
    json_bool(&j, "stopped", stop_signal() != 0);
    simulate_json_keys(&j, result->source, result->run);
    json_end_object(&j);
    fputc('\n', out);
    return fflush(out) || ferror(out) ? system_error("the JSON object cannot be written") : 0;
}

int optimize_print_report(FILE *out, const struct optimize_result *result) {
    const tpp_optimize_report *r = result->report;
    char tried[GROUPED_BYTES];
    int code = simulate_print_report(out, result->source, result->run);
    fprintf(out, "\n  %-14s %11s\n", "placement", placement_name(result));
    fprintf(out, "  %-14s %11.6g  the %s\n", "cost", r->cost,
            result->config->objective == TPP_OPTIMIZE_SPAN ? "span" : "makespan");
    fprintf(out, "  %-14s %11.6g  no schedule of %s placement costs less\n", "lower bound",
            r->lower_bound, result->config->placement ? "this" : "either");
    fprintf(out, "  %-14s %9.2f %%  at most so far from the best%s\n", "gap", 100 * r->gap,
            r->optimal ? "; proved to be the best of its placement" : "");
    if (result->config->memory_limit > 0) {
        fprintf(out, "  %-14s %11.6g  of %.6g\n", "memory", r->memory_peak,
                result->config->memory_limit);
    }
    fprintf(out, "  %-14s %11s  orders tried in %.2f s%s\n", "search",
            grouped(tried, r->evaluations), r->seconds, stop_signal() ? ", stopped" : "");
    return fflush(out) || ferror(out) ? system_error("the report cannot be written") : code;
}
