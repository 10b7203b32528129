/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_IO_WEIGHT_NAME_H
#define TPP_IO_WEIGHT_NAME_H

#include <stdbool.h>
#include <tpp/io.h>

/* The name without what stands in front of all but the head ("model."): so files of models without
 * a head have it. */
const char *tpp__weight_bare(tpp_family family, const char *name);

/* Is it a tensor that older versions of transformers stored though it can be computed? */
bool tpp__weight_is_buffer(tpp_family family, const char *name);

/* As given to create, for sentences. */
const char *tpp__weights_path(const tpp_weights *weights);

#endif
