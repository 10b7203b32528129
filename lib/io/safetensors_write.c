/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <tpp/io.h>

#include "io_file.h"
#include "io_support.h"

#include <jansson.h>
#include <string.h>

typedef struct tensor {
    json_t *name;
    tpp_tensor_desc desc; /* its name is that above */
    int64_t bytes, begin;
} tensor;

struct tpp_safetensors_writer {
    tpp__io_output output;
    json_t *names; /* {name: null}: the names that are taken */
    json_t *metadata;
    tensor *tensors;
    int64_t count, room;
    int64_t bytes; /* of all tensors */
    bool finished; /* or tried to */
};

static const char METADATA[] = "__metadata__";
static const int64_t ALIGN = 64; /* of the first number in the file */

tpp_status tpp_safetensors_writer_create(tpp_safetensors_writer **out, const char *path) {
    if (!out || !path || !path[0])
        return tpp__io_fail(TPP_ERR_INVALID, "%s",
                            !out   ? "out is NULL; it must point to a pointer"
                            : path ? "path is empty"
                                   : "path is NULL");
    *out = NULL;
    tpp_safetensors_writer *writer = tpp__io_alloc(1, sizeof *writer);
    if (!writer)
        return TPP_ERR_NO_MEMORY;
    writer->names = json_object();
    writer->metadata = json_object();
    tpp_status status = TPP_OK;
    if (!writer->names || !writer->metadata)
        status = tpp__io_fail(TPP_ERR_NO_MEMORY, "no memory for the header of %s", path);
    if (status == TPP_OK)
        status = tpp__io_output_open(&writer->output, path);
    if (status != TPP_OK) {
        tpp_safetensors_writer_destroy(writer);
        return status;
    }
    *out = writer;
    return TPP_OK;
}

static tpp_status open_for_more(const tpp_safetensors_writer *writer) {
    if (!writer)
        return tpp__io_fail(TPP_ERR_INVALID, "writer is NULL");
    if (writer->finished)
        return tpp__io_fail(TPP_ERR_INVALID, "writer is finished; nothing can be added");
    return TPP_OK;
}

/* Every rule of a tensor by itself; its name is fit to be printed. */
static tpp_status check(const tpp_tensor_desc *d, int64_t *bytes) {
    int64_t width = tpp__io_dtype_bytes(d->dtype), count;
    if (width == 0)
        return tpp__io_fail(
            TPP_ERR_UNSUPPORTED,
            "tensor %s: desc.dtype = %d; accepted: TPP_F32, TPP_F64, TPP_BF16, TPP_F16, "
            "TPP_I32, TPP_I64",
            d->name, d->dtype);
    if (d->dims < 0 || d->dims > 2)
        return tpp__io_fail(TPP_ERR_INVALID, "tensor %s: desc.dims = %d; accepted: 0, 1, 2",
                            d->name, d->dims);
    if (d->rows < 0 || d->cols < 0 || (d->dims == 1 && d->rows != 1))
        return tpp__io_fail(TPP_ERR_INVALID,
                            "tensor %s: desc.rows = %lld, desc.cols = %lld; accepted: 0 or more, "
                            "and rows 1 with dims 1",
                            d->name, (long long)d->rows, (long long)d->cols);
    if (!tpp__io_mul(d->rows, d->cols, &count) || !tpp__io_mul(count, width, bytes))
        return tpp__io_fail(TPP_ERR_OVERFLOW,
                            "tensor %s: %lld times %lld does not fit into 64 bits", d->name,
                            (long long)d->rows, (long long)d->cols);
    if (!d->data && !d->source && *bytes > 0)
        return tpp__io_fail(TPP_ERR_INVALID, "tensor %s has neither data nor source", d->name);
    return TPP_OK;
}

