/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "json_field.h"

#include "io_file.h"
#include "io_support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VALUE_BYTES = 64, LIST_BYTES = 256 };

static tpp_status parse(json_t **out, const char *path, const char *text, int64_t bytes) {
    json_error_t error;
    *out = json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &error);
    if (!*out && json_error_code(&error) == json_error_out_of_memory)
        return tpp__io_fail(TPP_ERR_NO_MEMORY, "no memory for %.200s", path);
    if (!*out)
        return tpp__io_fail(TPP_ERR_FORMAT, "%.200s is no JSON: line %d: %s", path, error.line,
                            error.text);
    if (json_is_object(*out))
        return TPP_OK;
    json_decref(*out);
    *out = NULL;
    return tpp__io_fail(TPP_ERR_FORMAT, "%.200s holds no JSON object", path);
}

tpp_status tpp__json_read(json_t **out, const char *path) {
    const unsigned char *map;
    int64_t bytes;
    *out = NULL;
    tpp_status status = tpp__io_map(path, &map, &bytes);
    if (status == TPP_OK && bytes > TPP__IO_HEADER_MOST)
        status = tpp__io_fail(TPP_ERR_FORMAT, "%.200s has %lld bytes; accepted: at most %d", path,
                              (long long)bytes, TPP__IO_HEADER_MOST);
    if (status == TPP_OK)
        status = parse(out, path, map ? (const char *)map : "", bytes);
    tpp__io_unmap(map, bytes);
    return status;
}

static const json_t *value_of(const tpp__fields *f, const char *name) {
    const json_t *value = json_object_get(f->object, name);
    return json_is_null(value) ? NULL : value;
}

bool tpp__field_is(const tpp__fields *f, const char *name) {
    return value_of(f, name) != NULL;
}

void tpp__field_refuse(tpp__fields *f, const char *name, const char *accepted) {
    char text[VALUE_BYTES + 1] = "";
    const json_t *value = json_object_get(f->object, name);
    size_t length = json_dumpb(value, text, VALUE_BYTES, JSON_ENCODE_ANY | JSON_COMPACT);
    bool cut = length > VALUE_BYTES;
    if (f->status != TPP_OK)
        return;
    f->status = tpp__io_fail(TPP_ERR_UNSUPPORTED, "%.200s: %s%s = %s%s; accepted: %s", f->path,
                             f->prefix, name, length ? text : "nothing", cut ? ".." : "", accepted);
}

int64_t tpp__field_int(tpp__fields *f, const char *name, int64_t least, int64_t otherwise) {
    char accepted[VALUE_BYTES];
    const json_t *value = value_of(f, name);
    if (!value || f->status != TPP_OK)
        return otherwise;
    json_int_t number = json_integer_value(value);
    if (json_is_integer(value) && number >= least && number <= INT32_MAX)
        return number;
    snprintf(accepted, sizeof accepted, "whole numbers %lld .. %d", (long long)least, INT32_MAX);
    tpp__field_refuse(f, name, accepted);
    return otherwise;
}

double tpp__field_real(tpp__fields *f, const char *name, double otherwise) {
    const json_t *value = value_of(f, name);
    if (!value || f->status != TPP_OK)
        return otherwise;
    double number = json_number_value(value);
    if (json_is_number(value) && number > 0 && isfinite(number))
        return number;
    tpp__field_refuse(f, name, "numbers above 0");
    return otherwise;
}

bool tpp__field_bool(tpp__fields *f, const char *name, bool otherwise) {
    const json_t *value = value_of(f, name);
    if (!value || f->status != TPP_OK)
        return otherwise;
    if (!json_is_boolean(value))
        tpp__field_refuse(f, name, "true, false");
    return json_is_true(value);
}

const char *tpp__field_text(tpp__fields *f, const char *name, const char *otherwise) {
    const json_t *value = value_of(f, name);
    if (!value || f->status != TPP_OK)
        return otherwise;
    if (!json_is_string(value)) {
        tpp__field_refuse(f, name, "a text");
        return otherwise;
    }
    return json_string_value(value);
}

int32_t tpp__field_word(tpp__fields *f, const char *name, const tpp__word *words,
                        int32_t otherwise) {
    char accepted[LIST_BYTES] = "";
    int used = 0;
    const char *text = tpp__field_text(f, name, NULL);
    if (!text)
        return otherwise;
    for (const tpp__word *w = words; w->text; w++) {
        if (strcmp(w->text, text) == 0)
            return w->value;
        if (used < LIST_BYTES - VALUE_BYTES)
            used += snprintf(accepted + used, sizeof accepted - (size_t)used, "%s\"%s\"",
                             used ? ", " : "", w->text);
    }
    tpp__field_refuse(f, name, accepted);
    return otherwise;
}
