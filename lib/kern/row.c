/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/row.h"

#include "kern/vector.h"

/* Element i goes to partial sum i % LANES. */
enum { LANES = 16 };

TPP__INLINE double total(const double *lane) {
    double sum[LANES];
    memcpy(sum, lane, sizeof sum);
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int l = 0; l < width; l++)
            sum[l] += sum[l + width];
    }
    return sum[0];
}

#define TPP__TEMPLATE "kern/row.inc"
#include "kern/each_type.inc"
