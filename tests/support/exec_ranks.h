/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_EXEC_RANKS_H
#define TPP_SUPPORT_EXEC_RANKS_H

#include <tpp/exec.h>

/* A distributed executor for each pipeline rank, on a thread of its own, played as one executor: what
 * one process per rank does, where a test can see all of it. The runs share nothing but the comms; each
 * has memory of its own. The failure is that of the rank which knows why; times are each rank's own.
 * Traces hold a rank's own rows: run.trace must be NULL, those wanted are given to exec_ranks_trace. */
tpp_status exec_ranks_create(tpp_executor **out, int32_t ranks, int32_t lanes);

/* Rank's trace of the next runs, [lanes] rows; of an executor made by exec_ranks_create last. */
void exec_ranks_trace(int32_t rank, tpp_trace *trace);

#endif
