/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_JSON_OUT_H
#define TPP_PROGRAM_JSON_OUT_H

#include <stdint.h>
#include <stdio.h>

/* A writer of JSON: commas and indentation come by themselves. In arrays the key is NULL. */
struct json {
    FILE *out;
    int depth;
    int filled; /* something stands before in this object or array */
    int flat;   /* depth from which on everything stands on one line; 0: none */
};

void json_object(struct json *json, const char *key);
void json_array(struct json *json, const char *key);
void json_rows(struct json *json, const char *key); /* an array whose values have a line each */
void json_end_object(struct json *json);
void json_end_array(struct json *json);

void json_string(struct json *json, const char *key, const char *value);
void json_int(struct json *json, const char *key, int64_t value);
void json_null(struct json *json, const char *key);
void json_bool(struct json *json, const char *key, int value);

/* Enough decimals to read the same number back; null when it is not finite. */
void json_real(struct json *json, const char *key, double value);

/* The bits of a number as a string, "0x1.8p+1". */
void json_hex(struct json *json, const char *key, double value);

#endif
