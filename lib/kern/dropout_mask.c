/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/by_type.h"
#include "kern/kern.h"
#include "kern/vector.h"

/* Numbers of the generator that are made side by side, four words each. */
enum { LANES = 16, WORDS = 4 * LANES };

/* Words of the counters index .. index + LANES - 1: tpp__kern_philox, lane by lane. Each word has 64
 * bits to itself, as vector units multiply 32 bits by 32 bits. */
TPP__CLONES static void draw_words(const tpp__dropout *d, uint64_t index, uint32_t word[WORDS]) {
    const uint64_t half = 0xffffffffu;
    uint64_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
    uint32_t k0 = (uint32_t)d->seed, k1 = (uint32_t)(d->seed >> 32);
    for (uint64_t i = 0; i < LANES; i++) {
        c0[i] = (index + i) & half;
        c1[i] = (index + i) >> 32;
        c2[i] = d->key & half;
        c3[i] = d->key >> 32;
    }
    for (int round = 0; round < 10; round++) {
        TPP__KEPT_LOOP
        for (int i = 0; i < LANES; i++) {
            uint64_t p = (c0[i] & half) * 0xD2511F53u;
            uint64_t q = (c2[i] & half) * 0xCD9E8D57u;
            c0[i] = (q >> 32) ^ c1[i] ^ k0;
            c1[i] = q & half;
            c2[i] = (p >> 32) ^ c3[i] ^ k1;
            c3[i] = p & half;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < LANES; i++) {
        word[4 * i] = (uint32_t)c0[i];
        word[4 * i + 1] = (uint32_t)c1[i];
        word[4 * i + 2] = (uint32_t)c2[i];
        word[4 * i + 3] = (uint32_t)c3[i];
    }
}

#define TPP__TEMPLATE "kern/dropout_mask.inc"
#include "kern/each_type.inc"

void tpp__kern_dropout(tpp_dtype dtype, const tpp__dropout *d, int64_t first, int64_t rows,
                       int64_t cols, const void *x, void *y) {
    TPP__BY_TYPE(dtype, dropout, d, first, rows, cols, x, y);
}
