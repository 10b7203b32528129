/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_WEIGHT_SIZES_H
#define TPP_PROGRAM_WEIGHT_SIZES_H

#include "train_config.h"

/* What a file says about its model beside the tensors. */
struct weight_size {
    const char *key;    /* in the metadata */
    const char *option; /* that sets it, for sentences */
    char value[32];     /* "": does not apply */
};

enum { WEIGHT_SIZES = 11 };
void weight_sizes(struct weight_size out[WEIGHT_SIZES], const struct train_config *config);

#endif
