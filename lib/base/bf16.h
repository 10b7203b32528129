/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_BASE_BF16_H
#define TPP_BASE_BF16_H

#include <stdint.h>
#include <string.h>

/* bfloat16: the upper half of a float. Arithmetic is done in float; a result is rounded to nearest
 * even, and a NaN stays one. Loops over these become vector code: no branches, no calls. */
typedef uint16_t tpp__bf16;

static inline __attribute__((always_inline)) float tpp__bf16_get(tpp__bf16 x) {
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline __attribute__((always_inline)) tpp__bf16 tpp__bf16_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    /* Rounding would make an infinity of a NaN whose upper half is all that it has. */
    uint32_t nan = 0u - (uint32_t)((int32_t)(bits & 0x7fffffffu) > 0x7f800000);
    uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return (tpp__bf16)(((rounded & ~nan) | ((bits | 0x400000u) & nan)) >> 16);
}

/* n numbers to float and back. */
void tpp__bf16_widen(int64_t n, const tpp__bf16 *x, float *y);
void tpp__bf16_narrow(int64_t n, const float *x, tpp__bf16 *y);

#endif
