/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_BASE_CHECK_H
#define TPP_BASE_CHECK_H

#include <stdbool.h>
#include <tpp/status.h>

/* Bytes of a message, the final zero included. */
#define TPP__MESSAGE 512

/* The one way to fail: sets this thread's message and returns `status`. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
tpp_status
tpp__fail(tpp_status status, const char *format, ...);

/* Read a sized struct of the caller into `out` (known bytes, missing fields zero). The first 8
 * bytes of both are size and flags; a flag that is not in `flags` is refused as too new. */
tpp_status tpp__sized_read(void *out, uint32_t known, uint32_t flags, const void *in,
                           const char *name);

/* Fill the caller's sized struct from `in`, at most its own size; its size field is kept. */
tpp_status tpp__sized_write(void *out, const void *in, uint32_t known, const char *name);

/* Smallest size a sized struct may state: size and flags. */
#define TPP__SIZED_MIN 8u

/* a * b and a + b for non-negative numbers; false on overflow. */
bool tpp__mul(int64_t a, int64_t b, int64_t *out);
bool tpp__add(int64_t a, int64_t b, int64_t *out);

/* A sum of products of non-negative numbers; overflow is sticky. */
typedef struct tpp__count {
    int64_t value;
    bool overflow;
} tpp__count;

/* Add a * b. */
void tpp__count_add(tpp__count *sum, int64_t a, int64_t b);
/* a * b, for use in the sum: 0 and the sum's overflow if it does not fit. */
int64_t tpp__count_times(tpp__count *sum, int64_t a, int64_t b);

/* Bytes of an element, 0 for an unknown type; the type that sums and statistics of such elements are
 * kept in: float32 for bfloat16, else the same; the type's name. */
int64_t tpp__dtype_bytes(tpp_dtype dtype);
tpp_dtype tpp__dtype_wide(tpp_dtype dtype);
const char *tpp__dtype_name(tpp_dtype dtype);

/* Space-separated list of the divisors of n into out, for messages. */
void tpp__divisors(int64_t n, char *out, int bytes);

#endif
