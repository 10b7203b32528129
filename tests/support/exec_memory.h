/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_EXEC_MEMORY_H
#define TPP_SUPPORT_EXEC_MEMORY_H

#include <tpp/base.h>

/* An allocator that counts, and that refuses one call. */
typedef struct exec_memory {
    int64_t calls;   /* so far */
    int64_t live;    /* not given back */
    int64_t bytes;   /* of these */
    int64_t fail_at; /* the call that gets NULL; -1: none */
    tpp_allocator allocator;
} exec_memory;

void exec_memory_open(exec_memory *memory);

/* Calls of malloc and its relatives by this program since it began; -1 when they cannot be
 * counted, which is under a sanitizer. */
int64_t exec_memory_mallocs(void);

#endif
