/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_CORPUS_H
#define TPP_PROGRAM_CORPUS_H

#include <stdint.h>

/* The text, and how well it can be guessed without a model. Entropies in nats per byte. */
struct corpus {
    unsigned char *bytes;
    int64_t count;
    int32_t distinct; /* different bytes */
    double unigram;   /* knowing only how often each byte occurs */
    double bigram;    /* knowing the byte before too */
};

/* Read a whole file, also a pipe. Returns 0 or EXIT_USAGE, after one sentence on stderr. */
int corpus_load(struct corpus *out, const char *path);

void corpus_free(struct corpus *corpus);

#endif
