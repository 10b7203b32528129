/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched_groups.h"

/* Forwards before the first I. A rank s ranks before the last runs s further ahead: half of what
 * interleaved 1F1B does, because F and I alone pass the ranks as fast.
 *
 * Where the first rank would run more than a group and the last group ahead of the last rank, ranks
 * could wait in a ring, as told at interleaved 1F1B; none runs further ahead than that. */
static int64_t warmup_of(const tpp_schedule_desc *d, const tpp__sched_groups *q, int32_t rank) {
    int64_t g = tpp__sched_groups_first(q), most = g + tpp__sched_groups_last(q);
    int64_t ahead = d->ranks - 1 - rank;
    if (d->chunks > 1 && ahead > most)
        ahead = most;
    int64_t warmup = ahead + (d->chunks - 1) * g, all = (int64_t)d->chunks * d->micros;
    return warmup < all ? warmup : all;
}

/* W follows `rank` turns behind I: a rank holds up to W what the first rank holds up to I, and the
 * waits at the end, longest on the last rank, are filled with W. */
void tpp__sched_zb_interleaved(tpp__sched_emitter *e, const tpp_schedule_desc *d, int32_t rank) {
    tpp__sched_groups q = tpp__sched_groups_of(d);
    int64_t n = (int64_t)d->micros * d->chunks;
    int64_t warmup = warmup_of(d, &q, rank), lag = rank < n ? rank : n;
    for (int64_t k = 0; k < warmup; k++)
        tpp__sched_emit_turn(e, d, &q, rank, TPP_OP_F, k);
    for (int64_t k = 0; k < n; k++) {
        if (k < n - warmup)
            tpp__sched_emit_turn(e, d, &q, rank, TPP_OP_F, warmup + k);
        tpp__sched_emit_turn(e, d, &q, rank, TPP_OP_I, k);
        if (k >= lag)
            tpp__sched_emit_turn(e, d, &q, rank, TPP_OP_W, k - lag);
    }
    for (int64_t k = n - lag; k < n; k++)
        tpp__sched_emit_turn(e, d, &q, rank, TPP_OP_W, k);
}
