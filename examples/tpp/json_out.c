/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static void quote(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\') {
            fprintf(out, "\\%c", *c);
        } else if (*c < 0x20) {
            fprintf(out, "\\u%04x", *c);
        } else {
            fputc(*c, out);
        }
    }
    fputc('"', out);
}

static void line(const struct json *json) {
    if (json->flat) {
        fputs(json->filled ? " " : "", json->out);
    } else if (json->depth > 0) {
        fprintf(json->out, "\n%*s", 2 * json->depth, "");
    }
}

/* Everything that stands before a value. */
static void begin(struct json *json, const char *key) {
    fputs(json->filled ? "," : "", json->out);
    line(json);
    if (key) {
        quote(json->out, key);
        fputs(": ", json->out);
    }
    json->filled = 1;
}

static void open_level(struct json *json, const char *key, char bracket) {
    begin(json, key);
    fputc(bracket, json->out);
    json->depth++;
    json->filled = 0;
}

static void close_level(struct json *json, char bracket) {
    int flat = json->flat;
    if (json->flat == json->depth) {
        json->flat = 0;
    }
    json->depth--;
    if (!flat && json->filled) {
        fprintf(json->out, "\n%*s", 2 * json->depth, "");
    }
    fputc(bracket, json->out);
    json->filled = 1;
}

void json_object(struct json *json, const char *key) {
    open_level(json, key, '{');
}

void json_rows(struct json *json, const char *key) {
    open_level(json, key, '[');
}

void json_array(struct json *json, const char *key) {
    open_level(json, key, '[');
    if (!json->flat) {
        json->flat = json->depth;
    }
}

void json_end_object(struct json *json) {
    close_level(json, '}');
}

void json_end_array(struct json *json) {
    close_level(json, ']');
}

void json_string(struct json *json, const char *key, const char *value) {
    begin(json, key);
    quote(json->out, value);
}

void json_int(struct json *json, const char *key, int64_t value) {
    begin(json, key);
    fprintf(json->out, "%" PRId64, value);
}

void json_null(struct json *json, const char *key) {
    begin(json, key);
    fputs("null", json->out);
}

void json_bool(struct json *json, const char *key, int value) {
    begin(json, key);
    fputs(value ? "true" : "false", json->out);
}

void json_real(struct json *json, const char *key, double value) {
    begin(json, key);
    if (!isfinite(value)) {
        fputs("null", json->out);
        return;
    }
    char text[32]; /* the shortest that reads back: 0.005, not 0.0050000000000000001 */
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    fputs(text, json->out);
}

void json_hex(struct json *json, const char *key, double value) {
    begin(json, key);
    fprintf(json->out, "\"%a\"", value);
}
