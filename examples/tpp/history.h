/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_HISTORY_H
#define TPP_PROGRAM_HISTORY_H

#include <stdint.h>

/* One step as it went. The fields of the unsplit model are 0 without --compare. */
struct step_record {
    double loss, norm, rate, seconds;
    double whole_loss, whole_norm, whole_seconds;
    int redone;
};

/* All steps of a run. */
struct history {
    struct step_record *records;
    double *micro_losses; /* [count][micros]: mean over a micro-batch's bytes */
    int64_t count, capacity;
    int32_t micros;
};

/* Room for one more step; its micro_losses are the last `micros` numbers. */
struct step_record *history_add(struct history *history);
double *history_micro_losses(const struct history *history, int64_t step);

/* Mean loss over steps first .. last - 1. */
double history_mean_loss(const struct history *history, int64_t first, int64_t last);

/* Steps whose optimizer step was done again. */
int64_t history_redone(const struct history *history);

/* Median seconds of a step, of the split (whole = 0) or the unsplit model. */
double history_median_seconds(const struct history *history, int whole);

void history_free(struct history *history);

#endif
