/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/by_type.h"
#include "kern/kern.h"
#include "kern/vector.h"

/* Numbers of the generator that are made side by side, four words each. */
enum { LANES = 16, WORDS = 4 * LANES };

/* Words of the counters index .. index + LANES - 1: tpp__kern_philox, lane by lane. */
TPP__CLONES static void draw_words(const tpp__dropout *d, uint64_t index, uint32_t word[WORDS]) {
    uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
    uint32_t k0 = (uint32_t)d->seed, k1 = (uint32_t)(d->seed >> 32);
    for (uint32_t i = 0; i < LANES; i++) {
        c0[i] = (uint32_t)(index + i);
        c1[i] = (uint32_t)((index + i) >> 32);
        c2[i] = (uint32_t)d->key;
        c3[i] = (uint32_t)(d->key >> 32);
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < LANES; i++) {
            uint64_t p = (uint64_t)0xD2511F53u * c0[i];
            uint64_t q = (uint64_t)0xCD9E8D57u * c2[i];
            c0[i] = (uint32_t)(q >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)q;
            c2[i] = (uint32_t)(p >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)p;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < LANES; i++) {
        word[4 * i] = c0[i];
        word[4 * i + 1] = c1[i];
        word[4 * i + 2] = c2[i];
        word[4 * i + 3] = c3[i];
    }
}

#define TPP__TEMPLATE "kern/dropout_mask.inc"
#include "kern/each_type.inc"

void tpp__kern_dropout(tpp_dtype dtype, const tpp__dropout *d, int64_t first, int64_t rows,
                       int64_t cols, const void *x, void *y) {
    TPP__BY_TYPE(dtype, dropout, d, first, rows, cols, x, y);
}
