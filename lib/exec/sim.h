/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_EXEC_SIM_H
#define TPP_EXEC_SIM_H

#include <tpp/exec.h>

/* Bytes of run.memory that the simulator needs. */
tpp_status tpp__sim_bytes(const tpp_schedule_info *info, int64_t *bytes);

#endif
