/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <tpp/io.h>

#include "io_file.h"
#include "io_support.h"
#include "safetensors_header.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers go into the file as they are");

struct tpp_safetensors {
    const unsigned char *map;
    int64_t map_bytes;
    const unsigned char *data; /* behind the header */
    json_t *header;
    json_t *metadata; /* borrowed from header, or NULL */
    json_t *places;   /* {name: index} */
    tpp__io_tensor *tensors;
    int64_t count;
};

static const char METADATA[] = "__metadata__";
enum { LENGTH = 8 /* bytes in front of the header */ };

/* Where the header ends: its length holds the rules. */
static tpp_status measure(const tpp_safetensors *file, const char *path, int64_t *bytes) {
    uint64_t length = 0;
    if (file->map_bytes < LENGTH)
        return tpp__io_fail(TPP_ERR_FORMAT,
                            "%.200s has %lld bytes; a file begins with 8 that tell the length of "
                            "its header",
                            path, (long long)file->map_bytes);
    for (int i = 0; i < LENGTH; i++)
        length |= (uint64_t)file->map[i] << 8 * i;
    if (length > TPP__IO_HEADER_MOST)
        return tpp__io_fail(TPP_ERR_FORMAT,
                            "%.200s: its header has %llu bytes; accepted: at most %d (is it a "
                            "safetensors file?)",
                            path, (unsigned long long)length, TPP__IO_HEADER_MOST);
    if ((int64_t)length > file->map_bytes - LENGTH)
        return tpp__io_fail(TPP_ERR_FORMAT,
                            "%.200s: its header has %llu bytes, the file only %lld after the "
                            "length; is it cut off?",
                            path, (unsigned long long)length,
                            (long long)(file->map_bytes - LENGTH));
    *bytes = (int64_t)length;
    return TPP_OK;
}

static tpp_status parse(tpp_safetensors *file, const char *path, int64_t bytes) {
    json_error_t error;
    const char *text = (const char *)file->map + LENGTH;
    if (bytes == 0 || text[0] != '{')
        return tpp__io_fail(TPP_ERR_FORMAT, "%.200s: its header does not begin with {", path);
    file->header = json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &error);
    if (!file->header && json_error_code(&error) == json_error_out_of_memory)
        return tpp__io_fail(TPP_ERR_NO_MEMORY, "no memory for the header of %.200s", path);
    if (!file->header)
        return tpp__io_fail(TPP_ERR_FORMAT, "%.200s: its header is no JSON object, byte %d: %s",
                            path, error.position, error.text);
    return TPP_OK;
}

static tpp_status check_metadata(tpp_safetensors *file, const char *path) {
    const char *key;
    json_t *value;
    json_t *metadata = json_object_get(file->header, METADATA);
    if (!metadata)
        return TPP_OK;
    if (!json_is_object(metadata))
        return tpp__io_fail(TPP_ERR_FORMAT, "%.200s: __metadata__ is no object", path);
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return tpp__io_fail(TPP_ERR_FORMAT, "%.200s: __metadata__ \"%.120s\" is no string",
                                path, key);
    }
    file->metadata = metadata;
    return TPP_OK;
}

static tpp_status read_entries(tpp_safetensors *file, const char *path) {
    const char *key;
    json_t *value;
    file->tensors = tpp__io_alloc((int64_t)json_object_size(file->header), sizeof *file->tensors);
    if (!file->tensors)
        return TPP_ERR_NO_MEMORY;
    json_object_foreach(file->header, key, value) {
        if (strcmp(key, METADATA) == 0)
            continue;
        tpp_status status = tpp__io_entry_read(&file->tensors[file->count++], key, value, path);
        if (status != TPP_OK)
            return status;
    }
    return TPP_OK;
}

static tpp_status index_names(tpp_safetensors *file, const char *path) {
    int bad = 0;
    file->places = json_object();
    for (int64_t i = 0; i < file->count && !bad; i++)
        bad = json_object_set_new(file->places, file->tensors[i].name, json_integer(i));
    if (bad || !file->places)
        return tpp__io_fail(TPP_ERR_NO_MEMORY, "no memory for the names of %.200s", path);
    return TPP_OK;
}

static tpp_status load(tpp_safetensors *file, const char *path) {
    int64_t bytes = 0;
    tpp_status status = tpp__io_map(path, &file->map, &file->map_bytes);
    if (status == TPP_OK)
        status = measure(file, path, &bytes);
    if (status == TPP_OK)
        status = parse(file, path, bytes);
    if (status == TPP_OK)
        status = check_metadata(file, path);
    if (status == TPP_OK)
        status = read_entries(file, path);
    if (status == TPP_OK)
        status = tpp__io_ranges_check(file->tensors, file->count, file->map_bytes - LENGTH - bytes,
                                      path);
    if (status == TPP_OK)
        status = index_names(file, path);
    file->data = file->map ? file->map + LENGTH + bytes : NULL;
    return status;
}

tpp_status tpp_safetensors_create(tpp_safetensors **out, const char *path) {
    if (!out)
        return tpp__io_fail(TPP_ERR_INVALID, "out is NULL; it must point to a pointer");
    *out = NULL;
    if (!path)
        return tpp__io_fail(TPP_ERR_INVALID, "path is NULL");
    tpp_safetensors *file = tpp__io_alloc(1, sizeof *file);
    if (!file)
        return TPP_ERR_NO_MEMORY;
    tpp_status status = load(file, path);
    if (status != TPP_OK) {
        tpp_safetensors_destroy(file);
        return status;
    }
    *out = file;
    return TPP_OK;
}

int64_t tpp_safetensors_count(const tpp_safetensors *file) {
    return file ? file->count : 0;
}

tpp_status tpp_safetensors_query(const tpp_safetensors *file, int64_t index,
                                 tpp_tensor_info *info) {
    if (!file)
        return tpp__io_fail(TPP_ERR_INVALID, "file is NULL");
    if (index < 0 || index >= file->count)
        return tpp__io_fail(TPP_ERR_RANGE, "index = %lld; the file has %lld tensors",
                            (long long)index, (long long)file->count);
    const tpp__io_tensor *t = &file->tensors[index];
    tpp_tensor_info own = {
        .name = t->name,
        .data = file->data + t->begin,
        .bytes = t->end - t->begin,
        .rows = t->rows,
        .cols = t->cols,
        .shape = t->shape,
        .dtype = t->dtype,
        .dims = t->dims,
    };
    return tpp__io_sized_write(info, &own, sizeof own, "info");
}

tpp_status tpp_safetensors_find(const tpp_safetensors *file, const char *name,
                                tpp_tensor_info *info) {
    if (!file || !name)
        return tpp__io_fail(TPP_ERR_INVALID, "%s is NULL", file ? "name" : "file");
    const json_t *place = json_object_get(file->places, name);
    if (!place)
        return tpp__io_fail(TPP_ERR_RANGE, "the file has no tensor \"%.200s\"", name);
    return tpp_safetensors_query(file, json_integer_value(place), info);
}

const char *tpp_safetensors_metadata_get(const tpp_safetensors *file, const char *key) {
    return file && key ? json_string_value(json_object_get(file->metadata, key)) : NULL;
}

void tpp_safetensors_destroy(tpp_safetensors *file) {
    if (!file)
        return;
    for (int64_t i = 0; i < file->count; i++)
        tpp__io_free(file->tensors[i].shape);
    tpp__io_free(file->tensors);
    json_decref(file->places);
    json_decref(file->header);
    tpp__io_unmap(file->map, file->map_bytes);
    tpp__io_free(file);
}
