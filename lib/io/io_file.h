/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_IO_FILE_H
#define TPP_IO_FILE_H

#include <tpp/status.h>

/* A file that is there whole or not at all: written under another name beside it, then renamed. */
typedef struct tpp__io_output {
    char *path;
    char *temporary; /* NULL: there is none any more */
    int file;
} tpp__io_output;

/* Zeroed before; after a failure discard as after a success. */
tpp_status tpp__io_output_open(tpp__io_output *output, const char *path);
tpp_status tpp__io_output_write(tpp__io_output *output, const void *data, int64_t bytes);

/* On the disk, under its name. */
tpp_status tpp__io_output_commit(tpp__io_output *output);

/* Free all, and remove what was not committed. */
void tpp__io_output_discard(tpp__io_output *output);

/* Map a whole regular file for reading; *data is NULL for an empty one. */
tpp_status tpp__io_map(const char *path, const unsigned char **data, int64_t *bytes);
void tpp__io_unmap(const unsigned char *data, int64_t bytes);

#endif
