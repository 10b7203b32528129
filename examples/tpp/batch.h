/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_BATCH_H
#define TPP_PROGRAM_BATCH_H

#include "corpus.h"

/* Fill a step's input and what should follow each byte, both [sequences * seq]. Which places of
 * the text these are depends on (seed, step, number of the sequence) alone: neither the cut into
 * micro-batches nor the split over ranks changes them, and a run can start at any step. The text
 * is longer than seq. */
void batch_fill(const struct corpus *corpus, uint64_t seed, int64_t step, int32_t sequences,
                int32_t seq, int32_t *ids, int32_t *targets);

#endif
