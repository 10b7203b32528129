/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_SERVER_H
#define TPP_PROGRAM_SERVER_H

#include <tpp/io.h>

#include "generate_config.h"

/* What is told after every step, on the thread of one rank: the next byte of each text. Returns 0,
 * or not to end here. */
typedef int (*server_said)(void *ctx, const int32_t *next, double seconds);

struct server {
    const struct generate_config *config;
    const tpp_weights *weights;
    int32_t context; /* tokens that the cache has room for */
    server_said said;
    void *ctx;
};

/* Write config->tokens bytes behind each prompt, on tp * pp threads. Every rank keeps all texts, so
 * that only the next bytes travel back from the last stage. Returns 0, EXIT_USAGE or EXIT_FAILED,
 * after one sentence. */
int server_run(const struct server *server);

#endif
