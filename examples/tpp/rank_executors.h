/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_RANK_EXECUTORS_H
#define TPP_PROGRAM_RANK_EXECUTORS_H

#include <tpp/exec.h>

/* An executor for a whole pipeline that is made of one for each rank (tpp_executor_distributed_create),
 * each on a thread of its own with memory of its own: they share nothing but their comms, as the ranks
 * of processes would. Traces and reports of the ranks are put together. */
tpp_status rank_executors_create(tpp_executor **out, int32_t ranks, int32_t lanes);

#endif
