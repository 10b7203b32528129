/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_TRAIN_PICTURES_H
#define TPP_PROGRAM_TRAIN_PICTURES_H

#include "train.h"

/* Write the files of --gantt and --trace, if asked for. Returns 0 or EXIT_FAILED, after one
 * sentence. */
int train_write_pictures(const struct training *training);

#endif
