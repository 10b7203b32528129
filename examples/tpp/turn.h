/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_TURN_H
#define TPP_PROGRAM_TURN_H

#include <stdint.h>

/* The transpose: `in` is [rows, cols], `out` [cols, rows]; elements of `width` bytes, at any
 * address. */
void turn(void *out, const void *in, int64_t rows, int64_t cols, int64_t width);

#endif
