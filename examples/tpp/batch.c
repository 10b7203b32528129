/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "batch.h"

/* The finisher of splitmix64 (Steele et al. 2014): every bit of the input changes half of the
 * output's. */
static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int64_t window(uint64_t seed, int64_t step, int32_t sequence, int64_t places) {
    uint64_t number = mix(mix(mix(seed) ^ (uint64_t)step) ^ (uint64_t)sequence);
    return (int64_t)(number % (uint64_t)places);
}

void batch_fill(const struct corpus *corpus, uint64_t seed, int64_t step, int32_t sequences,
                int32_t seq, int32_t *ids, int32_t *targets) {
    for (int32_t s = 0; s < sequences; s++) {
        const unsigned char *text = corpus->bytes + window(seed, step, s, corpus->count - seq);
        for (int32_t i = 0; i < seq; i++) {
            ids[(int64_t)s * seq + i] = text[i];
            targets[(int64_t)s * seq + i] = text[i + 1];
        }
    }
}
