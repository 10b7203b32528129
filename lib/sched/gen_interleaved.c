/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/generate.h"

/* Micro-batches pass the chunks in groups: all of a group through chunk 0, then all of it through
 * chunk 1, ... The first `wides` groups have `wide` micro-batches, the others `narrow`. */
typedef struct groups {
    int64_t wides, wide, narrow;
} groups;

static groups groups_of(const tpp_schedule_desc *d) {
    int32_t m = d->micros, g = d->group;
    if (g > 0)
        return (groups){m / g, g, m % g};
    /* Dealt evenly, because a last group shorter than the pipeline would stall it. */
    int32_t rounds = m < d->ranks ? 1 : m / d->ranks;
    return (groups){m % rounds, m / rounds + 1, m / rounds};
}

/* The k-th forward of a rank, and with the chunks counted from the last one its k-th backward. */
static void emit_kth(tpp__sched_emitter *e, const tpp_schedule_desc *d, const groups *q,
                     int32_t rank, int32_t op, int64_t k) {
    int64_t v = d->chunks;
    int64_t wide_ids = q->wides * q->wide * v;
    int64_t g = q->wide, before = 0;
    if (k >= wide_ids) {
        k -= wide_ids;
        before = q->wides * q->wide;
        g = q->narrow;
    }
    int64_t chunk = k % (v * g) / g;
    int64_t micro = before + k / (v * g) * g + k % g;
    if (op == TPP_OP_B)
        chunk = v - 1 - chunk;
    tpp__sched_emit(e, op, (int32_t)(chunk * d->ranks + rank), (int32_t)micro);
}

/* Forwards before the first backward. On the last rank that is the backward of micro-batch 0
 * through the last chunk, whence (v - 1) g; a rank s ranks before it runs 2 s further ahead, a
 * message there and one back.
 *
 * That is the textbook's number. It lets ranks wait in a ring if the first runs more than a group
 * and the last group ahead of the last one: a forward of the last group there waits for a forward
 * of the last rank, that for the backwards before it, one of an earlier chunk among them, and that
 * for the first rank. Two ways out. All ranks run further ahead, just so far that the backwards in
 * question are of the last chunk, which wait for no rank; this must not close another ring, with
 * the backwards before those, whence the condition. Or no rank runs further ahead than it may,
 * which is slower. */
static int64_t warmup_of(const tpp_schedule_desc *d, const groups *q, int32_t rank) {
    int64_t v = d->chunks, p = d->ranks;
    int64_t g = q->wides > 0 ? q->wide : q->narrow;
    int64_t last = q->narrow > 0 ? q->narrow : q->wide;
    int64_t ahead = 2 * (p - 1 - rank);
    if (v > 1 && 2 * (p - 1) > g + last) {
        if (g >= p && (v - 2) * last < 2 * (g - p + 2))
            ahead += (v - 1) * last - 1;
        else if (ahead > g + last)
            ahead = g + last;
    }
    int64_t warmup = ahead + (v - 1) * g, all = v * d->micros;
    return warmup < all ? warmup : all;
}

void tpp__sched_interleaved(tpp__sched_emitter *e, const tpp_schedule_desc *d, int32_t rank) {
    groups q = groups_of(d);
    int64_t n = (int64_t)d->micros * d->chunks;
    int64_t warmup = warmup_of(d, &q, rank);
    for (int64_t k = 0; k < warmup; k++)
        emit_kth(e, d, &q, rank, TPP_OP_F, k);
    for (int64_t k = 0; k < n; k++) {
        if (k < n - warmup)
            emit_kth(e, d, &q, rank, TPP_OP_F, warmup + k);
        emit_kth(e, d, &q, rank, TPP_OP_B, k);
    }
}
