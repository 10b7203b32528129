/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/zb_tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The text behind the first line that begins with `key`; fails the test when there is none. */
static const char *after(const char *file, const char *key) {
    size_t length = strlen(key);
    for (const char *line = file; line; line = strchr(line, '\n'), line += line != NULL) {
        if (strncmp(line, key, length) == 0)
            return line + length;
    }
    fail_msg("no line begins with '%s'", key);
    return NULL;
}

zb_times zb_times_of(const char *file, const char *model, int32_t p, int32_t m) {
    char key[64];
    zb_times t;
    snprintf(key, sizeof key, "%s,%d,%d,", model, p, m);
    assert_int_equal(sscanf(after(file, key), "%lf,%lf,%lf,%lf", &t.f, &t.b, &t.w, &t.comm), 4);
    return t;
}

zb_model zb_model_of(const char *file, const char *model) {
    char key[64];
    zb_model z = {0};
    snprintf(key, sizeof key, "%s,", model);
    const char *line = after(file, key), *end = strchr(line, '\n');
    assert_int_equal(sscanf(line, "%d,%d,%d,%d", &z.layers, &z.heads, &z.hidden, &z.seq), 4);
    while (end[-1] != ',')
        end--;
    z.chunks = atoi(end);
    return z;
}
