/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "corpus.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reserve.h"
#include "say.h"
#include "train_config.h"

/* Sum of -p log p over counts that add up to total. */
static double entropy(const int64_t *counts, double total) {
    double sum = 0;
    for (int i = 0; i < VOCAB; i++) {
        if (counts[i] > 0) {
            double p = (double)counts[i] / total;
            sum -= p * log(p);
        }
    }
    return sum;
}

/* Entropy of a byte when the one before is known: the mean of the entropies after each byte. */
static double bigram_entropy(const struct corpus *corpus) {
    int64_t(*pairs)[VOCAB] = reserve(VOCAB, sizeof *pairs);
    for (int64_t i = 1; i < corpus->count; i++) {
        pairs[corpus->bytes[i - 1]][corpus->bytes[i]]++;
    }
    double sum = 0;
    for (int a = 0; a < VOCAB; a++) {
        double after = 0;
        for (int b = 0; b < VOCAB; b++) {
            after += (double)pairs[a][b];
        }
        sum += after > 0 ? after * entropy(pairs[a], after) : 0;
    }
    free(pairs);
    return corpus->count > 1 ? sum / (double)(corpus->count - 1) : 0;
}

static void measure(struct corpus *corpus) {
    int64_t counts[VOCAB] = {0};
    for (int64_t i = 0; i < corpus->count; i++) {
        counts[corpus->bytes[i]]++;
    }
    for (int i = 0; i < VOCAB; i++) {
        corpus->distinct += counts[i] > 0;
    }
    corpus->unigram = entropy(counts, (double)corpus->count);
    corpus->bigram = bigram_entropy(corpus);
}

static void read_all(struct corpus *out, FILE *file) {
    int64_t capacity = 0;
    size_t got = 0;
    do {
        if (out->count == capacity) {
            capacity = capacity ? 2 * capacity : 1 << 20;
            out->bytes = lengthen(out->bytes, capacity, 1);
        }
        got = fread(out->bytes + out->count, 1, (size_t)(capacity - out->count), file);
        out->count += (int64_t)got;
    } while (got > 0);
}

int corpus_load(struct corpus *out, const char *path) {
    memset(out, 0, sizeof *out);
    FILE *file = fopen(path, "rb");
    if (!file) {
        return usage_error("--data %s cannot be read: %s", path, strerror(errno));
    }
    errno = 0;
    read_all(out, file);
    int failed = ferror(file) ? errno : 0;
    fclose(file);
    if (failed) {
        return usage_error("--data %s cannot be read: %s", path, strerror(failed));
    }
    if (out->count == 0) {
        return usage_error("--data %s is empty; a text of more than --seq bytes is needed", path);
    }
    measure(out);
    return 0;
}

void corpus_free(struct corpus *corpus) {
    free(corpus->bytes);
    memset(corpus, 0, sizeof *corpus);
}
