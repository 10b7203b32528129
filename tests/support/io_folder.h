/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_IO_FOLDER_H
#define TPP_SUPPORT_IO_FOLDER_H

#include <stdint.h>

/* A folder of its own for a test: setup and teardown for cmocka, `state` is the folder. */
int io_folder_make(void **state);
int io_folder_remove(void **state);

/* "<folder>/<name>", good until io_folder_remove; one name at a time. */
const char *io_path(void *folder, const char *name);

/* Entries of the folder. */
int io_files(void *folder);

/* Write a file of these bytes. */
void io_write(const char *path, const void *bytes, int64_t count);

#endif
