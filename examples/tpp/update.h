/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_UPDATE_H
#define TPP_PROGRAM_UPDATE_H

#include <tpp/optim.h>

#include "train_config.h"
#include "worker.h"

struct team;

/* Learning rate of a step (0 is the first): up in a straight line, then down along half a
 * cosine. */
double update_rate(const struct train_config *config, int64_t step);

/* AdamW of a step, without clipping. */
tpp_adamw_desc update_adamw(const struct train_config *config, int64_t step, double rate);

/* Sums of squares of a worker's gradients, into piece->squares. Copies of a K/V head agree on their
 * gradient first: the lanes of a rank have to call it at the same time. */
tpp_status update_squares(struct worker *worker);

/* Sum gradients over mirrored stages and over the copies of a tied table, if there are any; all ranks
 * are at rest. */
tpp_status update_sums(struct team *team, tpp_executor *executor);

/* Clip the gradient, move the parameters (AdamW), set the gradient to zero. norm: of the
 * gradient before clipping, with the same bits under every layout that has the same blocks. When it is
 * not finite the parameters stay. */
tpp_status update(struct team *team, double rate, double *norm);

#endif
