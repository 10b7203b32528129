/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_IO_MODEL_JSON_H
#define TPP_IO_MODEL_JSON_H

#include "json_field.h"

#include <tpp/model.h>

/* A config.json as a model; `path` is for sentences. */
tpp_status tpp__model_of_json(tpp_model_desc *out, const json_t *object, const char *path);

/* The word of a family, an activation, a scaling in a config.json; NULL: it has none. */
const char *tpp__family_word(tpp_family family);
const char *tpp__act_word(tpp_family family, int32_t act);
const char *tpp__scaling_word(tpp_rope_scaling scaling);
const char *tpp__architecture(tpp_family family);

#endif
