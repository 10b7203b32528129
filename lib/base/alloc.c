/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

static void *default_alloc(void *ctx, uint64_t bytes, uint64_t align) {
    (void)ctx;
    return aligned_alloc(align, bytes);
}

static void default_release(void *ctx, void *memory, uint64_t bytes) {
    (void)ctx;
    (void)bytes;
    free(memory);
}

tpp_status tpp__allocator_read(tpp_allocator *out, const tpp_allocator *in) {
    if (!in) {
        *out = (tpp_allocator){sizeof *out, 0, NULL, default_alloc, default_release};
        return TPP_OK;
    }
    tpp_status status = tpp__sized_read(out, sizeof *out, 0, in, "allocator");
    if (status < 0)
        return status;
    if (!out->alloc || !out->release)
        return tpp__fail(TPP_ERR_INVALID, "allocator.%s is NULL; both functions must be set",
                         out->alloc ? "release" : "alloc");
    return TPP_OK;
}

/* What is really asked for: a multiple of the alignment, never 0. */
static uint64_t rounded(int64_t bytes) {
    uint64_t b = bytes > 0 ? (uint64_t)bytes : 1;
    return (b + TPP__ALIGN - 1) / TPP__ALIGN * TPP__ALIGN;
}

void *tpp__alloc(const tpp_allocator *allocator, int64_t bytes) {
    void *memory = allocator->alloc(allocator->ctx, rounded(bytes), TPP__ALIGN);
    if (!memory) {
        tpp__fail(TPP_ERR_NO_MEMORY, "the allocator returned NULL for %lld bytes",
                  (long long)bytes);
        return NULL;
    }
    memset(memory, 0, (size_t)rounded(bytes));
    return memory;
}

void tpp__free(const tpp_allocator *allocator, void *memory, int64_t bytes) {
    if (memory)
        allocator->release(allocator->ctx, memory, rounded(bytes));
}

tpp__arena tpp__arena_counting(void) {
    return (tpp__arena){NULL, INT64_MAX, 0, false};
}

tpp__arena tpp__arena_over(void *memory, int64_t bytes) {
    return (tpp__arena){memory, bytes, 0, false};
}

void *tpp__arena_take(tpp__arena *arena, int64_t count, int64_t width) {
    int64_t bytes, end;
    if (!tpp__mul(count, width, &bytes) || !tpp__add(bytes, TPP__ALIGN - 1, &bytes) ||
        !tpp__add(arena->used, bytes / TPP__ALIGN * TPP__ALIGN, &end)) {
        arena->overflow = true;
        return NULL;
    }
    char *part = arena->base && end <= arena->capacity ? arena->base + arena->used : NULL;
    arena->used = end;
    return part;
}

bool tpp__arena_fits(const tpp__arena *arena) {
    return !arena->overflow && arena->used <= arena->capacity;
}
