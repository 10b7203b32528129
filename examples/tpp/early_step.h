/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_EARLY_STEP_H
#define TPP_PROGRAM_EARLY_STEP_H

#include "corpus.h"
#include "team.h"

/* Training without a barrier (--early-step): every pipeline rank is a thread with an executor of its
 * own, takes its optimizer step when its own gradients are there and goes on to the next step. What
 * all ranks together find wrong is taken back and done again (validation.h). Losses, norms and
 * parameters have the bits of team_step. */
struct early;

/* What the ranks need to have; nothing runs yet. Returns 0 or EXIT_FAILED, after one sentence; then
 * destroy what there is. */
int early_create(struct early **out, struct team *team, const struct corpus *corpus);

/* Wait until a further step is complete; the first call starts the ranks. Returns 0 when they have
 * ended, after the last step, a signal to stop, or a failure. */
int early_next(struct early *early);

/* The step that early_next found. micro_losses stay until the next call. Steps come in their order. */
void early_take(struct early *early, struct step_result *out);

/* Let the ranks end after the step under way, and wait for them. Then the team's sampler has the last
 * steps. Returns 0 or EXIT_FAILED, after one sentence. */
int early_end(struct early *early);

/* NULL is fine; after early_end. */
void early_destroy(struct early *early);

#endif
