/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_TP_MEMORY_H
#define TPP_SUPPORT_TP_MEMORY_H

/* Memory of exactly the size asked for, aligned to 64, between two guard zones that tell when
 * something was written outside. AddressSanitizer also sees reads there. */

#include <tpp/base.h>

enum {
    TP_NAN = 0xff,  /* as a byte everywhere: NaN in float and double, -1 in integers */
    TP_HUGE = 0x7e, /* 8e37 in float, 2e303 in double */
    TP_ZERO = 0x100 /* the byte 0 */
};

typedef struct tp_memory {
    void *data;
    int64_t bytes;
    unsigned char *base;
} tp_memory;

tp_memory tp_memory_new(int64_t bytes, int fill);
void tp_memory_fill(const tp_memory *memory, int fill);

/* 1 when both guard zones are as they were. */
int tp_memory_intact(const tp_memory *memory);
void tp_memory_free(tp_memory *memory);

/* An allocator that counts, and that fails at a chosen allocation. */
typedef struct tp_counting {
    tpp_allocator allocator; /* give a pointer to this */
    int64_t calls;           /* allocations asked for */
    int64_t live;            /* not yet given back */
    int64_t live_bytes;
    int64_t fail_at; /* number of the allocation that gets NULL, from 1; 0: none */
    int64_t wrong; /* releases with other bytes than the allocation's, or of a misaligned request */
} tp_counting;

void tp_counting_init(tp_counting *counting);

#endif
