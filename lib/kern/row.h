/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_KERN_ROW_H
#define TPP_KERN_ROW_H

#include "base/bf16.h"

/* Operations on one row of n contiguous elements. Sums are in float64, with a fixed number of
 * partial sums and a fixed tree at the end: the order depends on n alone, and compilers make vector
 * code of it. */

double tpp__kern_sum_f32(const float *x, int64_t n);
double tpp__kern_sum_f64(const double *x, int64_t n);
double tpp__kern_sum_bf16(const tpp__bf16 *x, int64_t n);

/* Sum of (x - a) * (y - b). */
double tpp__kern_dot_f32(const float *x, double a, const float *y, double b, int64_t n);
double tpp__kern_dot_f64(const double *x, double a, const double *y, double b, int64_t n);
double tpp__kern_dot_bf16(const tpp__bf16 *x, double a, const tpp__bf16 *y, double b, int64_t n);

/* The largest element, n >= 1. A NaN may be passed over. */
float tpp__kern_largest_f32(const float *x, int64_t n);
double tpp__kern_largest_f64(const double *x, int64_t n);
float tpp__kern_largest_bf16(const tpp__bf16 *x, int64_t n);

/* y = exp(x - m). Buffers may be the same. */
void tpp__kern_exp_f32(int64_t n, const float *x, float m, float *y);
void tpp__kern_exp_f64(int64_t n, const double *x, double m, double *y);
void tpp__kern_exp_bf16(int64_t n, const tpp__bf16 *x, float m, float *y);

#endif
