/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Costs from a JSON file. The names of json_out.h are jansson's too: not both in one file. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../reserve.h"
#include "../say.h"
#include "pipe_costs.h"

static int check_number(const char *path, const char *name, const json_t *value) {
    double number = json_is_number(value) ? json_number_value(value) : -1;
    if (json_is_number(value) && number >= 0 && isfinite(number)) {
        return 0;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    int code = data_error("--costs %s: %s has %.60s; accepted: numbers from 0 up", path, name,
                          text ? text : "something unreadable");
    free(text);
    return code;
}

/* A list of `stages` numbers, or one number for all. */
static int read_list(struct pipe_costs *costs, const char *path, int list, const json_t *value) {
    int32_t stages = costs->desc.stages;
    const char *name = pipe_costs_name(list);
    if (json_is_array(value) && json_array_size(value) != (size_t)stages) {
        return data_error("--costs %s: %s has %zu numbers; accepted: %" PRId32
                          ", one for each virtual stage, or one number for all",
                          path, name, json_array_size(value), stages);
    }
    double *numbers = reserve(stages, sizeof *numbers);
    int code = 0;
    for (int32_t i = 0; i < stages && code == 0; i++) {
        const json_t *one = json_is_array(value) ? json_array_get(value, (size_t)i) : value;
        code = check_number(path, name, one);
        numbers[i] = code ? 0 : json_number_value(one);
    }
    pipe_costs_set(costs, list, numbers);
    return code;
}

static int read_field(struct pipe_costs *costs, const char *path, const char *name,
                      const json_t *value) {
    char accepted[256] = "latency";
    if (strcmp(name, "latency") == 0) {
        costs->desc.latency = json_number_value(value);
        return check_number(path, name, value);
    }
    for (int i = 0; i < COST_LISTS; i++) {
        size_t used = strlen(accepted);
        if (strcmp(name, pipe_costs_name(i)) == 0) {
            return read_list(costs, path, i, value);
        }
        snprintf(accepted + used, sizeof accepted - used, ", %s", pipe_costs_name(i));
    }
    return data_error("--costs %s: %s is not known; accepted: %s", path, name, accepted);
}

static int read_fields(struct pipe_costs *costs, const char *path, json_t *file) {
    const char *name = NULL;
    json_t *value = NULL;
    int code = json_is_object(file) ? 0 : data_error("--costs %s is no JSON object", path);
    json_object_foreach(file, name, value) {
        code = code ? code : read_field(costs, path, name, value);
    }
    for (int half = COST_INPUT; half <= COST_WEIGHT && code == 0; half++) {
        if (json_object_get(file, "backward") && !json_object_get(file, pipe_costs_name(half))) {
            pipe_costs_set(costs, half, NULL); /* is half of the file's backward, not --ti, --tw */
        }
    }
    return code;
}

int costs_file_read(struct pipe_costs *costs, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        return usage_error("--costs %s cannot be read: %s", path, strerror(errno));
    }
    json_error_t error;
    json_t *json = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    fclose(file);
    if (!json) {
        return data_error("--costs %s is no JSON: line %d, column %d: %s", path, error.line,
                          error.column, error.text);
    }
    int code = read_fields(costs, path, json);
    json_decref(json);
    return code;
}
