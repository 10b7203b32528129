/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "history.h"

#include <stdlib.h>
#include <string.h>

#include "reserve.h"

struct step_record *history_add(struct history *history) {
    if (history->count == history->capacity) {
        history->capacity = history->capacity ? 2 * history->capacity : 256;
        history->records = lengthen(history->records, history->capacity, sizeof *history->records);
        history->micro_losses = lengthen(history->micro_losses, history->capacity,
                                         history->micros * (int64_t)sizeof(double));
    }
    struct step_record *record = &history->records[history->count++];
    memset(record, 0, sizeof *record);
    return record;
}

double *history_micro_losses(const struct history *history, int64_t step) {
    return history->micro_losses + step * history->micros;
}

double history_mean_loss(const struct history *history, int64_t first, int64_t last) {
    double sum = 0;
    for (int64_t i = first; i < last; i++) {
        sum += history->records[i].loss;
    }
    return last > first ? sum / (double)(last - first) : 0;
}

int64_t history_redone(const struct history *history) {
    int64_t count = 0;
    for (int64_t i = 0; i < history->count; i++) {
        count += history->records[i].redone;
    }
    return count;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double history_median_seconds(const struct history *history, int whole) {
    if (history->count == 0) {
        return 0;
    }
    double *seconds = reserve(history->count, sizeof *seconds);
    for (int64_t i = 0; i < history->count; i++) {
        seconds[i] = whole ? history->records[i].whole_seconds : history->records[i].seconds;
    }
    qsort(seconds, (size_t)history->count, sizeof *seconds, by_size);
    double median = seconds[history->count / 2];
    free(seconds);
    return median;
}

void history_free(struct history *history) {
    free(history->records);
    free(history->micro_losses);
    memset(history, 0, sizeof *history);
}
