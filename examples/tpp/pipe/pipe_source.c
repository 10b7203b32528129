/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "pipe_source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../reserve.h"
#include "../say.h"
#include "pipe_refused.h"

enum { LAST_KIND = 64, NAMES_BYTES = 512 };

/* The orders that there are, with commas. */
static void list_names(char out[NAMES_BYTES]) {
    int used = 0;
    out[0] = 0;
    for (tpp_schedule_kind kind = 1; kind <= LAST_KIND && used < NAMES_BYTES; kind++) {
        const char *name = tpp_schedule_kind_name(kind);
        if (name) {
            used +=
                snprintf(out + used, (size_t)(NAMES_BYTES - used), "%s%s", used ? ", " : "", name);
        }
    }
}

void pipe_source_print_names(FILE *out) {
    char names[NAMES_BYTES];
    int column = 0;
    list_names(names);
    fputs("\nBuilt-in orders:\n", out);
    for (char *name = strtok(names, " "); name; name = strtok(NULL, " ")) {
        if (column + 1 + (int)strlen(name) > 79) {
            fputc('\n', out);
            column = 0;
        }
        column += fprintf(out, "%s%s", column ? " " : "  ", name);
    }
    fputc('\n', out);
}

static int generate(struct pipe_source *out, const struct pipe_config *c, tpp_schedule_kind kind) {
    tpp_schedule_desc d = {0};
    d.size = sizeof d;
    d.kind = kind;
    d.flags = c->split ? TPP_SCHEDULE_UNFUSED : 0;
    d.ranks = pipe_config_stages(c);
    d.micros = pipe_config_micro(c);
    d.chunks = c->chunks;
    d.group = c->group;
    if (c->two_way) {
        return usage_error(
            "--two-way belongs to a CSV file; a built-in order knows its directions");
    }
    out->name = tpp_schedule_kind_name(kind);
    return tpp_schedule_create(&out->schedule, &d) == TPP_OK ? 0 : pipe_refused();
}

/* All bytes of a file; NULL and errno when it cannot be read. */
static char *read_all(const char *path, int64_t *count) {
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    char *bytes = NULL;
    int64_t room = 0;
    size_t got = 1;
    *count = 0;
    while (file && got > 0) {
        if (*count == room) {
            room = room ? 2 * room : 1 << 16;
            bytes = lengthen(bytes, room, 1);
        }
        errno = 0;
        got = fread(bytes + *count, 1, (size_t)(room - *count), file);
        *count += (int64_t)got;
    }
    int failed = file && ferror(file) ? errno : 0;
    if (file && file != stdin) {
        fclose(file);
    }
    if (failed) {
        free(bytes);
        errno = failed;
        return NULL;
    }
    return bytes;
}

static int no_such_source(const char *name, const char *reason) {
    char names[NAMES_BYTES];
    list_names(names);
    return usage_error("%s is neither a file (%s) nor an order; accepted: %s", name, reason, names);
}

/* Sizes of a built-in order are not those of a file. */
static int check_sizes(const struct pipe_config *c) {
    const int32_t sizes[] = {c->stages, c->micro, c->chunks, c->group, c->split};
    static const char *const options[] = {"stages", "micro", "chunks", "group", "split"};
    for (int i = 0; i < 5; i++) {
        if (sizes[i]) {
            return usage_error("--%s belongs to a built-in order; the file %s tells its own",
                               options[i], c->source);
        }
    }
    return 0;
}

/* CSV is told by its commas; the text form has none. */
static tpp_status parse(tpp_schedule **out, const char *text, int64_t count, int two_way) {
    if (!memchr(text, ',', (size_t)count)) {
        return tpp_schedule_parse(out, text, count, NULL);
    }
    uint32_t flags = TPP_CSV_SKIP_SHARDING | (two_way ? TPP_CSV_TWO_WAY : 0U);
    return tpp_schedule_parse_csv(out, text, count, flags, NULL);
}

static int read_file(struct pipe_source *out, const struct pipe_config *c) {
    int64_t count = 0;
    char *text = read_all(c->source, &count);
    if (!text) {
        return no_such_source(c->source, strerror(errno));
    }
    int code = check_sizes(c);
    out->name = c->source;
    out->status = code ? TPP_OK : parse(&out->schedule, text, count, c->two_way);
    free(text);
    return out->status == TPP_OK ? code : EXIT_FAILED;
}

int pipe_source_try(struct pipe_source *out, const struct pipe_config *c) {
    memset(out, 0, sizeof *out);
    tpp_schedule_kind kind = tpp_schedule_kind_of(c->source);
    int code = kind ? generate(out, c, kind) : read_file(out, c);
    out->info.size = sizeof out->info;
    if (code == 0 && tpp_schedule_query(out->schedule, &out->info) != TPP_OK) {
        code = library_error("ask the schedule");
    }
    out->lowered = out->info.messages > 0; /* a file that has none can be lowered */
    return code;
}

static int say_status(const struct pipe_source *source) {
    return source->status == TPP_OK ? 0 : data_error("%s: %s", source->name, tpp_message());
}

int pipe_source_open(struct pipe_source *out, const struct pipe_config *c) {
    int code = pipe_source_try(out, c);
    return out->status == TPP_OK ? code : say_status(out);
}

tpp_status pipe_source_lower(struct pipe_source *source) {
    if (!source->lowered) {
        source->status = tpp_schedule_lower(source->schedule);
        source->lowered = source->status == TPP_OK;
    }
    return source->status;
}

int pipe_source_finish(struct pipe_source *source) {
    if (pipe_source_lower(source) == TPP_OK) {
        source->status = tpp_schedule_finish(source->schedule);
    }
    return say_status(source);
}

void pipe_source_close(struct pipe_source *source) {
    tpp_schedule_destroy(source->schedule);
    memset(source, 0, sizeof *source);
}

int32_t pipe_source_chunks(const struct pipe_source *source, int32_t rank) {
    int32_t chunks = 0;
    while (tpp_schedule_stage_of(source->schedule, rank, chunks) >= 0) {
        chunks++;
    }
    return chunks;
}

double pipe_source_unit(const struct pipe_source *source, int32_t rank) {
    int32_t chunks = pipe_source_chunks(source, rank);
    return chunks > 0 ? (double)source->info.directions / chunks : 0;
}

static const char *plural(int32_t count) {
    return count == 1 ? "" : "s";
}

const char *pipe_source_title(char out[PIPE_TITLE_BYTES], const struct pipe_source *source) {
    const tpp_schedule_info *info = &source->info;
    char chunks[48] = "";
    if (info->directions > 1) {
        snprintf(chunks, sizeof chunks, " x %" PRId32 " directions", info->directions);
    } else if (info->chunks > 1) {
        snprintf(chunks, sizeof chunks, " x %" PRId32 " chunks", info->chunks);
    }
    snprintf(out, PIPE_TITLE_BYTES, "%.128s: %" PRId32 " rank%s%s, %" PRId32 " micro-batch%s",
             source->name, info->ranks, plural(info->ranks), chunks, info->micros,
             info->micros == 1 ? "" : "es");
    return out;
}
