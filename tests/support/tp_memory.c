/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/tp_memory.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(at, bytes) __asan_poison_memory_region(at, (size_t)(bytes))
#define UNPOISON(at, bytes) __asan_unpoison_memory_region(at, (size_t)(bytes))
#else
#define POISON(at, bytes) ((void)0)
#define UNPOISON(at, bytes) ((void)0)
#endif

enum { GUARD = 256, CANARY = 0xa5 };

tp_memory tp_memory_new(int64_t bytes, int fill) {
    tp_memory m = {NULL, bytes, NULL};
    size_t total = ((size_t)bytes + 2 * GUARD + 63) / 64 * 64;
    m.base = aligned_alloc(64, total);
    if (!m.base)
        abort();
    memset(m.base, CANARY, total);
    m.data = m.base + GUARD;
    tp_memory_fill(&m, fill);
    POISON(m.base, GUARD);
    POISON(m.base + GUARD + bytes, GUARD);
    return m;
}

void tp_memory_fill(const tp_memory *memory, int fill) {
    memset(memory->data, fill, (size_t)memory->bytes);
}

int tp_memory_intact(const tp_memory *memory) {
    if (!memory->base)
        return 1;
    const unsigned char *behind = memory->base + GUARD + memory->bytes;
    int intact = 1;
    UNPOISON(memory->base, GUARD);
    UNPOISON(behind, GUARD);
    for (int64_t i = 0; i < GUARD; i++)
        intact &= memory->base[i] == CANARY && behind[i] == CANARY;
    POISON(memory->base, GUARD);
    POISON(behind, GUARD);
    return intact;
}

void tp_memory_free(tp_memory *memory) {
    if (memory->base) {
        UNPOISON(memory->base, GUARD);
        UNPOISON(memory->base + GUARD + memory->bytes, GUARD);
    }
    free(memory->base);
    *memory = (tp_memory){NULL, 0, NULL};
}

/* Before each piece stands its size, in a zone that keeps the alignment. */
static void *counted_alloc(void *ctx, uint64_t bytes, uint64_t align) {
    tp_counting *c = ctx;
    c->calls++;
    if (c->calls == c->fail_at)
        return NULL;
    c->wrong += align == 0 || align > 64 || (align & (align - 1)) != 0;
    unsigned char *memory = aligned_alloc(64, 64 + (bytes + 63) / 64 * 64);
    if (!memory)
        abort();
    memset(memory, CANARY, 64 + (size_t)bytes);
    memcpy(memory, &bytes, sizeof bytes);
    c->live++;
    c->live_bytes += (int64_t)bytes;
    return memory + 64;
}

static void counted_release(void *ctx, void *memory, uint64_t bytes) {
    tp_counting *c = ctx;
    if (!memory)
        return;
    uint64_t asked;
    memcpy(&asked, (unsigned char *)memory - 64, sizeof asked);
    c->wrong += asked != bytes;
    c->live--;
    c->live_bytes -= (int64_t)asked;
    free((unsigned char *)memory - 64);
}

void tp_counting_init(tp_counting *counting) {
    *counting = (tp_counting){0};
    counting->allocator.size = sizeof counting->allocator;
    counting->allocator.ctx = counting;
    counting->allocator.alloc = counted_alloc;
    counting->allocator.release = counted_release;
}