static tpp_status check_name(const tpp_safetensors_writer *writer, const char *name) {
    if (!name || !name[0])
        return tpp__io_fail(TPP_ERR_INVALID, "desc.name is %s", name ? "empty" : "NULL");
    if (strcmp(name, METADATA) == 0)
        return tpp__io_fail(TPP_ERR_INVALID, "desc.name = %s is the key of the metadata", name);
    if (json_object_get(writer->names, name))
        return tpp__io_fail(TPP_ERR_INVALID, "tensor %s is there already", name);
    return TPP_OK;
}

static tpp_status make_room(tpp_safetensors_writer *writer) {
    if (writer->count < writer->room)
        return TPP_OK;
    int64_t room = writer->room ? 2 * writer->room : 16;
    tensor *longer = tpp__io_lengthen(writer->tensors, room, sizeof *longer);
    if (!longer)
        return TPP_ERR_NO_MEMORY;
    writer->tensors = longer;
    writer->room = room;
    return TPP_OK;
}

tpp_status tpp_safetensors_writer_add(tpp_safetensors_writer *writer, const tpp_tensor_desc *desc) {
    tensor t = {0};
    int64_t total;
    tpp_status status = open_for_more(writer);
    if (status == TPP_OK)
        status = tpp__io_sized_read(&t.desc, sizeof t.desc, desc, "desc");
    if (status == TPP_OK)
        status = check_name(writer, t.desc.name);
    if (status == TPP_OK)
        status = check(&t.desc, &t.bytes);
    if (status == TPP_OK)
        status = make_room(writer);
    if (status != TPP_OK)
        return status;
    if (!tpp__io_add(writer->bytes, t.bytes, &total) || total > INT64_MAX - 2 * TPP__IO_HEADER_MOST)
        return tpp__io_fail(TPP_ERR_OVERFLOW, "tensor %s: the file does not fit into 64 bits",
                            t.desc.name);
    t.name = json_string(t.desc.name);
    if (!t.name || json_object_set_new(writer->names, t.desc.name, json_null()) != 0) {
        json_decref(t.name);
        return tpp__io_fail(TPP_ERR_INVALID, "desc.name = \"%.80s\" is not UTF-8 (or no memory)",
                            t.desc.name);
    }
    t.desc.name = json_string_value(t.name);
    writer->tensors[writer->count++] = t;
    writer->bytes = total;
    return TPP_OK;
}

tpp_status tpp_safetensors_writer_set_metadata(tpp_safetensors_writer *writer, const char *key,
                                               const char *value) {
    tpp_status status = open_for_more(writer);
    if (status != TPP_OK)
        return status;
    if (!key || !value)
        return tpp__io_fail(TPP_ERR_INVALID, "%s is NULL", key ? "value" : "key");
    if (json_object_set_new(writer->metadata, key, json_string(value)) != 0)
        return tpp__io_fail(TPP_ERR_INVALID, "metadata \"%.80s\" is not UTF-8 (or no memory)", key);
    return TPP_OK;
}

/* Longer numbers first: with a first number that is aligned, all are. */
static void place(tpp_safetensors_writer *writer) {
    int64_t at = 0;
    for (int64_t width = 8; width >= 2; width /= 2) {
        for (int64_t i = 0; i < writer->count; i++) {
            tensor *t = &writer->tensors[i];
            if (tpp__io_dtype_bytes(t->desc.dtype) != width)
                continue;
            t->begin = at;
            at += t->bytes;
        }
    }
}

/* json_object_set_new of NULL fails: a missing piece becomes a missing header. */
static json_t *entry_of(const tensor *t) {
    json_t *entry = json_object();
    int64_t end = t->begin + t->bytes;
    json_t *shape = t->desc.dims == 1
                        ? json_pack("[I]", (json_int_t)t->desc.cols)
                        : json_pack("[I,I]", (json_int_t)t->desc.rows, (json_int_t)t->desc.cols);
    json_t *range = json_pack("[I,I]", (json_int_t)t->begin, (json_int_t)end);
    int bad = json_object_set_new(entry, "dtype", json_string(tpp__io_dtype_name(t->desc.dtype)));
    bad |= json_object_set_new(entry, "shape", shape);
    bad |= json_object_set_new(entry, "data_offsets", range);
    if (bad) {
        json_decref(entry);
        return NULL;
    }
    return entry;
}

