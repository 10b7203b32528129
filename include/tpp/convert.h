/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_CONVERT_H
#define TPP_CONVERT_H

/**
 * @file convert.h
 * Numbers from one floating type to another, and what bfloat16 is here.
 *
 *     uint16_t half[3];
 *     float x[3] = {1, 2.5f, -3};
 *     tpp_convert(half, TPP_BF16, x, TPP_F32, 3);
 *
 * bfloat16 (TPP_BF16) has float32's range and the first 8 of its 24 significant bits, u = 2^-8 of
 * a number being the most that rounding changes. It is a type for memory and messages: the library
 * computes in float32 and rounds what it stores, to nearest, halves to even; NaN stays NaN.
 */

#include <tpp/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Convert numbers. To a shorter type it rounds to nearest, halves to even; what is beyond its range
 * becomes infinite; NaN stays NaN. From float64 to bfloat16 it rounds once.
 *
 * @param out      receives count numbers; may equal `in` when both types are as wide, else apart.
 * @param out_type TPP_F32, TPP_F64 or TPP_BF16. @param in_type one of these, or TPP_F16.
 * @return TPP_OK; TPP_ERR_INVALID.
 *
 * Memory: none allocated. Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_convert(void *out, tpp_dtype out_type, const void *in, tpp_dtype in_type,
                               int64_t count);

#ifdef __cplusplus
}
#endif

#endif
