/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "io_support.h"
#include "json_field.h"
#include "weight_name.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The files of one model, and where each tensor is. */
struct tpp_weights {
    char *path; /* as given */
    tpp_safetensors **files;
    int64_t count;
    json_t *places; /* {name: number of the file} */
};

enum { PATH_BYTES = 4096 };
static const char INDEX[] = "model.safetensors.index.json", WHOLE[] = "model.safetensors";

/* "<folder of path>/<name>". */
static tpp_status beside(char out[PATH_BYTES], const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    int length =
        snprintf(out, PATH_BYTES, "%.*s%s", slash ? (int)(slash - path + 1) : 0, path, name);
    if (length >= PATH_BYTES || strchr(name, '/'))
        return tpp__io_fail(TPP_ERR_FORMAT, "%.200s: \"%.80s\" is no name of a file beside it",
                            path, name);
    return TPP_OK;
}

/* A folder means the index in it, or the one file. */
static tpp_status resolve(char out[PATH_BYTES], const char *path) {
    struct stat facts;
    bool folder = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
    const char *const names[] = {INDEX, WHOLE};
    for (int i = 0; i < 2; i++) {
        int length = folder ? snprintf(out, PATH_BYTES, "%s/%s", path, names[i])
                            : snprintf(out, PATH_BYTES, "%s", path);
        if (length >= PATH_BYTES)
            return tpp__io_fail(TPP_ERR_INVALID, "path has %d characters; accepted: at most %d",
                                length, PATH_BYTES - 1);
        if (!folder || stat(out, &facts) == 0)
            return TPP_OK;
    }
    return tpp__io_fail(TPP_ERR_IO, "%.200s has neither %s nor %s", path, INDEX, WHOLE);
}

static tpp_status add_file(tpp_weights *w, const char *path) {
    tpp_safetensors **longer = tpp__io_lengthen(w->files, w->count + 1, sizeof *longer);
    if (!longer)
        return TPP_ERR_NO_MEMORY;
    w->files = longer;
    tpp_status status = tpp_safetensors_create(&w->files[w->count], path);
    w->count += status == TPP_OK;
    return status;
}

static tpp_status note_place(tpp_weights *w, const char *name, int64_t file) {
    if (json_object_set_new(w->places, name, json_integer(file)) != 0)
        return tpp__io_fail(TPP_ERR_NO_MEMORY, "no memory for the names of %.200s", w->path);
    return TPP_OK;
}

static tpp_status open_one(tpp_weights *w, const char *path) {
    tpp_tensor_info info = {.size = sizeof info};
    tpp_status status = add_file(w, path);
    for (int64_t i = 0; status == TPP_OK && i < tpp_safetensors_count(w->files[0]); i++) {
        tpp_safetensors_query(w->files[0], i, &info);
        status = note_place(w, info.name, 0);
    }
    return status;
}

/* One entry of an index: the file `file` holds the tensor `name`. `opened`: {file: number}. */
static tpp_status add_entry(tpp_weights *w, const char *path, const char *name, const json_t *file,
                            json_t *opened) {
    char part[PATH_BYTES];
    tpp_tensor_info info = {.size = sizeof info};
    const char *text = json_string_value(file);
    if (!text)
        return tpp__io_fail(TPP_ERR_FORMAT, "%.200s: weight_map \"%.120s\" is no text", path, name);
    const json_t *number = json_object_get(opened, text);
    int64_t at = number ? json_integer_value(number) : w->count;
    tpp_status status = TPP_OK;
    if (!number) {
        status = beside(part, path, text);
        if (status == TPP_OK)
            status = add_file(w, part);
        if (status == TPP_OK && json_object_set_new(opened, text, json_integer(at)) != 0)
            status = tpp__io_fail(TPP_ERR_NO_MEMORY, "no memory for the names of %.200s", path);
    }
    if (status == TPP_OK && tpp_safetensors_find(w->files[at], name, &info) != TPP_OK)
        status = tpp__io_fail(TPP_ERR_FORMAT, "%.200s: %.120s is said to be in %.80s, and is not",
                              path, name, text);
    return status == TPP_OK ? note_place(w, name, at) : status;
}

static tpp_status open_index(tpp_weights *w, const char *path) {
    json_t *index = NULL, *opened = json_object(), *file;
    const char *name;
    tpp_status status = tpp__json_read(&index, path);
    json_t *map = json_object_get(index, "weight_map");
    if (status == TPP_OK && !json_is_object(map))
        status = tpp__io_fail(TPP_ERR_FORMAT, "%.200s: weight_map is missing or no object", path);
    if (status == TPP_OK) {
        json_object_foreach(map, name, file) {
            if (status == TPP_OK)
                status = add_entry(w, path, name, file, opened);
        }
    }
    json_decref(opened);
    json_decref(index);
    return status;
}

