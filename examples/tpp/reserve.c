/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "reserve.h"

#include <stdlib.h>
#include <string.h>

#include "say.h"

static _Noreturn void give_up(int64_t count, int64_t width) {
    fprintf(stderr, "tpp: out of memory: no room for %.3g MB; try a smaller model or batch\n",
            1e-6 * (double)count * (double)width);
    exit(EXIT_FAILED);
}

static size_t product(int64_t count, int64_t width) {
    if (count < 0 || width < 1 || count > (INT64_MAX - 64) / width) {
        give_up(count, width);
    }
    return (size_t)(count * width);
}

void *reserve(int64_t count, int64_t width) {
    size_t bytes = product(count, width);
    size_t rounded = bytes == 0 ? 64 : (bytes + 63) / 64 * 64; /* aligned_alloc wants a multiple */
    void *memory = aligned_alloc(64, rounded);
    if (!memory) {
        give_up(count, width);
    }
    return memset(memory, 0, rounded);
}

void *lengthen(void *memory, int64_t count, int64_t width) {
    size_t bytes = product(count, width);
    void *longer = realloc(memory, bytes == 0 ? 1 : bytes);
    if (!longer) {
        give_up(count, width);
    }
    return longer;
}
