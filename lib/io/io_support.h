/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_IO_SUPPORT_H
#define TPP_IO_SUPPORT_H

#include <stdbool.h>
#include <tpp/status.h>

/* What lib/base is to the core. This library stands on public headers only, as any host does. */

/* Most bytes of a file's header. */
#define TPP__IO_HEADER_MOST 100000000

/* The one way to fail: sets this thread's message and returns `status`. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
tpp_status
tpp__io_fail(tpp_status status, const char *format, ...);

/* The system refused: "<what> <path>: <strerror>" as TPP_ERR_IO. */
tpp_status tpp__io_system(const char *what, const char *path);

/* Read and fill sized structs of the caller: `known` bytes, flags are 0. */
tpp_status tpp__io_sized_read(void *out, uint32_t known, const void *in, const char *name);
tpp_status tpp__io_sized_write(void *out, const void *in, uint32_t known, const char *name);

/* Zeroed memory, or NULL with the message set; lengthened memory likewise (the old one stays). */
void *tpp__io_alloc(int64_t count, int64_t width);
void *tpp__io_lengthen(void *memory, int64_t count, int64_t width);
void tpp__io_free(void *memory);

/* a * b and a + b for non-negative numbers; false on overflow. */
bool tpp__io_mul(int64_t a, int64_t b, int64_t *out);
bool tpp__io_add(int64_t a, int64_t b, int64_t *out);

/* The format's name of a type, NULL when libtpp has no such type; its width, 0 likewise. */
const char *tpp__io_dtype_name(tpp_dtype dtype);
int64_t tpp__io_dtype_bytes(tpp_dtype dtype);

/* The type of that name; 0: one of the format that libtpp has not; -1: none of the format. */
tpp_dtype tpp__io_dtype_of(const char *name);

#endif
