/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "io_file.h"

#include "io_support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAMES = 1000 /* tried, when files of earlier runs are still there */, SUFFIX = 48 };
static const int64_t PIECE = 1 << 30; /* most bytes of one write() */

tpp_status tpp__io_output_open(tpp__io_output *output, const char *path) {
    struct stat facts;
    if (lstat(path, &facts) == 0 && !S_ISREG(facts.st_mode))
        return tpp__io_fail(TPP_ERR_INVALID,
                            "%s is no regular file; accepted: a regular one, or a new name", path);
    size_t length = strlen(path), room = length + SUFFIX;
    output->path = tpp__io_alloc((int64_t)length + 1, 1);
    char *temporary = tpp__io_alloc((int64_t)room, 1);
    output->file = -1;
    if (!output->path || !temporary) {
        tpp__io_free(temporary);
        return TPP_ERR_NO_MEMORY;
    }
    memcpy(output->path, path, length);
    for (int i = 0; i < NAMES && output->file < 0; i++) {
        snprintf(temporary, room, "%s.%ld-%d.tmp", path, (long)getpid(), i);
        output->file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (output->file < 0 && errno != EEXIST)
            break;
    }
    if (output->file < 0) {
        tpp__io_free(temporary);
        return tpp__io_system("cannot be written", path);
    }
    output->temporary = temporary;
    return TPP_OK;
}

tpp_status tpp__io_output_write(tpp__io_output *output, const void *data, int64_t bytes) {
    const char *from = data;
    while (bytes > 0) {
        ssize_t done = write(output->file, from, (size_t)(bytes < PIECE ? bytes : PIECE));
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return tpp__io_system("cannot be written", output->path);
        from += done;
        bytes -= done;
    }
    return TPP_OK;
}

tpp_status tpp__io_output_commit(tpp__io_output *output) {
    int bad = fsync(output->file);
    int file = output->file;
    output->file = -1;
    if (bad) {
        tpp_status status = tpp__io_system("cannot be written", output->path);
        close(file);
        return status;
    }
    if (close(file) != 0 || rename(output->temporary, output->path) != 0)
        return tpp__io_system("cannot be written", output->path);
    tpp__io_free(output->temporary);
    output->temporary = NULL;
    return TPP_OK;
}

void tpp__io_output_discard(tpp__io_output *output) {
    if (output->temporary) {
        if (output->file >= 0)
            close(output->file);
        unlink(output->temporary);
    }
    tpp__io_free(output->temporary);
    tpp__io_free(output->path);
}

/* `file` is open. */
static tpp_status map_open(int file, const char *path, const unsigned char **data, int64_t *bytes) {
    struct stat facts;
    if (fstat(file, &facts) != 0)
        return tpp__io_system("cannot be read", path);
    if (!S_ISREG(facts.st_mode))
        return tpp__io_fail(TPP_ERR_IO, "%s cannot be read: it is no regular file", path);
    if ((uint64_t)facts.st_size > SIZE_MAX / 2)
        return tpp__io_fail(TPP_ERR_IO, "%s cannot be read: it is too long to be mapped", path);
    *bytes = facts.st_size;
    if (*bytes == 0)
        return TPP_OK;
    void *memory = mmap(NULL, (size_t)*bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (memory == MAP_FAILED)
        return tpp__io_system("cannot be read", path);
    *data = memory;
    return TPP_OK;
}

tpp_status tpp__io_map(const char *path, const unsigned char **data, int64_t *bytes) {
    *data = NULL;
    *bytes = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not block */
    if (file < 0)
        return tpp__io_system("cannot be read", path);
    tpp_status status = map_open(file, path, data, bytes);
    close(file);
    return status;
}

void tpp__io_unmap(const unsigned char *data, int64_t bytes) {
    union { /* munmap takes what mmap gave */
        const void *given;
        void *memory;
    } mapped = {data};
    if (data)
        munmap(mapped.memory, (size_t)bytes);
}
