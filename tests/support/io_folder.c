/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/io_folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct folder {
    char name[64];
    char path[512];
};

int io_folder_make(void **state) {
    struct folder *folder = calloc(1, sizeof *folder);
    if (!folder)
        return 1;
    strcpy(folder->name, "/tmp/tpp_io_XXXXXX");
    *state = folder;
    return mkdtemp(folder->name) ? 0 : 1;
}

/* Calls `with` for the path of every entry; how many there are. */
static int each(const struct folder *folder, int (*with)(const char *path)) {
    char path[512];
    int count = 0;
    DIR *all = opendir(folder->name);
    if (!all)
        return -1;
    for (struct dirent *one = readdir(all); one; one = readdir(all)) {
        if (strcmp(one->d_name, ".") == 0 || strcmp(one->d_name, "..") == 0)
            continue;
        count++;
        snprintf(path, sizeof path, "%s/%s", folder->name, one->d_name);
        if (with)
            with(path);
    }
    closedir(all);
    return count;
}

int io_folder_remove(void **state) {
    struct folder *folder = *state;
    each(folder, remove);
    int bad = rmdir(folder->name);
    free(folder);
    return bad;
}

const char *io_path(void *folder, const char *name) {
    struct folder *f = folder;
    snprintf(f->path, sizeof f->path, "%s/%s", f->name, name);
    return f->path;
}

int io_files(void *folder) {
    return each(folder, NULL);
}

void io_write(const char *path, const void *bytes, int64_t count) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, (size_t)count, file) != (size_t)count || fclose(file) != 0) {
        perror(path);
        abort();
    }
}
