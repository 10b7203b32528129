/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_WEIGHTS_H
#define TPP_PROGRAM_WEIGHTS_H

#include "team.h"

/* All parameters in one safetensors file, whole, so that it fits every split: tensors named and
 * shaped as Hugging Face has the model's family, the model's sizes in its metadata. Without libtpp_io each
 * of these fails with a sentence that says so. */

/* Read a config.json. Returns 0, EXIT_USAGE or EXIT_FAILED, after one sentence. */
int weights_model(tpp_model_desc *out, const char *path);

/* Write one (path NULL: nothing). */
int weights_save_model(const tpp_model_desc *model, const char *path);

/* Can the file be written (NULL: yes)? Returns 0 or EXIT_USAGE. */
int weights_probe(const char *path);

/* Return 0 or EXIT_FAILED, after one sentence; a file that cannot be opened is EXIT_USAGE. */
int weights_save(const struct team *team, const char *path);
int weights_load(const struct team *team, const char *path);

#endif
