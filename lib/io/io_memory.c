/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "io_support.h"

#include <stdlib.h>

bool tpp__io_mul(int64_t a, int64_t b, int64_t *out) {
    if (a != 0 && b > INT64_MAX / a)
        return false;
    *out = a * b;
    return true;
}

bool tpp__io_add(int64_t a, int64_t b, int64_t *out) {
    if (b > INT64_MAX - a)
        return false;
    *out = a + b;
    return true;
}

/* Bytes that malloc can be asked for, never 0; false when they do not fit. */
static bool bytes_of(int64_t count, int64_t width, size_t *out) {
    int64_t bytes;
    if (!tpp__io_mul(count, width, &bytes) || (uint64_t)bytes > SIZE_MAX / 2)
        return false;
    *out = bytes > 0 ? (size_t)bytes : 1;
    return true;
}

static void *checked(void *memory, int64_t count, int64_t width) {
    if (!memory)
        tpp__io_fail(TPP_ERR_NO_MEMORY, "no memory for %lld times %lld bytes", (long long)count,
                     (long long)width);
    return memory;
}

void *tpp__io_alloc(int64_t count, int64_t width) {
    size_t bytes;
    return checked(bytes_of(count, width, &bytes) ? calloc(1, bytes) : NULL, count, width);
}

void *tpp__io_lengthen(void *memory, int64_t count, int64_t width) {
    size_t bytes;
    return checked(bytes_of(count, width, &bytes) ? realloc(memory, bytes) : NULL, count, width);
}

void tpp__io_free(void *memory) {
    free(memory);
}
