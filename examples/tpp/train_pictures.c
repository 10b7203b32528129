/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "train_pictures.h"

#include <inttypes.h>

#include "output.h"
#include "say.h"

/* Keep what was written if all went well. */
static int finish(struct output *output, tpp_status status, const char *doing) {
    if (status == TPP_OK) {
        return output_close(output);
    }
    int code = library_error(doing);
    output_discard(output);
    return code;
}

static int write_gantt(const struct training *t) {
    const struct train_config *c = t->config;
    char title[160];
    snprintf(title, sizeof title,
             "tpp train: one step, %s, tp %" PRId32 " x pp %" PRId32 " x %" PRId32
             " chunks, %" PRId32 " micro-batches",
             option_choice_name(schedule_choices, c->schedule), c->tp, c->pp, c->chunks, c->micros);
    tpp_trace_svg_desc d = {0};
    d.size = sizeof d;
    d.title = title;
    d.lanes = c->tp;
    d.chunks = c->chunks;
    struct output output;
    int code = output_open(&output, c->gantt);
    if (code) {
        return code;
    }
    const struct sample *sample = sampler_typical(&t->split.sampler);
    tpp_status status = tpp_trace_write_svg(sample->trace, &d, output_write, output.file);
    return finish(&output, status, "draw the Gantt picture");
}

/* All kept steps, one after the other, as one trace. */
static tpp_status join(tpp_trace **out, const struct sampler *sampler) {
    int64_t capacity = 1;
    int32_t steps = sampler_count(sampler);
    for (int32_t i = 0; i < steps; i++) {
        int64_t most = 0;
        for (int32_t row = 0; row < sampler->rows; row++) {
            int64_t count = 0;
            tpp_trace_events(sampler_get(sampler, i)->trace, row, &count);
            most = count > most ? count : most;
        }
        capacity += most;
    }
    tpp_status status = tpp_trace_create(out, sampler->rows, capacity, NULL);
    for (int32_t i = 0; i < steps; i++) {
        for (int32_t row = 0; row < sampler->rows && status == TPP_OK; row++) {
            int64_t count = 0;
            const tpp_event *events = tpp_trace_events(sampler_get(sampler, i)->trace, row, &count);
            for (int64_t e = 0; e < count && status == TPP_OK; e++) {
                status = tpp_trace_add(*out, &events[e]);
            }
        }
    }
    return status;
}

static int write_trace(const struct training *t) {
    struct output output;
    int code = output_open(&output, t->config->trace);
    if (code) {
        return code;
    }
    tpp_trace *trace = NULL;
    tpp_status status = join(&trace, &t->split.sampler);
    if (status == TPP_OK) {
        status = tpp_trace_write_chrome(trace, 0, t->config->tp, output_write, output.file);
    }
    tpp_trace_destroy(trace);
    return finish(&output, status, "write the trace");
}

int train_write_pictures(const struct training *t) {
    int code = 0;
    if (t->history.count == 0) {
        return 0; /* stopped before there was a step to draw */
    }
    if (t->config->gantt) {
        code = write_gantt(t);
    }
    if (t->config->trace && code == 0) {
        code = write_trace(t);
    }
    return code;
}
