/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "simulate_report.h"

#include <inttypes.h>

#include "../say.h"

static void print_head(FILE *out, const struct pipe_source *source) {
    char title[PIPE_TITLE_BYTES];
    fprintf(out, "%s\n\n", pipe_source_title(title, source));
}

static void print_ranks(FILE *out, const struct pipe_source *source, const struct pipe_run *run) {
    const tpp_run_report *r = &run->report;
    fprintf(out, "  %5s %11s %11s %11s %11s %7s %9s %9s %11s\n", "rank", "start", "end", "work",
            "idle", "idle", "held to W", "held to I", "memory");
    for (int32_t rank = 0; rank < source->info.ranks; rank++) {
        double idle = r->makespan - r->row_work[rank];
        fprintf(out, "  %5" PRId32 " %11.6g %11.6g %11.6g %11.6g %5.1f %% %9.4g %9.4g %11.6g\n",
                rank, r->row_first[rank], r->row_last[rank], r->row_work[rank], idle,
                100 * pipe_share(idle, r->makespan), run->peak_to_w[rank], run->peak_to_i[rank],
                r->row_memory[rank]);
    }
    fputs("  idle: of the makespan; held: most micro-batches at once, in full stages, until the\n"
          "  gradients of weights (W) or of inputs (I) are there\n\n",
          out);
}

static void print_bubble(FILE *out, const char *name, const char *what, double bubble, double total,
                         double work) {
    fprintf(out, "  %-14s %11.6g  %s: %.2f %% of the total, %.2f %% of the ideal\n", name, bubble,
            what, 100 * pipe_share(bubble, total), 100 * pipe_share(bubble, work));
}

static void print_times(FILE *out, const struct pipe_run *run) {
    const tpp_run_report *r = &run->report;
    fprintf(out, "  %-14s %11.6g  first start to last end\n", "makespan", r->makespan);
    fprintf(out, "  %-14s %11.6g  longest of a rank, its first start to its last end\n", "span",
            run->span);
    fprintf(out, "  %-14s %11.6g  most work of a rank: the ideal\n", "work", r->work);
    print_bubble(out, "bubble, global", "makespan - work", r->bubble_global, r->makespan, r->work);
    print_bubble(out, "bubble, span", "span - work", r->bubble_span, run->span, r->work);
    fputs("  of the total: makespan, or span\n\n", out);
}

static void print_path(FILE *out, const struct pipe_run *run) {
    static const char *const names[PATH_PARTS] = {
        [PATH_FORWARD] = "F",      [PATH_BACKWARD] = "B",    [PATH_INPUT] = "I",
        [PATH_WEIGHT] = "W",       [PATH_PAIRS] = "F and B", [PATH_MESSAGES] = "messages",
        [PATH_STEP] = "optimizer",
    };
    fputs("  critical path ", out);
    const char *between = "";
    for (int i = 0; i < PATH_PARTS; i++) {
        if (run->path[i].count > 0) {
            fprintf(out, "%s%" PRId64 " %s (%.6g)", between, run->path[i].count, names[i],
                    run->path[i].time);
            between = ", ";
        }
    }
    fputc('\n', out);
}

int simulate_print_report(FILE *out, const struct pipe_source *source, const struct pipe_run *run) {
    print_head(out, source);
    print_ranks(out, source, run);
    print_times(out, run);
    print_path(out, run);
    return fflush(out) || ferror(out) ? system_error("the report cannot be written") : 0;
}
