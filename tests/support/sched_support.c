/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/sched_support.h"

#include <stdio.h>
#include <stdlib.h>

tpp_schedule_desc sched_desc(tpp_schedule_kind kind, int32_t ranks, int32_t chunks, int32_t micros,
                             int32_t group) {
    return (tpp_schedule_desc){.size = sizeof(tpp_schedule_desc),
                               .kind = kind,
                               .ranks = ranks,
                               .chunks = chunks,
                               .micros = micros,
                               .group = group};
}

tpp_schedule *sched_made(tpp_schedule_kind kind, int32_t ranks, int32_t chunks, int32_t micros,
                         int32_t group) {
    tpp_schedule_desc d = sched_desc(kind, ranks, chunks, micros, group);
    tpp_schedule *s = NULL;
    tpp_schedule_make(&s, &d);
    return s;
}

tpp_schedule *sched_created(tpp_schedule_kind kind, int32_t ranks, int32_t chunks, int32_t micros,
                            int32_t group) {
    tpp_schedule_desc d = sched_desc(kind, ranks, chunks, micros, group);
    tpp_schedule *s = NULL;
    tpp_schedule_create(&s, &d);
    return s;
}

typedef struct growing {
    char *text;
    size_t used;
} growing;

static tpp_status grow(void *ctx, const char *bytes, int64_t count) {
    growing *g = ctx;
    char *text = realloc(g->text, g->used + (size_t)count + 1);
    if (!text)
        return TPP_ERR_USER;
    memcpy(text + g->used, bytes, (size_t)count);
    g->text = text;
    g->used += (size_t)count;
    text[g->used] = 0;
    return TPP_OK;
}

char *sched_text(const tpp_schedule *schedule) {
    growing g = {NULL, 0};
    if (tpp_schedule_write_text(schedule, grow, &g) == TPP_OK)
        return g.text;
    free(g.text);
    return NULL;
}

char *sched_csv(const tpp_schedule *schedule, uint32_t flags) {
    growing g = {NULL, 0};
    if (tpp_schedule_write_csv(schedule, flags, grow, &g) == TPP_OK)
        return g.text;
    free(g.text);
    return NULL;
}

tpp_schedule *sched_parsed(const char *text) {
    tpp_schedule *s = NULL;
    tpp_schedule_parse(&s, text, (int64_t)strlen(text), NULL);
    return s;
}

char *sched_file(const char *name) {
    const char *root = getenv("TPP_SOURCE_DIR");
    char path[1024], piece[4096];
    snprintf(path, sizeof path, "%s/tests/data/schedules/%s", root ? root : ".", name);
    FILE *file = fopen(path, "r");
    if (!file)
        return NULL;
    growing g = {NULL, 0};
    for (size_t n; (n = fread(piece, 1, sizeof piece, file)) > 0;)
        grow(&g, piece, (int64_t)n);
    fclose(file);
    return g.text;
}
