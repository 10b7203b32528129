/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* In the place of weights_save.c and weights_load.c where libtpp was built without jansson. */
#include "weights.h"

#include "say.h"

static int refuse(const char *option, const char *path) {
    return path ? usage_error("--%s %s needs libtpp_io, and this tpp was built without it", option,
                              path)
                : 0;
}

int weights_model(tpp_model_desc *out, const char *path) {
    (void)out;
    return refuse("model", path);
}

int weights_save_model(const tpp_model_desc *model, const char *path) {
    (void)model;
    return refuse("save-config", path);
}

int weights_probe(const char *path) {
    return refuse("save", path);
}

int weights_save(const struct team *team, const char *path) {
    (void)team;
    return refuse("save", path);
}

int weights_load(const struct team *team, const char *path) {
    (void)team;
    return refuse("load", path);
}
