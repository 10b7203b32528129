/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/kern.h"

#include <math.h>
#include <string.h>

/* Philox 4x32-10 of J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel random numbers: as easy as
 * 1, 2, 3" (SC 2011). */
void tpp__kern_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c[4];
    uint32_t k[2] = {key[0], key[1]};
    memcpy(c, counter, sizeof c);
    for (int round = 0; round < 10; round++) {
        uint64_t p = (uint64_t)0xD2511F53u * c[0];
        uint64_t q = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(q >> 32) ^ c[1] ^ k[0], (uint32_t)q,
                            (uint32_t)(p >> 32) ^ c[3] ^ k[1], (uint32_t)p};
        memcpy(c, next, sizeof c);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    memcpy(out, c, sizeof c);
}

static void draw(uint64_t seed, uint64_t key, uint64_t index, uint32_t out[4]) {
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)key,
                           (uint32_t)(key >> 32)};
    uint32_t keys[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    tpp__kern_philox(counter, keys, out);
}

/* An odd multiple of 2^-53: never 0 and never rounded up to 1. */
static double unit(uint32_t high, uint32_t low) {
    uint64_t bits = ((uint64_t)high << 32 | low) >> 11;
    return (double)(bits | 1) * 0x1p-53;
}

double tpp__kern_random_uniform(uint64_t seed, uint64_t key, uint64_t index) {
    uint32_t w[4];
    draw(seed, key, index, w);
    return unit(w[0], w[1]);
}

double tpp__kern_random_normal(uint64_t seed, uint64_t key, uint64_t index) {
    uint32_t w[4];
    draw(seed, key, index, w);
    return sqrt(-2 * log(unit(w[0], w[1]))) * cos(6.283185307179586477 * unit(w[2], w[3]));
}
