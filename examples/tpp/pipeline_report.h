/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_PIPELINE_REPORT_H
#define TPP_PROGRAM_PIPELINE_REPORT_H

#include "train.h"

/* Idle time and micro-batches in flight of every pipeline rank, measured against simulated and
 * against the rule. */
void pipeline_print(FILE *out, const struct training *training);

#endif
