/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tpp/status.h>
#include <unistd.h>

#include "reserve.h"
#include "say.h"

static int is_replaceable(const char *path) {
    struct stat facts;
    return lstat(path, &facts) != 0 || S_ISREG(facts.st_mode);
}

static FILE *open_beside(struct output *output, const char *path) {
    output->path = path;
    output->temporary = NULL;
    if (is_replaceable(path)) {
        size_t bytes = strlen(path) + 32;
        output->temporary = reserve((int64_t)bytes, 1);
        snprintf(output->temporary, bytes, "%s.%" PRIdMAX ".tmp", path, (intmax_t)getpid());
    }
    output->file = fopen(output->temporary ? output->temporary : path, "wb");
    return output->file;
}

static void forget(struct output *output) {
    free(output->temporary);
    memset(output, 0, sizeof *output);
}

int output_probe(const char *option, const char *path) {
    struct output output;
    if (!path) {
        return 0;
    }
    struct stat facts;
    if (stat(path, &facts) == 0 && S_ISFIFO(facts.st_mode) && access(path, W_OK) == 0) {
        return 0; /* its reader would take the probe's end for the end of the picture */
    }
    if (!open_beside(&output, path)) {
        int code = usage_error("--%s %s cannot be written: %s", option, path, strerror(errno));
        forget(&output);
        return code;
    }
    output_discard(&output);
    return 0;
}

int output_open(struct output *output, const char *path) {
    if (!open_beside(output, path)) {
        int code = system_error("%s cannot be written", path);
        forget(output);
        return code;
    }
    return 0;
}

int output_close(struct output *output) {
    int code = 0;
    int bad = ferror(output->file);
    bad |= fclose(output->file);
    if (!bad && output->temporary) {
        bad = rename(output->temporary, output->path);
    }
    if (bad) {
        code = system_error("%s cannot be written", output->path);
        if (output->temporary) {
            unlink(output->temporary);
        }
    }
    forget(output);
    return code;
}

void output_discard(struct output *output) {
    fclose(output->file);
    if (output->temporary) {
        unlink(output->temporary);
    }
    forget(output);
}

tpp_status output_write(void *ctx, const char *bytes, int64_t count) {
    if (fwrite(bytes, 1, (size_t)count, ctx) == (size_t)count) {
        return TPP_OK;
    }
    tpp_message_set(strerror(errno));
    return TPP_ERR_USER;
}
