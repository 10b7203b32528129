/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "weights.h"

#include <stdlib.h>
#include <tpp/io.h>

#include "gather.h"
#include "reserve.h"
#include "say.h"
#include "turn.h"
#include "weight_sizes.h"

/* One tensor at a time is whole in memory. */
struct saving {
    const struct team *team;
    void *data; /* of the tensor asked for last */
};

struct source {
    struct saving *saving;
    int32_t param;
    tpp_weight_info name;
};

static tpp_status provide(void *ctx, const tpp_tensor_call *call) {
    const struct source *source = ctx;
    struct saving *saving = source->saving;
    struct full_param full = gather_param(saving->team, source->param);
    free(saving->data);
    saving->data = full.data;
    full.data = NULL;
    if (source->name.turned) {
        void *turned = reserve(full.bytes, 1);
        turn(turned, saving->data, full.rows, full.cols, gather_width(saving->team));
        free(saving->data);
        saving->data = turned;
    }
    *call->data = saving->data;
    gather_free(&full);
    return TPP_OK;
}

static tpp_status add(tpp_safetensors_writer *writer, struct source *source) {
    const struct team *team = source->saving->team;
    struct full_param full = gather_shape(team, source->param);
    source->name.size = sizeof source->name;
    tpp_status status = tpp_weight_query(team->config->family, full.name, &source->name);
    if (status != TPP_OK || full.copy) { /* the other one is saved */
        return status;
    }
    tpp_tensor_desc d = {0};
    d.size = sizeof d;
    d.name = source->name.name;
    d.dtype = team->config->dtype;
    d.dims = source->name.dims;
    d.rows = source->name.turned ? full.cols : full.rows;
    d.cols = source->name.turned ? full.rows : full.cols;
    d.source = provide;
    d.ctx = source;
    return tpp_safetensors_writer_add(writer, &d);
}

static tpp_status add_sizes(tpp_safetensors_writer *writer, const struct train_config *config) {
    struct weight_size sizes[WEIGHT_SIZES];
    weight_sizes(sizes, config);
    tpp_status status = tpp_safetensors_writer_set_metadata(writer, "format", "pt");
    for (int i = 0; i < WEIGHT_SIZES && status == TPP_OK; i++) {
        if (sizes[i].value[0]) {
            status = tpp_safetensors_writer_set_metadata(writer, sizes[i].key, sizes[i].value);
        }
    }
    return status;
}

int weights_probe(const char *path) {
    tpp_safetensors_writer *writer = NULL;
    if (path && tpp_safetensors_writer_create(&writer, path) != TPP_OK) {
        return usage_error("--save %s", tpp_message());
    }
    tpp_safetensors_writer_destroy(writer);
    return 0;
}

int weights_save_model(const tpp_model_desc *model, const char *path) {
    tpp_status status = path ? tpp_model_write(model, path) : TPP_OK;
    return status == TPP_OK ? 0 : usage_error("--save-config %s", tpp_message());
}

int weights_save(const struct team *team, const char *path) {
    struct saving saving = {.team = team};
    struct source *sources = reserve(team->params, sizeof *sources);
    tpp_safetensors_writer *writer = NULL;
    tpp_status status = tpp_safetensors_writer_create(&writer, path);
    if (status == TPP_OK) {
        status = add_sizes(writer, team->config);
    }
    for (int32_t i = 0; i < team->params && status == TPP_OK; i++) {
        sources[i] = (struct source){.saving = &saving, .param = i};
        status = add(writer, &sources[i]);
    }
    if (status == TPP_OK) {
        status = tpp_safetensors_writer_finish(writer);
    }
    tpp_safetensors_writer_destroy(writer);
    free(saving.data);
    free(sources);
    return status == TPP_OK ? 0 : library_error("save the weights");
}
