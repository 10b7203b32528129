/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_KERN_TRUTH_H
#define TPP_SUPPORT_KERN_TRUTH_H

/* Functions to more than 30 digits, written from their series, for tests of kernels; and what such
 * tests share: numbers to work on, arrays of either type. */

#include "support/close.h"

close_quad truth_exp(close_quad x);
close_quad truth_log(close_quad x);
close_quad truth_sqrt(close_quad x);
close_quad truth_erfc(close_quad x);

/* act as in kern.h. */
close_quad truth_act(int32_t act, close_quad x);
close_quad truth_act_slope(int32_t act, close_quad x);

/* Element of an array of the type, and its setter. */
double kern_get(tpp_dtype dtype, const void *array, int64_t i);
void kern_set(tpp_dtype dtype, void *array, int64_t i, double value);

/* Normal numbers times `scale` that depend on (which, index). */
void kern_fill(tpp_dtype dtype, void *array, int64_t n, uint64_t which, double scale);
void kern_fill_value(tpp_dtype dtype, void *array, int64_t n, double value);

/* Zeroed memory of n elements; fails the test when there is none. The caller frees it. */
void *kern_new(tpp_dtype dtype, int64_t n);
close_quad *kern_new_quad(int64_t n);

#endif
