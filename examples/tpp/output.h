/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_OUTPUT_H
#define TPP_PROGRAM_OUTPUT_H

#include <stdio.h>
#include <tpp/base.h>

/* A file that is there whole or not at all: written under another name beside it, then renamed.
 * What is no regular file (/dev/null, a pipe) is written as it is. */
struct output {
    const char *path;
    char *temporary; /* NULL: written in place */
    FILE *file;
};

/* Can the file be written? Asked before the work, so that hours are not lost. Returns 0 or
 * EXIT_USAGE. */
int output_probe(const char *option, const char *path);

/* Return 0 or EXIT_FAILED, after one sentence. */
int output_open(struct output *output, const char *path);
int output_close(struct output *output);

/* Close and forget what was written. */
void output_discard(struct output *output);

/* A tpp_write_fn; ctx is a FILE. */
tpp_status output_write(void *ctx, const char *bytes, int64_t count);

#endif
