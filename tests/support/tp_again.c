/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/tp_again.h"

static tpp_status create(tpp_layer **out, const tpp_layer_env *env, const void *desc) {
    const tp_case *c = desc;
    tpp_layer *layer;
    tpp_status status = c->kind->create(&layer, env, c->desc);
    if (status < 0)
        return status;
    status = tpp_recompute_create(out, layer);
    if (status < 0)
        tpp_layer_destroy(layer);
    return status;
}

static void describe(const void *desc, tp_full *full) {
    const tp_case *c = desc;
    c->kind->describe(c->desc, full);
}

static void reference(const void *desc, tp_full *full) {
    const tp_case *c = desc;
    c->kind->reference(c->desc, full);
}

const tp_kind tp_kind_again = {create, describe, reference};
