/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/by_type.h"
#include "kern/kern.h"
#include "kern/vector.h"

#define TPP__TEMPLATE "kern/attention_merge.inc"
#include "kern/each_type.inc"

void tpp__kern_attention_merge(tpp_dtype dtype, int64_t rows, int64_t width, const void *more,
                               int64_t ld_more, const void *lse_more, void *o, int64_t ldo,
                               void *lse) {
    TPP__BY_TYPE(dtype, merge, rows, width, more, ld_more, lse_more, o, ldo, lse);
}