static tpp_status load(tpp_weights *w, const char *path) {
    char found[PATH_BYTES];
    w->path = tpp__io_alloc((int64_t)strlen(path) + 1, 1);
    w->places = json_object();
    if (!w->path || !w->places)
        return tpp__io_fail(TPP_ERR_NO_MEMORY, "no memory for the names of %.200s", path);
    memcpy(w->path, path, strlen(path));
    tpp_status status = resolve(found, path);
    size_t length = strlen(found);
    if (status != TPP_OK)
        return status;
    bool index = length > 5 && strcmp(found + length - 5, ".json") == 0;
    return index ? open_index(w, found) : open_one(w, found);
}

tpp_status tpp_weights_create(tpp_weights **out, const char *path) {
    if (!out)
        return tpp__io_fail(TPP_ERR_INVALID, "out is NULL; it must point to a pointer");
    *out = NULL;
    if (!path)
        return tpp__io_fail(TPP_ERR_INVALID, "path is NULL");
    tpp_weights *w = tpp__io_alloc(1, sizeof *w);
    if (!w)
        return TPP_ERR_NO_MEMORY;
    tpp_status status = load(w, path);
    if (status != TPP_OK) {
        tpp_weights_destroy(w);
        return status;
    }
    *out = w;
    return TPP_OK;
}

/* The tensor, when there is one. */
static bool look(const tpp_weights *w, const char *name, tpp_tensor_info *info) {
    const json_t *place = json_object_get(w->places, name);
    return place && tpp_safetensors_find(w->files[json_integer_value(place)], name, info) == TPP_OK;
}

tpp_status tpp_weights_find(const tpp_weights *weights, tpp_family family, const char *param,
                            tpp_tensor_info *info) {
    tpp_weight_info name = {.size = sizeof name};
    if (!weights)
        return tpp__io_fail(TPP_ERR_INVALID, "weights is NULL");
    tpp_status status = tpp_weight_query(family, param, &name);
    if (status != TPP_OK || look(weights, name.name, info) ||
        look(weights, tpp__weight_bare(family, name.name), info))
        return status;
    return tpp__io_fail(TPP_ERR_RANGE, "%.200s has no tensor %s", weights->path, name.name);
}

const char *tpp_weights_metadata_get(const tpp_weights *weights, const char *key) {
    return weights && weights->count > 0 ? tpp_safetensors_metadata_get(weights->files[0], key)
                                         : NULL;
}

/* Take the names of a layer's tensors out of `rest`. */
static tpp_status take_names(const tpp_weights *w, tpp_family family, const tpp_layer *layer,
                             json_t *rest) {
    tpp_layer_info facts = {.size = sizeof facts};
    tpp_tensor_info info = {.size = sizeof info};
    tpp_status status = tpp_layer_query(layer, 0, 0, &facts);
    for (int32_t i = 0; i < facts.params && status == TPP_OK; i++) {
        tpp_param_info param = {.size = sizeof param};
        status = tpp_layer_param(layer, i, &param);
        if (status == TPP_OK && tpp_weights_find(w, family, param.name, &info) == TPP_OK)
            json_object_del(rest, info.name);
    }
    return status;
}

/* Files of tied models may hold the table a second time, as the head's. */
static bool is_table_again(const tpp_weights *w, tpp_family family, const char *name) {
    tpp_tensor_info head = {.size = sizeof head}, table = head;
    return strcmp(name, "lm_head.weight") == 0 && look(w, name, &head) &&
           tpp_weights_find(w, family, "embed.tokens.weight", &table) == TPP_OK &&
           head.dtype == table.dtype && head.bytes == table.bytes && head.data && table.data &&
           memcmp(head.data, table.data, (size_t)head.bytes) == 0;
}

tpp_status tpp_weights_check(const tpp_weights *weights, tpp_family family,
                             const tpp_layer *const *layers, int32_t count) {
    const char *name;
    json_t *place;
    if (!weights || !layers)
        return tpp__io_fail(TPP_ERR_INVALID, "%s is NULL", weights ? "layers" : "weights");
    json_t *rest = json_copy(weights->places);
    tpp_status status = TPP_OK;
    if (!rest)
        return tpp__io_fail(TPP_ERR_NO_MEMORY, "no memory for the names of %.200s", weights->path);
    for (int32_t i = 0; i < count && status == TPP_OK; i++)
        status = take_names(weights, family, layers[i], rest);
    json_object_foreach(rest, name, place) {
        if (status == TPP_OK && !tpp__weight_is_buffer(family, name) &&
            !is_table_again(weights, family, name))
            status =
                tpp__io_fail(TPP_ERR_FORMAT, "%.200s has tensor %.120s, which the model has not",
                             weights->path, name);
    }
    json_decref(rest);
    return status;
}

const char *tpp__weights_path(const tpp_weights *weights) {
    return weights->path;
}

void tpp_weights_destroy(tpp_weights *weights) {
    if (!weights)
        return;
    for (int64_t i = 0; i < weights->count; i++)
        tpp_safetensors_destroy(weights->files[i]);
    tpp__io_free(weights->files);
    tpp__io_free(weights->path);
    json_decref(weights->places);
    tpp__io_free(weights);
}
