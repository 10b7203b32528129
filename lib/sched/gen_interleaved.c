/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/generate.h"
#include "sched/sched_groups.h"

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
static int64_t warmup_of(const tpp_schedule_desc *d, const tpp__sched_groups *q, int32_t rank) {
    int64_t v = d->chunks, p = d->ranks;
    int64_t g = tpp__sched_groups_first(q), last = tpp__sched_groups_last(q);
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
    tpp__sched_groups q = tpp__sched_groups_of(d);
    int64_t n = (int64_t)d->micros * d->chunks;
    int64_t warmup = warmup_of(d, &q, rank);
    for (int64_t k = 0; k < warmup; k++)
        tpp__sched_emit_turn(e, d, &q, rank, TPP_OP_F, k);
    for (int64_t k = 0; k < n; k++) {
        if (k < n - warmup)
            tpp__sched_emit_turn(e, d, &q, rank, TPP_OP_F, warmup + k);
        tpp__sched_emit_turn(e, d, &q, rank, TPP_OP_B, k);
    }
}
