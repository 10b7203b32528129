/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_EXEC_RUN_CHECK_H
#define TPP_EXEC_RUN_CHECK_H

#include <tpp/exec.h>

/* Read the caller's run: `out` has lanes >= 1, and ranks * lanes fits int32_t. Checks what every
 * executor needs; the built-in ones call the other checks below for what only they look at. */
tpp_status tpp__run_read(tpp_run *out, tpp_schedule_info *info, const tpp_run *in);

/* The pipeline ranks that an executor walks: all of them, or its own alone. */
typedef struct tpp__run_part {
    int32_t first;
    int32_t count;
} tpp__run_part;

/* What the actions of a rank ask for. */
typedef struct tpp__run_facts {
    int32_t slots; /* stash slots */
    uint32_t ops;  /* bit `op` is set when the operation occurs */
} tpp__run_facts;

tpp__run_facts tpp__run_survey(const tpp_schedule *schedule, int32_t rank);

tpp_status tpp__run_check_message(const tpp_run *run, const tpp_schedule_info *info);
tpp_status tpp__run_check_ranks(const tpp_run *run, const tpp_schedule_info *info,
                                tpp__run_part part);
tpp_status tpp__run_check_trace(const tpp_run *run, int32_t rows);
tpp_status tpp__run_check_memory(const tpp_run *run, int64_t need);

#endif
