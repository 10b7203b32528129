/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_SCHEDULE_JSON_H
#define TPP_COMMAND_SCHEDULE_JSON_H

#include "../json_out.h"
#include "pipe_source.h"

/* The schedule's actions as one JSON object. */
void schedule_write_json(FILE *out, const struct pipe_source *source);

/* The keys that every object about a schedule begins with, after the brace. */
void schedule_json_facts(struct json *json, const char *schema, const struct pipe_source *source);

#endif
