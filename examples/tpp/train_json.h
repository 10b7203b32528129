/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_TRAIN_JSON_H
#define TPP_PROGRAM_TRAIN_JSON_H

#include "train.h"

/* --json: everything that a program may want to know, as one object. Returns 0 or EXIT_FAILED. */
int train_write_json(FILE *out, const struct training *training);

#endif
