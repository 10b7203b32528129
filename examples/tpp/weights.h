/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_WEIGHTS_H
#define TPP_PROGRAM_WEIGHTS_H

#include "team.h"

/* All parameters in one safetensors file, whole, so that it fits every split: tensors named and
 * shaped as in Hugging Face's GPT-2, the model's sizes in its metadata. Without libtpp_io each
 * of these fails with a sentence that says so. */

/* Can the file be written (NULL: yes)? Returns 0 or EXIT_USAGE. */
int weights_probe(const char *path);

/* Return 0 or EXIT_FAILED, after one sentence; a file that cannot be opened is EXIT_USAGE. */
int weights_save(const struct team *team, const char *path);
int weights_load(const struct team *team, const char *path);

#endif
