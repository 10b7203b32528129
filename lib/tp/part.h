/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_PART_H
#define TPP_TP_PART_H

/* Sequence parallelism (Korthikanti et al. 2022): between tensor-parallel regions a rank holds only its
 * rows of the tokens of a call. The tokens are cut into R blocks of equal height, of which the last
 * ones may be short or empty; a rank has the rows of its blocks. Without TPP_ENV_SEQUENCE every rank's
 * part is all of them. */

#include "tp/layer_impl.h"

typedef struct tpp__part {
    int64_t first, count; /* rows */
    int64_t tall;         /* rows of a whole block */
    int64_t room; /* rows of all blocks of a rank, were they whole: of every rank the same */
} tpp__part;

tpp__part tpp__part_of(const tpp_layer *layer, int64_t tokens);

/* Does this rank have less than all rows, so that they must be gathered? */
bool tpp__is_parted(const tpp_layer *layer);

/* Rows that `in` and `out` of a layer need memory for. */
int64_t tpp__in_room(const tpp_layer *layer, int64_t tokens);
int64_t tpp__out_room(const tpp_layer *layer, int64_t tokens);

#endif
