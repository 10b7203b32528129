/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "safetensors_header.h"

#include "io_support.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DIMS = 1024 };

/* An entry on its way in: what every sentence names. */
typedef struct reading {
    tpp__io_tensor *out;
    const json_t *entry;
    const char *path;
} reading;

static tpp_status refuse(const reading *r, const char *rule) {
    return tpp__io_fail(TPP_ERR_FORMAT, "%.200s: tensor \"%.120s\": %s", r->path, r->out->name,
                        rule);
}

static tpp_status read_keys(const reading *r) {
    const char *key;
    json_t *value;
    if (!json_is_object(r->entry))
        return refuse(r, "its entry is no object");
    /* Iterating changes nothing. */
    union {
        const json_t *given;
        json_t *object;
    } of = {r->entry};
    json_object_foreach(of.object, key, value) {
        if (strcmp(key, "dtype") != 0 && strcmp(key, "shape") != 0 &&
            strcmp(key, "data_offsets") != 0)
            return refuse(r, "its entry has a key other than dtype, shape, data_offsets");
    }
    return TPP_OK;
}

static tpp_status read_dtype(const reading *r) {
    const char *name = json_string_value(json_object_get(r->entry, "dtype"));
    if (!name)
        return refuse(r, "dtype is missing or no string");
    r->out->dtype = tpp__io_dtype_of(name);
    if (r->out->dtype < 0)
        return tpp__io_fail(TPP_ERR_FORMAT,
                            "%.200s: tensor \"%.120s\": dtype \"%.40s\" is none of the format",
                            r->path, r->out->name, name);
    if (r->out->dtype == 0)
        return tpp__io_fail(
            TPP_ERR_UNSUPPORTED,
            "%.200s: tensor \"%.120s\": dtype %s; accepted: F32, F64, BF16, F16, I32, "
            "I64",
            r->path, r->out->name, name);
    return TPP_OK;
}

/* A whole number >= 0, or -1. */
static int64_t natural(const json_t *value) {
    return json_is_integer(value) && json_integer_value(value) >= 0
               ? (int64_t)json_integer_value(value)
               : -1;
}

static tpp_status read_shape(const reading *r, int64_t *count) {
    const json_t *shape = json_object_get(r->entry, "shape");
    tpp__io_tensor *out = r->out;
    if (!json_is_array(shape) || json_array_size(shape) > MOST_DIMS)
        return refuse(r, "shape is missing or no array of at most 1024 lengths");
    out->dims = (int32_t)json_array_size(shape);
    out->shape = tpp__io_alloc(out->dims, sizeof *out->shape);
    if (!out->shape)
        return TPP_ERR_NO_MEMORY;
    out->rows = out->cols = 1;
    for (int32_t i = 0; i < out->dims; i++) {
        int64_t length = natural(json_array_get(shape, (size_t)i));
        if (length < 0)
            return refuse(r, "shape holds something else than whole numbers from 0 on");
        out->shape[i] = length;
        if (i == out->dims - 1)
            out->cols = length;
        else if (!tpp__io_mul(out->rows, length, &out->rows))
            return refuse(r, "its shape does not fit into 64 bits");
    }
    if (!tpp__io_mul(out->rows, out->cols, count))
        return refuse(r, "its shape does not fit into 64 bits");
    return TPP_OK;
}

static tpp_status read_range(const reading *r, int64_t count) {
    const json_t *range = json_object_get(r->entry, "data_offsets");
    tpp__io_tensor *out = r->out;
    int64_t bytes;
    if (!json_is_array(range) || json_array_size(range) != 2)
        return refuse(r, "data_offsets is missing or no array of two");
    out->begin = natural(json_array_get(range, 0));
    out->end = natural(json_array_get(range, 1));
    if (out->begin < 0 || out->end < out->begin)
        return refuse(r, "data_offsets is no range [begin, end] of whole numbers from 0 on");
    if (!tpp__io_mul(count, tpp__io_dtype_bytes(out->dtype), &bytes))
        return refuse(r, "its shape does not fit into 64 bits");
    if (out->end - out->begin != bytes)
        return tpp__io_fail(TPP_ERR_FORMAT,
                            "%.200s: tensor \"%.120s\": data_offsets span %lld bytes, shape and "
                            "dtype need %lld",
                            r->path, out->name, (long long)(out->end - out->begin),
                            (long long)bytes);
    return TPP_OK;
}

tpp_status tpp__io_entry_read(tpp__io_tensor *out, const char *name, const json_t *entry,
                              const char *path) {
    reading r = {out, entry, path};
    int64_t count = 0;
    out->name = name;
    tpp_status status = read_keys(&r);
    if (status == TPP_OK)
        status = read_dtype(&r);
    if (status == TPP_OK)
        status = read_shape(&r, &count);
    return status == TPP_OK ? read_range(&r, count) : status;
}

static int by_place(const void *left, const void *right) {
    const tpp__io_tensor *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    return strcmp(a->name, b->name);
}

tpp_status tpp__io_ranges_check(tpp__io_tensor *tensors, int64_t count, int64_t bytes,
                                const char *path) {
    int64_t at = 0;
    if (count > 0)
        qsort(tensors, (size_t)count, sizeof *tensors, by_place);
    for (int64_t i = 0; i < count; i++) {
        const tpp__io_tensor *t = &tensors[i];
        if (t->begin != at)
            return tpp__io_fail(TPP_ERR_FORMAT,
                                "%.200s: tensor \"%.120s\": begins at byte %lld of the data, the "
                                "one before ends at %lld: %s",
                                path, t->name, (long long)t->begin, (long long)at,
                                t->begin < at ? "they overlap" : "there is a hole");
        at = t->end;
        if (at > bytes)
            return tpp__io_fail(TPP_ERR_FORMAT,
                                "%.200s: tensor \"%.120s\": ends at byte %lld of the data, the "
                                "file has only %lld; is it cut off?",
                                path, t->name, (long long)at, (long long)bytes);
    }
    if (at != bytes)
        return tpp__io_fail(TPP_ERR_FORMAT,
                            "%.200s: the tensors end at byte %lld of the data, the file has %lld",
                            path, (long long)at, (long long)bytes);
    return TPP_OK;
}
