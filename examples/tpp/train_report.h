/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_TRAIN_REPORT_H
#define TPP_PROGRAM_TRAIN_REPORT_H

#include "train.h"

/* What the run is, before it starts. */
void train_print_start(FILE *out, const struct training *training);

/* How it ended, in one line. */
void train_print_end(FILE *out, const struct training *training);

/* --report: how the split went, against the rules. */
void train_print_report(FILE *out, const struct training *training);

#endif
