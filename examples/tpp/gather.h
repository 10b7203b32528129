/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_GATHER_H
#define TPP_PROGRAM_GATHER_H

#include "team.h"

/* A whole parameter, put together from the ranks that hold its parts. */
struct full_param {
    const char *name; /* borrowed from a layer */
    int64_t rows, cols;
    int64_t bytes;
    void *data;
    int copy;        /* another parameter is the same, and counts */
    int lanes_agree; /* 0: ranks that should hold the same tensor do not */
};

/* `param` is its number in the whole model. */
struct full_param gather_param(const struct team *team, int32_t param);

/* The same without its data. */
struct full_param gather_shape(const struct team *team, int32_t param);

/* Bytes of an entry. */
int64_t gather_width(const struct team *team);

void gather_free(struct full_param *full);

#endif
