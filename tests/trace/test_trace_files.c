/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */

/* Writes pictures and Chrome traces of several pipelines into the folder argv[1], where other tests
 * read them. Without an argument the text goes nowhere: it still tells that all can be written. */

#include "support/trace_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct file {
    const char *name;
    trace_pipeline pipeline;
    tpp_trace_svg_desc desc;
    double scale;
} file;

static const file files[] = {
    {"1f1b",
     {4, 1, 8, 1, true, false, 1, 2, 0, 0},
     {.title = "1F1B, 4 stages, 8 micro-batches", .unit = "t_f"},
     1e3},
    {"no_waits", {4, 1, 8, 1, false, false, 1, 2, 0, 0}, {.unit = "units"}, 1e3},
    {"seconds",
     {4, 1, 8, 1, true, false, 0.013, 0.0271, 0.0011, 51234.5},
     {.title = "Measured: 1F1B <4 & 8> \"quoted\"", .width = 900},
     0},
    {"chunks2",
     {4, 2, 8, 1, true, false, 1, 2, 0, 0},
     {.title = "Interleaved 1F1B, 4 ranks, 2 chunks, 8 micro-batches", .unit = "t_f / 2"},
     1e3},
    {"chunks4",
     {4, 4, 8, 1, true, false, 1, 2, 0.25, 0},
     {.title = "Interleaved, 4 chunks", .unit = "units"},
     1e3},
    {"split",
     {4, 1, 8, 1, true, true, 1, 2, 0, 0},
     {.title = "1F1B with I and W apart", .unit = "t_f"},
     1e3},
    {"split2",
     {4, 2, 8, 1, true, true, 1, 2, 0, 0},
     {.title = "I and W apart, 2 chunks", .unit = "t_f"},
     1e3},
    {"lanes",
     {4, 1, 8, 2, true, false, 1, 2, 0.3, 0},
     {.title = "Two lanes", .unit = "ms", .lanes = 2},
     1e3},
    {"large",
     {64, 1, 256, 1, true, false, 1, 2, 0, 0},
     {.title = "64 ranks, 256 micro-batches", .unit = "t_f"},
     1e3},
    {"window",
     {64, 1, 256, 1, true, false, 1, 2, 0, 0},
     {.title = "64 ranks: the beginning", .unit = "t_f", .start = 0, .end = 250, .width = 1600},
     1e3},
    {"small",
     {4, 2, 4, 1, true, true, 1e-6, 2e-6, 1e-7, 0},
     {.title = "A narrow picture whose title needs more than one line", .width = 320},
     0},
    {"narrowest",
     {2, 8, 2, 1, true, false, 1, 2, 0, 0},
     {.title = "Least width", .width = 200, .unit = ""},
     1e3},
};

static FILE *open_file(const char *folder, const char *name, const char *end) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, end);
    return fopen(path, "wb");
}

static tpp_status to_file(void *ctx, const char *bytes, int64_t count) {
    if (!ctx)
        return TPP_OK;
    return fwrite(bytes, 1, (size_t)count, ctx) == (size_t)count ? TPP_OK : TPP_ERR_USER;
}

static int finish(FILE *out, tpp_status status, const char *name) {
    int bad = status != TPP_OK;
    if (out && fclose(out) != 0)
        bad = 1;
    if (bad)
        fprintf(stderr, "%s: %s: %s\n", name, tpp_status_name(status), tpp_message());
    return bad;
}

static int write_both(const char *folder, const file *f) {
    tpp_trace *trace = trace_pipeline_run(&f->pipeline);
    if (!trace)
        return finish(NULL, TPP_ERR_NO_MEMORY, f->name);
    tpp_trace_svg_desc desc = f->desc;
    desc.size = sizeof desc;
    FILE *out = folder ? open_file(folder, f->name, ".svg") : NULL;
    int bad = finish(out, tpp_trace_write_svg(trace, &desc, to_file, out), f->name);
    out = folder ? open_file(folder, f->name, ".json") : NULL;
    tpp_status status = tpp_trace_write_chrome(trace, f->scale, f->pipeline.lanes, to_file, out);
    bad |= finish(out, status, f->name);
    tpp_trace_destroy(trace);
    return bad;
}

static int write_empty(const char *folder) {
    tpp_trace *trace;
    if (tpp_trace_create(&trace, 2, 1, NULL) != TPP_OK)
        return finish(NULL, TPP_ERR_NO_MEMORY, "empty");
    FILE *out = folder ? open_file(folder, "empty", ".json") : NULL;
    int bad = finish(out, tpp_trace_write_chrome(trace, 0, 0, to_file, out), "empty");
    tpp_trace_destroy(trace);
    return bad;
}

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : NULL;
    int bad = write_empty(folder);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        bad |= write_both(folder, &files[i]);
    return bad;
}
