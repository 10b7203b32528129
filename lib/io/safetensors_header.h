/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_IO_SAFETENSORS_HEADER_H
#define TPP_IO_SAFETENSORS_HEADER_H

#include <jansson.h>
#include <stdbool.h>
#include <tpp/status.h>

/* One entry of a header. Names and shapes belong to it. */
typedef struct tpp__io_tensor {
    const char *name; /* borrowed from the JSON object */
    int64_t *shape;
    int64_t rows, cols;
    int64_t begin, end; /* bytes behind the header */
    tpp_dtype dtype;
    int32_t dims;
} tpp__io_tensor;

/* Fill `out` from the value of key `name`; `path` is for the message. shape is memory of
 * tpp__io_alloc, also after a failure. */
tpp_status tpp__io_entry_read(tpp__io_tensor *out, const char *name, const json_t *entry,
                              const char *path);

/* Sort by place; hold the ranges together: no overlap, no hole, up to `bytes`. */
tpp_status tpp__io_ranges_check(tpp__io_tensor *tensors, int64_t count, int64_t bytes,
                                const char *path);

#endif