static json_t *header_of(const tpp_safetensors_writer *writer) {
    json_t *header = json_object();
    int bad = 0;
    if (json_object_size(writer->metadata) > 0)
        bad = json_object_set(header, METADATA, writer->metadata);
    for (int64_t i = 0; i < writer->count && !bad; i++)
        bad = json_object_set_new(header, writer->tensors[i].desc.name,
                                  entry_of(&writer->tensors[i]));
    if (bad) {
        json_decref(header);
        return NULL;
    }
    return header;
}

/* The length and the header, filled up with spaces. */
static tpp_status write_header(tpp__io_output *output, const json_t *header) {
    int64_t need = (int64_t)json_dumpb(header, NULL, 0, JSON_COMPACT);
    int64_t padded = (8 + need + ALIGN - 1) / ALIGN * ALIGN;
    if (need == 0)
        return tpp__io_fail(TPP_ERR_NO_MEMORY, "no memory for the header of %s", output->path);
    if (padded - 8 > TPP__IO_HEADER_MOST)
        return tpp__io_fail(TPP_ERR_UNSUPPORTED,
                            "the header of %s has %lld bytes; accepted: at most %d", output->path,
                            (long long)need, TPP__IO_HEADER_MOST);
    unsigned char *text = tpp__io_alloc(padded, 1);
    if (!text)
        return TPP_ERR_NO_MEMORY;
    for (int i = 0; i < 8; i++)
        text[i] = (unsigned char)((uint64_t)(padded - 8) >> 8 * i);
    memset(text + 8, ' ', (size_t)(padded - 8));
    json_dumpb(header, (char *)text + 8, (size_t)need, JSON_COMPACT);
    tpp_status status = tpp__io_output_write(output, text, padded);
    tpp__io_free(text);
    return status;
}

static tpp_status write_tensor(tpp__io_output *output, const tensor *t) {
    const void *data = t->desc.data;
    if (t->bytes == 0)
        return TPP_OK;
    if (!data) {
        tpp_tensor_call call = {sizeof call, 0, t->desc.name, t->bytes, &data};
        tpp_status status = t->desc.source(t->desc.ctx, &call);
        if (status < 0)
            return status;
        if (!data)
            return tpp__io_fail(TPP_ERR_INVALID, "tensor %s: its source set no data", t->desc.name);
    }
    return tpp__io_output_write(output, data, t->bytes);
}

tpp_status tpp_safetensors_writer_finish(tpp_safetensors_writer *writer) {
    tpp_status status = open_for_more(writer);
    if (status != TPP_OK)
        return status;
    writer->finished = true;
    place(writer);
    json_t *header = header_of(writer);
    if (!header)
        return tpp__io_fail(TPP_ERR_NO_MEMORY, "no memory for the header of %s",
                            writer->output.path);
    status = write_header(&writer->output, header);
    json_decref(header);
    for (int64_t width = 8; width >= 2; width /= 2) { /* as place() did */
        for (int64_t i = 0; i < writer->count && status == TPP_OK; i++) {
            if (tpp__io_dtype_bytes(writer->tensors[i].desc.dtype) == width)
                status = write_tensor(&writer->output, &writer->tensors[i]);
        }
    }
    return status == TPP_OK ? tpp__io_output_commit(&writer->output) : status;
}

void tpp_safetensors_writer_destroy(tpp_safetensors_writer *writer) {
    if (!writer)
        return;
    tpp__io_output_discard(&writer->output);
    for (int64_t i = 0; i < writer->count; i++)
        json_decref(writer->tensors[i].name);
    tpp__io_free(writer->tensors);
    json_decref(writer->names);
    json_decref(writer->metadata);
    tpp__io_free(writer);
}
