/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_BASE_ALLOC_H
#define TPP_BASE_ALLOC_H

#include <stdbool.h>
#include <tpp/base.h>

/* Alignment of everything the library allocates or cuts from the caller's memory. */
#define TPP__ALIGN 64

/* The caller's allocator as the library keeps it; NULL means malloc and free. */
tpp_status tpp__allocator_read(tpp_allocator *out, const tpp_allocator *in);

/* Zeroed memory; on failure sets the message and returns NULL. bytes >= 0, 0 gives a valid
 * pointer. */
void *tpp__alloc(const tpp_allocator *allocator, int64_t bytes);
void tpp__free(const tpp_allocator *allocator, void *memory, int64_t bytes);

/* An arena cuts one piece of memory into aligned parts. With base NULL it only counts, so that the
 * same code that lays memory out also tells its size. Overflow is sticky. */
typedef struct tpp__arena {
    char *base;
    int64_t capacity;
    int64_t used;
    bool overflow; /* a size overflowed 64 bits */
} tpp__arena;

tpp__arena tpp__arena_counting(void);
tpp__arena tpp__arena_over(void *memory, int64_t bytes);

/* count * width bytes; NULL while counting or when full (used grows all the same). */
void *tpp__arena_take(tpp__arena *arena, int64_t count, int64_t width);

/* True when everything taken fitted into capacity and no size overflowed. */
bool tpp__arena_fits(const tpp__arena *arena);

#endif
