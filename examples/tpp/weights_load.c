/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "weights.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tpp/io.h>

#include "gather.h"
#include "reserve.h"
#include "say.h"
#include "turn.h"
#include "weight_name.h"
#include "weight_sizes.h"

enum { SHAPE_BYTES = 128 };

/* A file that has to fit a team. */
struct loading {
    const struct team *team;
    const tpp_safetensors *file;
    const char *path;
};

/* "[2, 3]", cut with "..." when there are many. */
static const char *shape_text(char out[SHAPE_BYTES], const int64_t *shape, int32_t dims) {
    int used = snprintf(out, SHAPE_BYTES, "[");
    for (int32_t i = 0; i < dims && used < SHAPE_BYTES - 32; i++) {
        used += snprintf(out + used, (size_t)(SHAPE_BYTES - used), "%s%" PRId64, i ? ", " : "",
                         shape[i]);
    }
    snprintf(out + used, (size_t)(SHAPE_BYTES - used), "%s]",
             used < SHAPE_BYTES - 32 ? "" : ", ...");
    return out;
}

/* The sizes in the metadata. A file of another program need not have them: its shapes tell all
 * but --heads. */
static int check_sizes(const struct loading *l) {
    struct weight_size sizes[WEIGHT_SIZES];
    char ours[16];
    weight_sizes(sizes, l->team->config);
    for (int i = 0; i < WEIGHT_SIZES; i++) {
        const char *theirs = tpp_safetensors_metadata_get(l->file, sizes[i].key);
        snprintf(ours, sizeof ours, "%" PRId32, sizes[i].value);
        if (theirs && strcmp(theirs, ours) != 0) {
            return data_error("--load %s is of a model with %s %s; %s here is %s", l->path,
                              sizes[i].key, theirs, sizes[i].option, ours);
        }
    }
    return 0;
}

/* Is the tensor there, of the right type and shape? */
static int check_tensor(const struct loading *l, const struct full_param *full,
                        const struct weight_name *name, tpp_tensor_info *info) {
    char theirs[SHAPE_BYTES];
    char ours[SHAPE_BYTES];
    if (tpp_safetensors_find(l->file, name->text, info) != TPP_OK) {
        return data_error("--load %s has no tensor %s", l->path, name->text);
    }
    int64_t shape[2] = {name->turned ? full->cols : full->rows,
                        name->turned ? full->rows : full->cols};
    const int64_t *wanted = shape + (name->dims == 1);
    if (info->dims != name->dims ||
        memcmp(info->shape, wanted, (size_t)name->dims * sizeof *wanted) != 0) {
        return data_error("--load %s has tensor %s of shape %s; the model of this run has %s",
                          l->path, name->text, shape_text(theirs, info->shape, info->dims),
                          shape_text(ours, wanted, name->dims));
    }
    if (info->dtype != l->team->config->dtype) {
        const char *type = option_choice_name(dtype_choices, info->dtype);
        return data_error("--load %s has tensor %s in %s; --dtype here is %s", l->path, name->text,
                          type ? type : "whole numbers",
                          option_choice_name(dtype_choices, l->team->config->dtype));
    }
    return 0;
}

/* One parameter, from the file (or, with `check` only, nothing). */
static int take(const struct loading *l, int32_t param, int check) {
    struct full_param full = gather_shape(l->team, param);
    struct weight_name name = weight_name(full.name);
    tpp_tensor_info info = {0};
    info.size = sizeof info;
    int code = check_tensor(l, &full, &name, &info);
    if (code || check) {
        return code;
    }
    if (!name.turned) {
        scatter_param(l->team, param, info.data);
        return 0;
    }
    void *turned = reserve(full.bytes, 1);
    turn(turned, info.data, full.cols, full.rows, gather_width(l->team));
    scatter_param(l->team, param, turned);
    free(turned);
    return 0;
}

/* Every parameter has its tensor; now every tensor is to have its parameter. */
static int check_rest(const struct loading *l) {
    int64_t count = tpp_safetensors_count(l->file);
    for (int64_t i = 0; i < count && count != l->team->params; i++) {
        tpp_tensor_info info = {0};
        info.size = sizeof info;
        tpp_safetensors_query(l->file, i, &info);
        int32_t param = 0;
        while (param < l->team->params &&
               strcmp(weight_name(gather_shape(l->team, param).name).text, info.name) != 0) {
            param++;
        }
        if (param == l->team->params) {
            return data_error("--load %s has tensor %s, which the model of this run has not",
                              l->path, info.name);
        }
    }
    return 0;
}

/* Nothing is taken before all is known to fit. */
static int load(const struct loading *l) {
    int code = check_sizes(l);
    for (int check = 1; check >= 0; check--) {
        for (int32_t i = 0; i < l->team->params && code == 0; i++) {
            code = take(l, i, check);
        }
        code = code || !check ? code : check_rest(l);
    }
    return code;
}

int weights_load(const struct team *team, const char *path) {
    tpp_safetensors *file = NULL;
    tpp_status status = tpp_safetensors_create(&file, path);
    if (status == TPP_ERR_IO) {
        return usage_error("--load %s", tpp_message());
    }
    if (status != TPP_OK) {
        return library_error("load the weights");
    }
    struct loading loading = {team, file, path};
    int code = load(&loading);
    tpp_safetensors_destroy(file);
    return code;
}
