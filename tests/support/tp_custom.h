/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_TP_CUSTOM_H
#define TPP_SUPPORT_TP_CUSTOM_H

/* Two custom layers: y = silu(x) * w, and y = the sum of all columns over all ranks. */

#include "support/tp_case.h"

typedef struct tp_custom {
    int64_t cols;
    int32_t split; /* of the gate: 1: each rank has its own columns */
    int32_t reserved0;
} tp_custom;

extern const tp_kind tp_kind_custom_gate, tp_kind_custom_sum;

#endif
