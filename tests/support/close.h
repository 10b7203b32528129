/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_CLOSE_H
#define TPP_SUPPORT_CLOSE_H

/* The one comparison of numbers in the tests. On failure it prints the worst element (its index,
 * both values, the distance in units of the last place) and how many elements are off, and fails
 * the test at the caller's line. A NaN is never close to anything; an infinity only to itself.
 *
 *     assert_close_f64("dx", dx, want, n, 1e-12);
 *     assert_close("y", TPP_F32, y, CLOSE_QUAD, want, n, 1e-6);
 *     assert_same_bits("t = 1 and t = 2", one, two, n * sizeof *one);
 */

#include <tpp/base.h>

/* Type of an array beside TPP_F32, TPP_F64 and TPP_BF16: close_quad, for references. */
#define CLOSE_QUAD 128
/* At least 33 digits. */
#if defined(__SIZEOF_FLOAT128__)
__extension__ typedef __float128 close_quad;
#else
typedef long double close_quad;
#endif

/* |got - want| <= bound * (the largest finite |want| of the n). bound 0 asks for equal values. */
#define assert_close(what, got_type, got, want_type, want, n, bound)                               \
    close__check(__FILE__, __LINE__, what, got_type, got, want_type, want, n, bound, -1)
#define assert_close_f32(what, got, want, n, bound)                                                \
    close__check_f32(__FILE__, __LINE__, what, got, want, n, bound)
#define assert_close_f64(what, got, want, n, bound)                                                \
    close__check_f64(__FILE__, __LINE__, what, got, want, n, bound)

/* Element by element: |got - want| <= bound * max(|want|, tiny). */
#define assert_close_each(what, got_type, got, want_type, want, n, bound, tiny)                    \
    close__check(__FILE__, __LINE__, what, got_type, got, want_type, want, n, bound, tiny)

/* The same bytes; on failure the first that differs, read as float and as double too. */
#define assert_same_bits(what, a, b, bytes) close__bits(__FILE__, __LINE__, what, a, b, bytes)

void close__check(const char *file, int line, const char *what, int got_type, const void *got,
                  int want_type, const void *want, int64_t n, double bound, double tiny);
void close__check_f32(const char *file, int line, const char *what, const float *got,
                      const float *want, int64_t n, double bound);
void close__check_f64(const char *file, int line, const char *what, const double *got,
                      const double *want, int64_t n, double bound);
void close__bits(const char *file, int line, const char *what, const void *a, const void *b,
                 uint64_t bytes);

#endif
