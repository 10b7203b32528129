/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_IO_JSON_FIELD_H
#define TPP_IO_JSON_FIELD_H

#include <jansson.h>
#include <stdbool.h>
#include <tpp/status.h>

/* Fields of a JSON object, one sentence about the first that is wrong: what follows a failure does
 * nothing. A field that is null counts as absent. */
typedef struct tpp__fields {
    const json_t *object;
    const char *path;   /* of the file */
    const char *prefix; /* of the names in sentences, such as "rope_scaling." */
    tpp_status status;
} tpp__fields;

/* A file with one JSON object of at most 100,000,000 bytes; free with json_decref. */
tpp_status tpp__json_read(json_t **out, const char *path);

bool tpp__field_is(const tpp__fields *f, const char *name);

/* The field when it is there, else `otherwise`. */
int64_t tpp__field_int(tpp__fields *f, const char *name, int64_t least, int64_t otherwise);
double tpp__field_real(tpp__fields *f, const char *name, double otherwise);
bool tpp__field_bool(tpp__fields *f, const char *name, bool otherwise);
const char *tpp__field_text(tpp__fields *f, const char *name, const char *otherwise);

/* A text and what it stands for; a list of them ends with a NULL name. */
typedef struct tpp__word {
    const char *text;
    int32_t value;
} tpp__word;
int32_t tpp__field_word(tpp__fields *f, const char *name, const tpp__word *words,
                        int32_t otherwise);

/* "<path>: <name> = <value>; accepted: <accepted>", as TPP_ERR_UNSUPPORTED. */
void tpp__field_refuse(tpp__fields *f, const char *name, const char *accepted);

#endif
