/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <inttypes.h>
#include <unistd.h>

#include "clock.h"
#include "say.h"

static const double REFRESH_SECONDS = 0.1;

struct progress progress_begin(const struct train_config *config) {
    struct progress progress = {.config = config, .started = clock_seconds()};
    progress.terminal = isatty(STDERR_FILENO);
    return progress;
}

static int is_due(const struct progress *progress, int64_t step, double now) {
    const struct train_config *config = progress->config;
    if (config->quiet) {
        return 0;
    }
    if (step == 1 || step == config->steps) {
        return 1;
    }
    int64_t every = config->steps > 1000 ? config->steps / 100 : 10;
    return progress->terminal ? now - progress->shown >= REFRESH_SECONDS : step % every == 0;
}

static void print_left(double seconds) {
    int64_t whole = (int64_t)(seconds + 0.5);
    if (whole >= 3600) {
        fprintf(stderr, "  %" PRId64 ":%02" PRId64 ":%02" PRId64 " left", whole / 3600,
                whole / 60 % 60, whole % 60);
    } else {
        fprintf(stderr, "  %" PRId64 ":%02" PRId64 " left", whole / 60, whole % 60);
    }
}

void progress_step(struct progress *progress, const struct history *history) {
    const struct train_config *config = progress->config;
    int64_t step = history->count;
    double now = clock_seconds();
    if (!is_due(progress, step, now)) {
        return;
    }
    progress->shown = now;
    const struct step_record *last = &history->records[step - 1];
    double tokens = (double)config->batch * config->seq;
    char speed[GROUPED_BYTES];
    fprintf(stderr,
            "%sstep %5" PRId64 "/%" PRId32
            "  loss %.4f  lr %.2e  grad norm %.3f  %7s tokens/s  %.1f ms/step",
            progress->terminal ? "\r\033[K" : "", step, config->steps, last->loss, last->rate,
            last->norm, grouped(speed, (int64_t)(tokens / last->seconds)), 1e3 * last->seconds);
    print_left((now - progress->started) / (double)step * (double)(config->steps - step));
    fputs(progress->terminal ? "" : "\n", stderr);
}

void progress_end(struct progress *progress) {
    if (progress->terminal && progress->shown > 0) {
        fputc('\n', stderr);
    }
}
