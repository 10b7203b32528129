/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_RESERVE_H
#define TPP_PROGRAM_RESERVE_H

#include <stdint.h>

/* Zeroed memory for count * width bytes, aligned to 64, given back with free(). A program that
 * cannot get its memory has nothing left to do: it says so and exits. */
void *reserve(int64_t count, int64_t width);

/* Lengthen memory of malloc's kind (or NULL); exits like reserve. */
void *lengthen(void *memory, int64_t count, int64_t width);

#endif
