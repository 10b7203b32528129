/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "pipe_refused.h"

#include <stdio.h>
#include <string.h>
#include <tpp/status.h>

#include "../say.h"

struct name {
    const char *field, *option;
};

static const struct name *field_at(const char *text) {
    static const struct name names[] = {
        {"desc.ranks", "--stages"},
        {"desc.chunks", "--chunks"},
        {"desc.micros", "--micro"},
        {"desc.group", "--group"},
        {"desc.flags = 1 (UNFUSED)", "--split"},
        {"desc.memory_limit", "--memory-limit"},
        {"desc.placement", "--placement"},
        {"desc.seconds", "--seconds"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strncmp(text, names[i].field, strlen(names[i].field)) == 0) {
            return &names[i];
        }
    }
    return NULL;
}

int pipe_refused(void) {
    char text[1024];
    size_t used = 0;
    const char *rest = tpp_message();
    while (*rest && used < sizeof text - 32) {
        const struct name *name = field_at(rest);
        if (name) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s", name->option);
            rest += strlen(name->field);
        } else {
            text[used++] = *rest++;
        }
    }
    text[used] = 0;
    return usage_error("%s", text);
}
