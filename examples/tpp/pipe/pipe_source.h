/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_PIPE_SOURCE_H
#define TPP_COMMAND_PIPE_SOURCE_H

#include <stdio.h>
#include <tpp/tpp.h>

#include "pipe_config.h"

/* A schedule that the command line names. */
struct pipe_source {
    tpp_schedule *schedule;
    tpp_schedule_info info; /* as pipe_source_open found it */
    const char *name;       /* of the built-in order, or the file */
    int lowered;
    tpp_status status; /* why there is no right schedule: tpp_message tells */
};

/* Generate or read it, without looking whether it is right. Returns 0, EXIT_USAGE (no such order or
 * file, sizes that the order has not) or EXIT_FAILED (the file is no schedule), after one sentence. */
int pipe_source_open(struct pipe_source *out, const struct pipe_config *config);

/* The same, but when the file is no schedule, `status` tells and nothing is said. */
int pipe_source_try(struct pipe_source *out, const struct pipe_config *config);

/* Add messages unless it has some. */
tpp_status pipe_source_lower(struct pipe_source *source);

/* Prove that it is right and make it ready to run; messages are added unless it has some. Returns 0
 * or EXIT_FAILED, after one sentence. */
int pipe_source_finish(struct pipe_source *source);

void pipe_source_close(struct pipe_source *source);

/* Chunks of a rank. */
int32_t pipe_source_chunks(const struct pipe_source *source, int32_t rank);

/* What part of a full stage a chunk of a rank is: all of them are one, but with two directions each
 * chunk is one. */
double pipe_source_unit(const struct pipe_source *source, int32_t rank);

/* "zb-v: 4 ranks x 2 chunks, 8 micro-batches"; the text lives in `out`. */
enum { PIPE_TITLE_BYTES = 256 };
const char *pipe_source_title(char out[PIPE_TITLE_BYTES], const struct pipe_source *source);

/* Names of the built-in orders, "gpipe, 1f1b, ...", in lines of the help. */
void pipe_source_print_names(FILE *out);

#endif
