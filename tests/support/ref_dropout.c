/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/ref_gpt.h"

/* High and low word of a product. */
static uint64_t times(uint64_t a, uint64_t b) {
    return (a & 0xffffffffu) * (b & 0xffffffffu);
}

/* Philox 4x32-10 as in the paper: word `which` of the block. */
static uint64_t philox(uint64_t key, uint64_t low, uint64_t high, int which) {
    const uint64_t half = 0xffffffffu;
    uint64_t l[2] = {low >> 32, high >> 32};   /* L0, L1 */
    uint64_t r[2] = {low & half, high & half}; /* R0, R1 */
    uint64_t k[2] = {key & half, key >> 32};
    for (int round = 0; round < 10; round++) {
        uint64_t from_0 = times(r[0], 0xD2511F53u), from_1 = times(r[1], 0xCD9E8D57u);
        uint64_t left_0 = l[0], left_1 = l[1];
        r[0] = (from_1 >> 32) ^ left_0 ^ k[0];
        l[0] = from_1 & half;
        r[1] = (from_0 >> 32) ^ left_1 ^ k[1];
        l[1] = from_0 & half;
        k[0] = (k[0] + 0x9E3779B9u) & half;
        k[1] = (k[1] + 0xBB67AE85u) & half;
    }
    const uint64_t words[4] = {r[0], l[0], r[1], l[1]};
    return words[which];
}

void ref_dropout(uint64_t seed, const char *name, double rate, int64_t rows, int64_t cols,
                 ref_real *factor) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *c = name; *c; c++)
        hash = (hash ^ (uint64_t)(unsigned char)*c) * 0x100000001b3u;
    int64_t quads = cols / 4 + (cols % 4 != 0);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            uint64_t word = philox(seed, (uint64_t)(i * quads + j / 4), hash, (int)(j % 4));
            ref_real kept = (ref_real)word >= (ref_real)(uint64_t)(rate * 4294967296.0);
            factor[i * cols + j] = seed ? kept / (1 - (ref_real)rate) : 1;
        }
    }
}
