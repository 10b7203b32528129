/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "pipe_forms.h"

#include "../output.h"
#include "../say.h"
#include "schedule_json.h"

int pipe_forms_drawn(int32_t form) {
    return form == FORM_SVG || form == FORM_CHROME;
}

static tpp_status draw(FILE *out, const struct pipe_source *source, const struct pipe_run *run) {
    char name[PIPE_TITLE_BYTES];
    char title[2 * PIPE_TITLE_BYTES];
    snprintf(title, sizeof title, "%s, makespan %g, largest bubble %g",
             pipe_source_title(name, source), run->report.makespan, run->report.bubble_global);
    tpp_trace_svg_desc d = {0};
    d.size = sizeof d;
    d.title = title;
    d.unit = "";
    d.chunks = source->info.chunks;
    return tpp_trace_write_svg(run->trace, &d, output_write, out);
}

static tpp_status write_csv(FILE *out, const struct pipe_source *source, int32_t form) {
    tpp_schedule_info info = {0};
    info.size = sizeof info;
    tpp_status status = tpp_schedule_query(source->schedule, &info);
    uint32_t flags = form == FORM_SLOTS ? TPP_CSV_SLOTS : info.messages ? TPP_CSV_MESSAGES : 0U;
    return status == TPP_OK ? tpp_schedule_write_csv(source->schedule, flags, output_write, out)
                            : status;
}

static tpp_status write_form(FILE *out, int32_t form, const struct pipe_source *source,
                             const struct pipe_run *run) {
    enum { MILLISECOND = 1000 }; /* a unit of time, in microseconds */
    switch (form) {
    case FORM_TEXT:
        return tpp_schedule_write_text(source->schedule, output_write, out);
    case FORM_CSV:
    case FORM_SLOTS:
        return write_csv(out, source, form);
    case FORM_JSON:
        schedule_write_json(out, source);
        return TPP_OK;
    case FORM_SVG:
        return draw(out, source, run);
    default:
        return tpp_trace_write_chrome(run->trace, MILLISECOND, 1, output_write, out);
    }
}

int pipe_forms_write(FILE *out, const char *path, int32_t form, const struct pipe_source *source,
                     const struct pipe_run *run) {
    struct output output = {0};
    int code = path ? output_open(&output, path) : 0;
    if (code) {
        return code;
    }
    tpp_status status = write_form(path ? output.file : out, form, source, run);
    if (status != TPP_OK) {
        code = library_error("write the schedule");
    } else if (!path && fflush(out)) {
        code = system_error("the schedule cannot be written");
    }
    if (path && code) {
        output_discard(&output);
    }
    return path && !code ? output_close(&output) : code;
}

int pipe_forms_draw(const struct pipe_config *c, const struct pipe_source *source,
                    const struct pipe_run *run) {
    int code = c->svg ? pipe_forms_write(NULL, c->svg, FORM_SVG, source, run) : 0;
    if (code == 0 && c->chrome) {
        code = pipe_forms_write(NULL, c->chrome, FORM_CHROME, source, run);
    }
    return code;
}
