/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/exec_memory.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define SANITIZED
#endif

static void *take(void *ctx, uint64_t bytes, uint64_t align) {
    exec_memory *m = ctx;
    if (m->calls++ == m->fail_at)
        return NULL;
    m->live++;
    m->bytes += (int64_t)bytes;
    return aligned_alloc(align, bytes);
}

static void give(void *ctx, void *memory, uint64_t bytes) {
    exec_memory *m = ctx;
    m->live--;
    m->bytes -= (int64_t)bytes;
    free(memory);
}

void exec_memory_open(exec_memory *m) {
    *m = (exec_memory){.fail_at = -1, .allocator = {sizeof(tpp_allocator), 0, m, take, give}};
}

#ifdef SANITIZED

int64_t exec_memory_mallocs(void) {
    return -1;
}

#else

/* glibc calls the program's own functions instead of its own. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

static _Atomic int64_t mallocs;

int64_t exec_memory_mallocs(void) {
    return atomic_load(&mallocs);
}

void *malloc(size_t bytes) {
    atomic_fetch_add(&mallocs, 1);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    atomic_fetch_add(&mallocs, 1);
    return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes) {
    atomic_fetch_add(&mallocs, 1);
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t align, size_t bytes) {
    atomic_fetch_add(&mallocs, 1);
    return __libc_memalign(align, bytes);
}

#endif
