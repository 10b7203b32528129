/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_UPDATE_H
#define TPP_PROGRAM_UPDATE_H

#include <tpp/status.h>

#include "train_config.h"

struct team;

/* Learning rate of a step (0 is the first): up in a straight line, then down along half a
 * cosine. */
double update_rate(const struct train_config *config, int64_t step);

/* Clip the gradient, move the parameters (AdamW), set the gradient to zero. norm: of the
 * gradient before clipping, with the same bits under every layout that has the same blocks. */
tpp_status update(struct team *team, double rate, double *norm);

#endif
