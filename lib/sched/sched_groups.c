/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched_groups.h"

tpp__sched_groups tpp__sched_groups_of(const tpp_schedule_desc *d) {
    int32_t m = d->micros, g = d->group;
    if (g > 0)
        return (tpp__sched_groups){m / g, g, m % g};
    /* Dealt evenly, because a last group shorter than the pipeline would stall it. */
    int32_t rounds = m < d->ranks ? 1 : m / d->ranks;
    return (tpp__sched_groups){m % rounds, m / rounds + 1, m / rounds};
}

void tpp__sched_emit_turn(tpp__sched_emitter *e, const tpp_schedule_desc *d,
                          const tpp__sched_groups *q, int32_t rank, int32_t op, int64_t k) {
    int64_t v = d->chunks;
    int64_t wide_turns = q->wides * q->wide * v;
    int64_t g = q->wide, before = 0;
    if (k >= wide_turns) {
        k -= wide_turns;
        before = q->wides * q->wide;
        g = q->narrow;
    }
    int64_t chunk = k % (v * g) / g;
    int64_t micro = before + k / (v * g) * g + k % g;
    if (op != TPP_OP_F)
        chunk = v - 1 - chunk;
    tpp__sched_emit(e, op, (int32_t)(chunk * d->ranks + rank), (int32_t)micro);
}
