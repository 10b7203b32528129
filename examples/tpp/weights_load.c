/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "weights.h"

#include <stdlib.h>
#include <string.h>
#include <tpp/io.h>

#include "reserve.h"
#include "say.h"
#include "weight_sizes.h"

int weights_model(tpp_model_desc *out, const char *path) {
    tpp_status status = tpp_model_read(out, path);
    if (status == TPP_ERR_IO) {
        return usage_error("--model %s", tpp_message());
    }
    return status == TPP_OK ? 0 : data_error("--model %s", tpp_message());
}

/* The sizes in the metadata. A file of another program need not have them: its shapes tell
 * nearly all. */
static int check_sizes(const tpp_weights *weights, const struct team *team, const char *path) {
    struct weight_size sizes[WEIGHT_SIZES];
    weight_sizes(sizes, team->config);
    for (int i = 0; i < WEIGHT_SIZES; i++) {
        const char *theirs = tpp_weights_metadata_get(weights, sizes[i].key);
        if (theirs && sizes[i].value[0] && strcmp(theirs, sizes[i].value) != 0) {
            return data_error("--load %s is of a model with %s %s; %s here is %s", path,
                              sizes[i].key, theirs, sizes[i].option, sizes[i].value);
        }
    }
    return 0;
}

/* Every rank's own parts. */
static tpp_status load_parts(const tpp_weights *weights, const struct team *team) {
    tpp_status status = TPP_OK;
    for (int32_t stage = 0; stage < team->directions * team->stages; stage++) {
        for (int32_t lane = 0; lane < team->layout.tp && status == TPP_OK; lane++) {
            const struct piece *piece = team_stage_piece(team, stage, lane);
            status = tpp_weights_load(weights, team->config->family, piece->layer,
                                      team->config->dtype, piece->params);
        }
    }
    return status;
}

/* That nothing in the file is left over. */
static tpp_status check_rest(const tpp_weights *weights, const struct team *team) {
    const tpp_layer **layers = reserve(team->stages, sizeof *layers);
    for (int32_t stage = 0; stage < team->stages; stage++) {
        layers[stage] = team_stage_piece(team, stage, 0)->layer;
    }
    tpp_status status = tpp_weights_check(weights, team->config->family, layers, team->stages);
    free(layers);
    return status;
}

int weights_load(const struct team *team, const char *path) {
    tpp_weights *weights = NULL;
    tpp_status status = tpp_weights_create(&weights, path);
    if (status == TPP_ERR_IO) {
        return usage_error("--load %s", tpp_message());
    }
    int code = status == TPP_OK ? check_sizes(weights, team, path) : 0;
    if (status == TPP_OK && code == 0) {
        status = load_parts(weights, team);
    }
    if (status == TPP_OK && code == 0) {
        status = check_rest(weights, team);
    }
    tpp_weights_destroy(weights);
    return status == TPP_OK ? code : data_error("--load %s", tpp_message());
}
