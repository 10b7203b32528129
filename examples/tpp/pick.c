/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "pick.h"

#include <math.h>
#include <stdlib.h>

static uint64_t mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

double pick_random(uint64_t seed, uint64_t sequence, uint64_t position) {
    uint64_t word = mixed(mixed(mixed(seed) ^ sequence) ^ position);
    return ldexp((double)(word >> 11), -53);
}

/* Likeliest first, equal ones by id. */
static int compare(const void *a, const void *b) {
    const struct pick_entry *x = a;
    const struct pick_entry *y = b;
    if (x->logit != y->logit) {
        return x->logit > y->logit ? -1 : 1;
    }
    return (x->id > y->id) - (x->id < y->id);
}

static int32_t likeliest(const double *logits, int32_t count) {
    int32_t best = 0;
    for (int32_t i = 1; i < count; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

/* How many of the sorted entries are kept; *total is the sum of their weights. */
static int32_t keep(const struct pick_rule *rule, struct pick_entry *room, int32_t count,
                    double *total) {
    double all = 0;
    int32_t kept = 0;
    if (rule->top_k > 0 && rule->top_k < count) {
        count = rule->top_k;
    }
    for (int32_t i = 0; i < count; i++) {
        room[i].weight = exp((room[i].logit - room[0].logit) / rule->temperature);
        all += room[i].weight;
    }
    *total = 0;
    while (kept < count && (kept == 0 || *total < rule->top_p * all)) {
        *total += room[kept++].weight;
    }
    return kept;
}

int32_t pick(const struct pick_rule *rule, const double *logits, int32_t count, uint64_t sequence,
             uint64_t position, struct pick_entry *room) {
    if (rule->temperature <= 0) {
        return likeliest(logits, count);
    }
    for (int32_t i = 0; i < count; i++) {
        room[i] = (struct pick_entry){logits[i], 0, i};
    }
    qsort(room, (size_t)count, sizeof *room, compare);
    double total = 0;
    int32_t kept = keep(rule, room, count, &total);
    double left = pick_random(rule->seed, sequence, position) * total;
    int32_t i = 0;
    while (i < kept - 1 && left >= room[i].weight) {
        left -= room[i++].weight;
    }
    return room[i].id;
}
