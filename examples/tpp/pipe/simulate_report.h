/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_SIMULATE_REPORT_H
#define TPP_COMMAND_SIMULATE_REPORT_H

#include "pipe_run.h"
#include "schedule_json.h"

/* For people. Returns 0 or EXIT_FAILED, after one sentence. */
int simulate_print_report(FILE *out, const struct pipe_source *source, const struct pipe_run *run);

/* One JSON object, tpp simulate --help tells its keys. Returns as above. */
int simulate_print_json(FILE *out, const struct pipe_source *source, const struct pipe_run *run);

/* The object's keys about a run, between its braces. */
void simulate_json_keys(struct json *json, const struct pipe_source *source,
                        const struct pipe_run *run);

#endif
